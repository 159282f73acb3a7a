#!/usr/bin/env python3
"""Writes tests/golden/data/word_labels.json: hashes of ids and labels as run_ner.py makes them of public sets.
Needs transformers and numpy; the tests do not.

Usage: tools/make_word_label_goldens.py DATA_DIR     (from the repository root)
"""
import json
import pathlib
import sys

from make_squad_goldens import Fnv64
from transformers import BertTokenizerFast

CASES = [  # file, columns of word and tag (from 0), vocabulary, max_seq_length, label_all_tokens
    ("ner/uner_en_ewt/en_ewt-ud-dev.iob2", 1, 2, "bert-base-uncased", 128, False),
    ("ner/uner_en_ewt/en_ewt-ud-dev.iob2", 1, 2, "bert-base-uncased", 24, True),
    ("ner/uner_zh_gsd/zh_gsd-ud-dev.iob2", 1, 2, "bert-base-multilingual-cased", 40, False),
    ("ner/wnut17/emerging.dev.conll", 0, 1, "bert-base-uncased", 24, True),
    ("pos/ud_en_ewt/en_ewt-ud-dev.conllu", 1, 3, "bert-base-uncased", 32, False),
]


def read(path, word, tag):
    """Words and tags of each sentence."""
    words, tags = [], []
    for line in path.read_text("utf-8").split("\n") + [""]:
        fields = line.split("\t")
        if line.strip("\t") == "":
            if words:
                yield words, tags
            words, tags = [], []
        elif len(fields) > 1 and (word == 0 or fields[0].isdigit()):
            words.append(fields[word])
            tags.append(fields[tag])


def aligned(words_of_tokens, ids, inner, all_tokens):
    """A label a token; -100 for special tokens and, unless all_tokens, for those after a word's first."""
    out, before = [], None
    for word in words_of_tokens:
        if word is None:
            out.append(-100)
        elif word != before:
            out.append(ids[word])
        else:
            out.append(inner[ids[word]] if all_tokens else -100)
        before = word
    return out


def case(data, file, word, tag, vocabulary, max_length, all_tokens):
    # As the C++ side reads this vocab.txt without a configuration.
    tokenizer = BertTokenizerFast(vocab=str(data / "vocab" / vocabulary / "vocab.txt"), do_lower_case=True)
    sentences = list(read(data / file, word, tag))
    labels = sorted({t for _, tags in sentences for t in tags})
    inner = []
    for i, label in enumerate(labels):
        inside = label.replace("B-", "I-")
        inner.append(labels.index(inside) if label.startswith("B-") and inside in labels else i)
    whole, labelled = Fnv64(), 0
    for words, tags in sentences:
        e = tokenizer(words, truncation=True, max_length=max_length, is_split_into_words=True)
        of_tokens = aligned(e.word_ids(), [labels.index(t) for t in tags], inner, all_tokens)
        labelled += len({w for w in e.word_ids() if w is not None})
        whole.add([len(of_tokens)] + e["input_ids"] + of_tokens)
    return {"file": file, "vocabulary": vocabulary, "max_seq_length": max_length, "label_all_tokens": all_tokens,
            "labels": labels, "labelled_words": labelled, "fnv64": f"{whole.hash:016x}"}


def main():
    data = pathlib.Path(sys.argv[1])
    rows = ",\n".join(json.dumps(case(data, *c)) for c in CASES)
    target = pathlib.Path(__file__).resolve().parent.parent / "tests/golden/data/word_labels.json"
    target.write_text("[\n" + rows + "\n]\n")


if __name__ == "__main__":
    main()
