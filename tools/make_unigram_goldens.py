#!/usr/bin/env python3
"""Writes lathe/tokenizers/testdata/unigram_goldens.json: as make_tokenizer_goldens.py, for Unigram models and for what
stands before them, and for byte-level BPE after NFC (ModernBERT's form).

    python3 tools/make_unigram_goldens.py [data folder, default ../shared/data]

The vocabularies come from text/sample_text.txt and a part of XQuAD in several languages.
"""
import base64
import collections
import json
import math

import make_tokenizer_goldens as common
from charsmap import charsmap
from make_tokenizer_goldens import DATA, decode_case, fields_case, normalizer_case, random_case, squad_case
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

common.TARGET = common.ROOT / "lathe/tokenizers/testdata/unigram_goldens.json"
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]
FLAGGED = [AddedToken("<tag>", lstrip=True, rstrip=True, normalized=False), AddedToken(" hello ", normalized=False),
           AddedToken("q", rstrip=True, normalized=True), AddedToken("Ünï", normalized=True, single_word=True)]
TEXTS = ["", " ", "   ", "Hello, World!", "  I'll  say they've\n\n 12\u00a0x", "naïve café <mask> 世界peace </s>end", "a" * 300,
         "\u0301\u200b", "e\u0301e\u0323\u0302 \u1e69 q\u0307\u0323 \u212b\u2126", "\u1100\u1161\u11a8 \uac00\u11a8 각 \uac01",
         "\U0001f469\u200d\U0001f469\u200d\U0001f467 \u00a9\u200d\u00a9\u0301 \U0001f1e9\U0001f1ea", "ﬁ ½ ２０２６ Ａ㌔ ﷺ",
         "مرحبا بالعالم \u0600a", "क्षि नमस्ते \u0915\u094d\u0937\u0301", "สวัสดีชาวโลก", "a\u0000b\u0001c\u007f\u00ad\r\nd\re", "\u0001\u0002ab c",
         "\u2581\u2581a \u2581b", "``quotes''  and  more", "\ufffd \ufeffx\u3000y\u00a0\u0301z", "<unk> <0x41> x", "\tTabs\tand\u2003spaces "]


def texts():
    yield (DATA / "text/sample_text.txt").read_text("utf-8")
    for language in "en de vi ru zh".split():
        for article in json.loads((DATA / f"xquad/xquad.{language}-a.json").read_text("utf-8"))["data"][:1]:
            yield from (p["context"] for p in article["paragraphs"])


def nmt_nfkc():
    """A map in the manner of SentencePiece's nmt_nfkc: one code point, or a base and marks, to its NFKC."""
    nfkc, nfkd = normalizers.NFKC().normalize_str, normalizers.NFKD().normalize_str
    out = {chr(c): " " for c in (9, 10, 12, 13, 0xA0, 0x1680, 0x2028, 0x2029, 0x3000, 0xFEFF, *range(0x2000, 0x2010))}
    out |= {chr(c): "" for c in (*range(1, 9), 11, *range(14, 32), 0x7F, 0x8F, 0x9F, 0xAD)}
    chars = [*range(0xA1, 0x250), *range(0x385, 0x3D7), *range(0x958, 0x960), *range(0x1E00, 0x1EFA), *range(0x2100, 0x2140),
             *range(0xAC00, 0xAC40), *range(0xFB00, 0xFB07), *range(0xFF01, 0xFF60), 0x3314, 0xFDFA, 0x1D15E, 0x2F800]
    for ch in map(chr, chars):
        if nfkc(ch) != ch:
            out[ch] = nfkc(ch)
        parts = nfkd(ch)
        if ch not in out and len(parts) > 1:
            out[parts] = ch
    return charsmap({k: v for k, v in out.items() if k != v})


def vocabulary(size, byte_fallback=False):
    """The parts of words that cover most of the texts, by how often they occur.  (The trainer's result depends on the
    order in which threads add up.)"""
    counts = collections.Counter()
    for word, n in collections.Counter(w for text in texts() for w in text.split()).items():
        word = "\u2581" + word
        for begin in range(len(word)):
            for end in range(begin + 1, min(begin + 8, len(word)) + 1):
                counts[word[begin:end]] += n
    total = sum(counts.values())
    parts = sorted(counts, key=lambda part: (-counts[part] * (4 if len(part) == 1 else len(part)), part))[:size]
    pieces = [(token, 0.0) for token in SPECIAL]
    pieces += [(part, round(math.log(counts[part] / total), 3)) for part in parts]
    if byte_fallback:
        pieces += [(f"<0x{byte:02X}>", 0.0) for byte in range(256)]
    return pieces


def assembled(pieces, normalizer=None, pre_tokenizer=None, decoder=None, byte_fallback=False):
    t = Tokenizer(models.Unigram(pieces, 3, byte_fallback))
    if normalizer is not None:
        t.normalizer = normalizer
    if pre_tokenizer is not None:
        t.pre_tokenizer = pre_tokenizer
    t.decoder = decoder or decoders.Metaspace()
    t.add_special_tokens(SPECIAL + [AddedToken("<mask>", lstrip=True)])
    t.post_processor = processors.TemplateProcessing(single="<s> $A </s>", pair="<s> $A </s> </s> $B:1 </s>:1",
                                                     special_tokens=[("<s>", 0), ("</s>", 2)])
    return t


def unigram_tokenizers():
    n, p = normalizers, pre_tokenizers
    pieces, bytes_too = vocabulary(700), vocabulary(450, True)
    precompiled = n.Precompiled(nmt_nfkc())
    splits = p.Sequence([p.WhitespaceSplit(), p.Metaspace(prepend_scheme="always")])
    out = {
        "xlm-roberta": assembled(pieces, precompiled, splits),
        "deberta": assembled(pieces, n.Sequence([n.Strip(), precompiled, n.Replace(Regex(" {2,}"), " ")]), p.Metaspace()),
        "albert": assembled(pieces, n.Sequence([n.Replace("``", '"'), n.Replace("''", '"'), n.NFKD(), n.StripAccents(),
                                                n.Lowercase(), precompiled]), p.Metaspace(prepend_scheme="first")),
        "bytes": assembled(bytes_too, n.Sequence([n.Nmt(), n.NFKC()]), p.Metaspace(prepend_scheme="never"),
                           decoders.Metaspace(prepend_scheme="never"), True),
        "punctuation": assembled(pieces, n.Sequence([n.StripAccents(), n.NFC(), n.Lowercase(), n.StripAccents(), n.Strip(False, True)]),
                                 p.Sequence([p.Punctuation(), p.Metaspace(split=False)])),
        "bare": assembled(pieces, n.NFD()),
    }
    flagged = Tokenizer.from_str(out["xlm-roberta"].to_str())
    flagged.add_tokens(FLAGGED)
    first = Tokenizer.from_str(out["albert"].to_str())
    first.add_tokens(FLAGGED)
    return {**out, "xlm-flagged": flagged, "albert-flagged": first}


def modernbert():
    t = Tokenizer(models.BPE())
    t.normalizer = normalizers.NFC()
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.train_from_iterator(texts(), trainers.BpeTrainer(
        vocab_size=400, show_progress=False, special_tokens=[], initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    t.decoder = decoders.ByteLevel()
    t.add_tokens([AddedToken("|||IP_ADDRESS|||", normalized=True), AddedToken("<|padding|>", special=True, normalized=False)])
    t.add_tokens([AddedToken(" " * n, normalized=True) for n in range(24, 1, -1)])
    t.add_special_tokens([AddedToken("[MASK]", lstrip=True) if x == "[MASK]" else x for x in "[UNK] [CLS] [SEP] [PAD] [MASK]".split()])
    cls, sep = (t.token_to_id(x) for x in ("[CLS]", "[SEP]"))
    t.post_processor = processors.TemplateProcessing(single="[CLS]:0 $A:0 [SEP]:0", pair="[CLS]:0 $A:0 [SEP]:0 $B:0 [SEP]:0",
                                                     special_tokens=[("[CLS]", cls), ("[SEP]", sep)])
    return t


def main():
    cases, encodings, configurations = [], [], {}

    def case(kind, name, result, **more):
        cases.append({"kind": kind, "tokenizer": name, **more, **result})
        print(cases[-1], flush=True)

    tokenizers = {**unigram_tokenizers(), "modernbert": modernbert()}
    shared = {}  # what several files have in common, once
    for name, t in tokenizers.items():
        file = json.loads(t.to_str())
        for key in ("vocab", "merges"):
            value = file["model"].get(key)
            if value and name != "bytes":
                shared.setdefault(f"{file['model']['type']}.{key}", value)
                file["model"][key] = None
        text = json.dumps(file)
        map64 = base64.b64encode(nmt_nfkc()).decode()
        shared["precompiled_charsmap"] = map64
        configurations[name] = {"shared": json.loads(text.replace(map64, "precompiled_charsmap"))}
        case("random", name, random_case(t))
        case("decode", name, decode_case(t))
        if name in ("xlm-roberta", "albert", "bytes", "modernbert", "punctuation"):
            case("normalizer", name, normalizer_case(t))
        if name in ("xlm-roberta", "modernbert"):
            case("fields", name, fields_case(t, "glue/MRPC/dev.tsv"), file="glue/MRPC/dev.tsv")
        for language in "ar en hi zh".split() if name == "xlm-roberta" else []:
            file = f"xquad/xquad.{language}-a.json"
            case("squad", name, squad_case(t, file), file=file)
        for text in TEXTS if name in ("xlm-roberta", "bytes", "modernbert") else []:
            e = t.encode(text)
            encodings.append({"tokenizer": name, "text": text, "ids": e.ids, "tokens": [t.id_to_token(i) for i in e.ids],
                              "offsets": e.offsets, "decoded": t.decode(e.ids)})
    common.write({"made_with": "tokenizers " + common.tokenizers.__version__, "shared": shared, "tokenizers": configurations,
                  "cases": cases, "encodings": encodings})


if __name__ == "__main__":
    main()
