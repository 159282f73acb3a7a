#!/usr/bin/env python3
"""Writes lathe/tokenizers/testdata/goldens.json: what the `tokenizers` package makes of the test texts.

    python3 tools/make_tokenizer_goldens.py [data folder, default ../shared/data]

Each case is a count of encodings, a count of tokens and a CRC-32 over all of them, so that the file stays small; the
C++ test builds the same texts from the same data files and from the same random numbers.
"""
import json
import pathlib
import sys
import zlib

import numpy as np
import tokenizers
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

ROOT = pathlib.Path(__file__).resolve().parent.parent
DATA = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT.parent / "shared/data"
TARGET = ROOT / "lathe/tokenizers/testdata/goldens.json"
LANGUAGES = "ar de el en hi ru th tr vi zh".split()
GLUE = [f"glue/{task}/{part}.tsv" for task in ("MRPC", "CoLA", "STS-B", "WNLI") for part in ("train", "dev", "test")]
GLUE = [name for name in GLUE if (DATA / name).exists()] + ["glue/QNLI/dev-a.tsv"]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
STRATEGIES = ["none", "longest_first", "only_first", "only_second"]

# A vocabulary small enough to keep in the file, for the random texts.
WORDS = (
    SPECIAL
    + [prefix + c for prefix in ("", "##") for c in "abcdefghijklmnopqrstuvwxyz0123456789"]
    + list("!?.,;:'()[]-`\u3002\uff01\u4e16\u754c\u1f6b\u00df\u0131\u01c6")
    + "the quick hello ##llo ##ing un ##able \u03c3\u03b1 ##\u03c3 ##\u03b1 \u0439 ##\u0438 \u0438 \u00e9 ##\u00e9 \u1100 ##\u1161 ##\u11a8".split()
    + ["\uac00", "##\uac01", "##\U0001d165", "A", "B", "##A", "\u0130", "i\u0307", "##\u0307", "##\u3099", "\u304b", "\u304c"]
)
ALPHABET = list("aabbehilnoquyzABHQZ019 \t\n!?.,;'[]-#") + [chr(c) for c in (
    0, 1, 0x7F, 0x85, 0xA0, 0xAD, 0xC5, 0xDF, 0xE9, 0x130, 0x131, 0x1C4, 0x300, 0x301, 0x307, 0x323, 0x327, 0x344, 0x345,
    0x37E, 0x391, 0x3A3, 0x3C3, 0x439, 0x5B0, 0x5C1, 0x600, 0x93C, 0xE33, 0xF71, 0xF73, 0xF75, 0x1100, 0x1161, 0x11A8,
    0x1B44, 0x1E9E, 0x1EBF, 0x1FEF, 0x1FFD, 0x200B, 0x200D, 0x2028, 0x20DD, 0x212A, 0x2126, 0x3000, 0x3002, 0x302E,
    0x304B, 0x304C, 0x3099, 0x4E16, 0x754C, 0xAC00, 0xAC01, 0xD7A3, 0xE000, 0xF900, 0xFA0E, 0xFEFF, 0xFF01, 0xFF21,
    0xFFFD, 0x10400, 0x11938, 0x1D15E, 0x1D165, 0x1F600, 0x20000, 0x2B81E, 0x2B8FF, 0x2F800, 0xE0001, 0x10FFFD)]
LITERALS = ["[SEP]", "[MASK]", "[sep]", " <tag> ", "<tag", "tag>", "Ünï", "unï", " hello ", "HELLO", "##", "[UNK]"]
FLAGGED = [
    AddedToken("<tag>", lstrip=True, rstrip=True, normalized=False),
    AddedToken("<tag", normalized=False),
    AddedToken("tag", single_word=True, normalized=False),
    AddedToken("Ünï", normalized=True),
    AddedToken("hello", single_word=True, normalized=True, lstrip=True),
    AddedToken("q", rstrip=True, normalized=True),
]
TEXTS = ["", "Hello, World!", "Ünïcode [MASK] ﬁn\u00a0x", "naïve café\u0301 世界peace [SEP]end", "a" * 100, "a" * 101, "\u0301\u200b"]


def bert(vocab, lower=True, strip=None, chinese=True, clean=True):
    t = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))
    t.normalizer = normalizers.BertNormalizer(clean, chinese, strip, lower)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.decoder = decoders.WordPiece(prefix="##")
    t.add_special_tokens(SPECIAL)
    cls, sep = (t.token_to_id(x) for x in ("[CLS]", "[SEP]"))
    t.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0", pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1", special_tokens=[("[CLS]", cls), ("[SEP]", sep)]
    )
    return t


def read_vocab(name):
    lines = (DATA / "vocab" / name / "vocab.txt").read_text("utf-8").split("\n")
    return {token.rstrip(): i for i, token in enumerate(lines[:-1])}


def real_tokenizers():
    """Name -> (tokenizer, how the C++ side gets it: a folder of the data and a tokenizer_config.json)."""
    out = {}
    for name, lower in (("uncased", True), ("cased", False), ("multilingual-cased", False)):
        vocab = read_vocab("bert-base-" + name)
        out[name] = (bert(vocab, lower), {"folder": "vocab/bert-base-" + name, "config": {"do_lower_case": lower}})
    vocab = read_vocab("bert-base-multilingual-cased")
    config = {"do_lower_case": True, "strip_accents": False, "tokenize_chinese_chars": False}
    out["multilingual-lower"] = (bert(vocab, True, False, False), {"folder": "vocab/bert-base-multilingual-cased", "config": config})
    mini = Tokenizer.from_file(str(DATA / "all-MiniLM-L6-v2/tokenizer.json"))
    mini.no_padding()
    mini.no_truncation()
    out["MiniLM"] = (mini, {"folder": "all-MiniLM-L6-v2"})
    return out


def small_tokenizers():
    """Name -> tokenizer; the C++ side gets its tokenizer.json."""
    vocab = {token: i for i, token in enumerate(WORDS)}
    generic = bert(vocab)
    generic.normalizer = normalizers.Sequence([normalizers.NFD(), normalizers.Lowercase(), normalizers.StripAccents()])
    generic.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation()])
    generic.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    odd = bert(vocab, True, None, True, False)
    odd.post_processor = processors.TemplateProcessing(
        single="[CLS]:2 $A:3", pair="$A:1 [SEP]:2 [SEP]:2 $B:0 [CLS]:3", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    plain = bert(vocab, False)
    plain.normalizer = normalizers.Lowercase()
    plain.post_processor = processors.TemplateProcessing(single="$A:0", pair="$A:0 $B:1", special_tokens=[])
    out = {"small": bert(vocab), "small-cased": bert(vocab, False), "small-strip": bert(vocab, False, True),
           "small-accents": bert(vocab, True, False), "generic": generic, "odd": odd, "plain": plain}
    for name in ("small", "small-cased", "generic"):
        flagged = Tokenizer.from_str(out[name].to_str())
        flagged.add_tokens(FLAGGED)
        out[name + "-flagged"] = flagged
    return out


class Digest:
    def __init__(self):
        self.encodings = self.tokens = self.crc = 0

    def add(self, *encodings):
        for e in encodings:
            rows = [[len(e.ids)], e.ids, e.type_ids, np.array(e.offsets, dtype="<i4").ravel(),
                    [-1 if x is None else x for x in e.sequence_ids], [-1 if x is None else x for x in e.word_ids]]
            self.crc = zlib.crc32(np.concatenate([np.asarray(r, dtype="<i4") for r in rows]).tobytes(), self.crc)
            self.encodings += 1
            self.tokens += len(e.ids)

    def refuse(self):
        self.crc = zlib.crc32(b"refused", self.crc)

    def result(self):
        return {"encodings": self.encodings, "tokens": self.tokens, "crc": self.crc}


class Random:
    """Numerical Recipes' linear congruential generator; its upper half."""

    def __init__(self):
        self.state = 1

    def below(self, n):
        self.state = (self.state * 1664525 + 1013904223) % 2**32
        return (self.state >> 16) % n


def random_text(random):
    return "".join(
        LITERALS[random.below(len(LITERALS))] if random.below(8) == 0 else ALPHABET[random.below(len(ALPHABET))]
        for _ in range(random.below(40))
    )


def fields_case(t, name):
    digest = Digest()
    for line in (DATA / name).read_bytes().decode("utf-8", "replace").split("\n"):
        fields = line.split("\t")
        t.no_truncation()
        digest.add(*t.encode_batch(fields))
        t.enable_truncation(48, stride=8)
        for e in t.encode_batch(list(zip(fields, fields[1:]))):
            digest.add(e, *e.overflowing)
    t.no_truncation()
    return digest.result()


def squad_case(t, name):
    digest = Digest()
    t.enable_truncation(384, stride=128, strategy="only_second")
    for article in json.loads((DATA / name).read_text("utf-8"))["data"]:
        pairs = [(q["question"].lstrip(" "), p["context"]) for p in article["paragraphs"] for q in p["qas"]]
        for e in t.encode_batch(pairs):
            digest.add(e, *e.overflowing)
    t.no_truncation()
    return digest.result()


def code_points():
    return [chr(c) for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]


def code_point_case(t):
    digest = Digest()
    chars = code_points()
    for start in range(0, len(chars), 10000):
        for e in t.encode_batch([x for c in chars[start : start + 10000] for x in ("a" + c + "b", c)]):
            digest.add(e)
    return digest.result()


def normalizer_case(t):
    normalize = t.normalizer.normalize_str
    crc = 0
    for c in code_points():
        crc = zlib.crc32(normalize("e\u0323" + c + "\u0301b").encode(), crc)
    return {"crc": crc}


def random_case(t):
    random, digest = Random(), Digest()
    for _ in range(6000):
        a, b = random_text(random), random_text(random)
        pair, add_special = random.below(2) == 1, random.below(4) > 0
        strategy, max_length, stride = STRATEGIES[random.below(4)], 4 + random.below(24), random.below(8)
        t.no_truncation()
        try:
            if strategy != "none":
                if add_special and max_length < t.num_special_tokens_to_add(pair):
                    raise ValueError  # tokenizers subtracts below zero here and truncates nothing
                t.enable_truncation(max_length, stride=stride, strategy=strategy)
            e = t.encode(a, b, add_special_tokens=add_special) if pair else t.encode(a, add_special_tokens=add_special)
            digest.add(e, *e.overflowing)
        except BaseException:  # its panics are no Exception
            digest.refuse()
    t.no_truncation()
    return digest.result()


def decode_case(t):
    random, crc = Random(), 0
    for _ in range(500):
        ids = [random.below(t.get_vocab_size() + 2) for _ in range(random.below(12))]
        crc = zlib.crc32(t.decode(ids, skip_special_tokens=random.below(2) == 1).encode(), crc)
    return {"crc": crc}


def write(out):
    rows = []
    for key, value in out.items():
        text = "[\n  " + ",\n  ".join(map(json.dumps, value)) + "\n ]" if isinstance(value, list) else json.dumps(value)
        rows.append(f" {json.dumps(key)}: {text}")
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text("{\n" + ",\n".join(rows) + "\n}\n")


def main():
    cases, encodings, configurations = [], [], {}

    def case(kind, name, result, **more):
        cases.append({"kind": kind, "tokenizer": name, **more, **result})
        print(cases[-1], flush=True)

    for name, t in small_tokenizers().items():
        configurations[name] = {"tokenizer.json": json.loads(t.to_str())}
        case("random", name, random_case(t))
        case("decode", name, decode_case(t))
        if "flagged" not in name:
            case("normalizer", name, normalizer_case(t))
    for name, (t, source) in real_tokenizers().items():
        configurations[name] = source
        case("code_points", name, code_point_case(t))
        if name != "multilingual-lower":
            for file in GLUE:
                case("fields", name, fields_case(t, file), file=file)
            for file in ("squad/dev-v1.1-a.json", "squad/train-v1.1-part.json"):
                case("squad", name, squad_case(t, file), file=file)
        for language in LANGUAGES if name != "MiniLM" else []:
            file = f"xquad/xquad.{language}-a.json"
            case("squad", name, squad_case(t, file), file=file)
        for text in TEXTS:
            e = t.encode(text)
            encodings.append({"tokenizer": name, "text": text, "ids": e.ids, "tokens": e.tokens, "offsets": e.offsets, "decoded": t.decode(e.ids)})
    out = {"made_with": "tokenizers " + tokenizers.__version__, "alphabet": "".join(ALPHABET), "literals": LITERALS,
           "tokenizers": configurations, "cases": cases, "encodings": encodings}
    write(out)


if __name__ == "__main__":
    main()
