#!/usr/bin/env python3
"""Makes lathe/tokenizers/testdata/decoder_goldens.json with the package tokenizers: small tokenizers with the pipelines of
decoders, and of each what it makes of a few texts: ids, offsets flat, and both decodings."""
import json
import pathlib
import random

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

FILE = pathlib.Path(__file__).resolve().parents[1] / "lathe" / "tokenizers" / "testdata" / "decoder_goldens.json"
WORDS = "the old bridge of stone turns in a new red ship, who opened it? water runs 12 to 1995 years; I'm here, they'll see".split()
PIECES = ["'s", "'S", "'\u017f", "'RE", "n't", " ", "  ", "\n", "\r\n", "\t", "1", "12", "1234567", "\u00e9", "\u00df", "\u0130", "word",
          "W\u00f6rd", "\u4e2d\u6587", "\ud55c\uad6d", "\U0001f642", "\u0627", "\u0663", "\u2167", "\u00b2", "<|im_start|>", "<|im_end|>",
          "<s>", "</s>", "_", "-", "...", "!!", "(", "\u00a0", "\u3000", "\u200b", "\u0301", "a\u0301", "x", "\x00", "\x7f"]
NUMBERS = {"llama3": "{1,3}", "qwen": ""}
PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
           r"\s+(?!\S)|\s+")
BYTES = [f"<0x{i:02X}>" for i in range(256)]


def some_texts():
    draw = random.Random(11)
    texts = ["", " ", "The old bridge.", "  two  blanks  ", "I'M here; they'LL see 12345 ships\n\n\nnow", "caf\u00e9 e\u0301 \ufb01n"]
    texts += [" ".join(draw.choice(WORDS) for _ in range(draw.randint(2, 9))) for _ in range(12)]
    return texts + ["".join(draw.choice(PIECES) for _ in range(draw.randint(1, 12))) for _ in range(60)]


def trained(tokenizer, special, size, alphabet):
    lines = [" ".join(random.Random(i).choices(WORDS, k=12)) for i in range(60)]
    tokenizer.train_from_iterator(lines, trainers.BpeTrainer(vocab_size=size, special_tokens=special, initial_alphabet=alphabet,
                                                             show_progress=False))
    return tokenizer


def byte_level(before, normalizer=None, **bpe):
    tokenizer = Tokenizer(models.BPE(**bpe))
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(before)
    tokenizer.decoder = decoders.ByteLevel()
    return trained(tokenizer, ["<|endoftext|>", "<|im_start|>", "<|im_end|>"], 330, pre_tokenizers.ByteLevel.alphabet())


def split(pattern):
    return [pre_tokenizers.Split(Regex(pattern), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]


def with_bytes(normalizer, before, strips):
    """Pieces with a mark for the blank, and bytes of what has no token."""
    tokenizer = Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    tokenizer.normalizer = normalizer
    if before:
        tokenizer.pre_tokenizer = before
    trained(tokenizer, ["<unk>", "<s>", "</s>", *BYTES], 340, [])
    file = json.loads(tokenizer.to_str())
    file["model"].update(byte_fallback=True, fuse_unk=True, unk_token="<unk>")
    file["added_tokens"] = [token for token in file["added_tokens"] if token["content"] not in BYTES]
    tokenizer = Tokenizer.from_str(json.dumps(file))
    strip = [decoders.Strip(" ", 1, 0)] if strips else []
    tokenizer.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), *strip])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 1)])
    return tokenizer


def main():
    blanks = normalizers.Replace(" ", "\u2581")
    families = {
        "llama3": byte_level(split(PATTERN % NUMBERS["llama3"]), ignore_merges=True),
        "qwen": byte_level(split(PATTERN % NUMBERS["qwen"]), normalizers.NFC()),
        "smollm": byte_level([pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]),
        "llama2": with_bytes(normalizers.Sequence([normalizers.Prepend("\u2581"), blanks]), None, True),
        "gemma": with_bytes(blanks, pre_tokenizers.Split(" ", "merged_with_previous"), False),
        "mistral": with_bytes(normalizers.Sequence([]), pre_tokenizers.Metaspace(prepend_scheme="first", split=False), True),
    }
    texts, out = some_texts(), {}
    for name, tokenizer in families.items():
        made = [tokenizer.encode(text) for text in texts]
        out[name] = {"tokenizer": json.loads(tokenizer.to_str()), "ids": [e.ids for e in made],
                     "offsets": [[at for pair in e.offsets for at in pair] for e in made],
                     "decoded": [[tokenizer.decode(e.ids, skip_special_tokens=skip) for skip in (False, True)] for e in made]}
    FILE.write_text(json.dumps({"texts": texts, "families": out}, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
