#!/usr/bin/env python3
"""Writes lathe/tokenizers/testdata/words_goldens.json: digests of what the `tokenizers` package makes of texts given as
words, for the tokenizers of the other goldens (run their scripts first), and what transformers' AutoTokenizer makes of a
RoBERTa tokenizer with add_prefix_space=True. Needs tokenizers, transformers and numpy; the tests do not.

Usage: tools/make_words_goldens.py DATA_DIR     (from the repository root)
"""
import json
import pathlib
import tempfile

import make_tokenizer_goldens as common
from make_tokenizer_goldens import DATA, Digest, Random, random_text
from tokenizers import Tokenizer
from transformers import AutoTokenizer

TARGET = common.TARGET.parent / "words_goldens.json"
SETS = {"ner/uner_en_ewt/en_ewt-ud-dev.iob2": 1, "ner/uner_zh_gsd/zh_gsd-ud-dev.iob2": 1, "ner/wnut17/emerging.dev.conll": 0}
SET_TOKENIZERS = ["uncased", "multilingual-cased", "MiniLM", "roberta-base", "gpt2-prefixed", "xlm-roberta", "modernbert", "flagged"]
CLASSES = ["", "RobertaTokenizer", "RobertaTokenizerFast", "GPT2Tokenizer", "PreTrainedTokenizerFast", "TokenizersBackend"]


def stored_tokenizers():
    """Name -> tokenizer, of the other files of testdata."""
    out = {name: t for name, (t, _) in common.real_tokenizers().items()}
    for file in ("goldens", "byte_level_goldens", "unigram_goldens"):
        content = json.loads((TARGET.parent / f"{file}.json").read_text("utf-8"))
        for name, source in content["tokenizers"].items():
            if "tokenizer.json" in source:
                out[name] = Tokenizer.from_str(json.dumps(source["tokenizer.json"]))
            elif "shared" in source:
                out[name] = Tokenizer.from_str(json.dumps(with_shared(source["shared"], content["shared"])))
            elif "merges" in source:
                rest = source["rest"]
                rest["model"]["vocab"] = json.loads((DATA / source["vocab"]).read_text("utf-8"))
                rest["model"]["merges"] = [m for m in (DATA / source["merges"]).read_text("utf-8").split("\n")[1:] if m]
                out[name] = Tokenizer.from_str(json.dumps(rest))
    return out


def with_shared(value, shared):
    """What several tokenizers share, put back."""
    model = value["model"]
    for key in ("vocab", "merges"):
        if key in model and model[key] is None:
            model[key] = shared[f"{model['type']}.{key}"]
    text = json.dumps(value).replace('"precompiled_charsmap": "precompiled_charsmap"',
                                     '"precompiled_charsmap": ' + json.dumps(shared["precompiled_charsmap"]))
    return json.loads(text)


def random_case(t):
    """Made-up sentences, with blanks and special tokens in words, cut and whole."""
    random, digest = Random(), Digest()
    for _ in range(600):
        words = [random_text(random)[:random.below(12)] for _ in range(random.below(10))]
        add_special = random.below(4) > 0
        cut, max_length, stride = random.below(2) == 1, 4 + random.below(24), random.below(8)
        side = "left" if t.truncation and t.truncation["direction"] == "left" else "right"
        t.no_truncation()
        try:
            if cut:
                t.enable_truncation(max_length, stride=stride, direction=side)
            e = t.encode(words, is_pretokenized=True, add_special_tokens=add_special)
            digest.add(e, *e.overflowing)
        except BaseException:  # its panics are no Exception
            digest.refuse()
    t.no_truncation()
    return digest.result()


def sentences(file, column):
    """The words of each sentence."""
    sentence = []
    for line in (DATA / file).read_text("utf-8").split("\n") + [""]:
        fields = line.split("\t")
        if line.strip("\t") == "":
            if sentence:
                yield sentence
            sentence = []
        elif len(fields) > 1 and (column == 0 or fields[0].isdigit()):
            sentence.append(fields[column])


def set_case(t, file, column):
    """Real sentences, whole and in windows."""
    digest = Digest()
    for words in sentences(file, column):
        t.no_truncation()
        digest.add(t.encode(words, is_pretokenized=True))
        t.enable_truncation(24, stride=6)
        e = t.encode(words, is_pretokenized=True)
        digest.add(e, *e.overflowing)
    t.no_truncation()
    return digest.result()


def prefix_cases(stored):
    """AutoTokenizer as run_ner loads it for a RoBERTa model, by the class of the configuration."""
    out = []
    for name in ("roberta", "modern"):
        for kind in CLASSES:
            with tempfile.TemporaryDirectory() as folder:
                folder = pathlib.Path(folder)
                (folder / "tokenizer.json").write_text(stored[name].to_str())
                (folder / "config.json").write_text('{"model_type": "roberta"}')
                if kind:
                    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": kind}))
                t = AutoTokenizer.from_pretrained(folder, add_prefix_space=True)
                e = t(["hello", "the", " in", "x y"], is_split_into_words=True, return_offsets_mapping=True)
            out.append({"tokenizer": name, "class": kind, "ids": e["input_ids"], "words": [-1 if w is None else w for w in e.word_ids()],
                        "offsets": e["offset_mapping"]})
    return out


def main():
    cases = []
    stored = stored_tokenizers()
    for name, t in stored.items():
        cases.append({"kind": "random", "tokenizer": name, **random_case(t)})
        for file, column in SETS.items() if name in SET_TOKENIZERS else ():
            cases.append({"kind": "set", "tokenizer": name, "file": file, "column": column, **set_case(t, file, column)})
    rows = ",\n  ".join(map(json.dumps, cases))
    prefixes = ",\n  ".join(map(json.dumps, prefix_cases(stored)))
    TARGET.write_text(f'{{\n "cases": [\n  {rows}\n ],\n "prefixes": [\n  {prefixes}\n ]\n}}\n')


if __name__ == "__main__":
    main()
