#!/usr/bin/env python3
"""Writes tests/golden/data/seqeval.json: what the package seqeval gives for made-up tag sequences, the first of them in
full, all as hashes, and for the tags of real sets with made-up mistakes, as metrics.
Needs seqeval (1.2.2); the tests do not.

Usage: tools/make_seqeval_golden.py DATA_DIR     (from the repository root)
"""
import json
import pathlib
import struct
import sys
import warnings

from seqeval.metrics import accuracy_score, classification_report
from seqeval.metrics.sequence_labeling import get_entities

PARTS = [[f"{part}-{kind}" for part in parts for kind in kinds] + ["O"]
         for parts, kinds in (("BI", ("PER", "LOC")), ("BIES", ("PER", "LOC")), ("BIES", ("A",)))]
BARE = ["O", "PER", "LOC", ".", "SYM", "INTJ", "NOUN", "E", "S", "B", "I"]
WILD = ["B", "I-", "E-", "B-A-B", "I-A-B", "X-PER", "U-PER", "L-PER", "ü", "é-PER", "O-PER", "_", "-", "--", "B-_", ".", "O",
        "I-overall", "B-overall_f1", "S-micro avg", "帆", "I-帆"]
ALPHABETS = PARTS + [BARE, WILD, PARTS[1] + BARE + WILD]
SUFFIXES = ["PER-B", "PER-I", "LOC-I", "LOC-E", "PER-S", "O", "B", "I-PER", "-B", "A-B-I", "A-B-B", "ü", "B-é", "--", "."]
CASES, WHOLE = 10000, 150
SETS = [("ner/uner_en_ewt/en_ewt-ud-dev.iob2", 2), ("ner/uner_zh_gsd/zh_gsd-ud-train.iob2", 2),   # column of the tag, from 0
        ("ner/uner_zh_gsd/zh_gsd-ud-dev.iob2", 2), ("ner/wnut17/wnut17train.conll", 1),
        ("ner/wnut17/emerging.dev.conll", 1), ("pos/ud_en_ewt/en_ewt-ud-dev.conllu", 3)]


class Random:
    """The generator that the test repeats."""

    def __init__(self, seed):
        self.state = seed

    def below(self, count):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self.state >> 40) % count


class Fnv64:
    """FNV-1a over bytes."""

    def __init__(self):
        self.hash = 0xCBF29CE484222325

    def add(self, data):
        h = self.hash
        for byte in data:
            h = ((h ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
        self.hash = h


def made_up(number):
    """References, predictions and whether the part is a suffix; at least one tag."""
    random = Random(number + 1)
    suffix = random.below(8) == 0
    tags = SUFFIXES if suffix else ALPHABETS[random.below(len(ALPHABETS))]
    references = [[tags[random.below(len(tags))] for _ in range(random.below(13))] for _ in range(1 + random.below(4))]
    if not any(references):
        references[0] = [tags[0]]
    wrong = 1 + random.below(4)   # quarters of the tags
    predictions = [[tags[random.below(len(tags))] if random.below(4) < wrong else tag for tag in sentence]
                   for sentence in references]
    return references, predictions, suffix


def results(references, predictions, suffix):
    """As the metric seqeval of evaluate gives them."""
    report = classification_report(references, predictions, suffix=suffix, output_dict=True)
    overall = report.pop("micro avg")
    for name in ("macro avg", "weighted avg"):
        report.pop(name)
    names = {"precision": "precision", "recall": "recall", "f1": "f1-score", "number": "support"}
    scores = {kind: {name: row[source] for name, source in names.items()} for kind, row in report.items()}
    for name in ("precision", "recall", "f1"):
        scores["overall_" + name] = overall[names[name]]
    scores["overall_accuracy"] = accuracy_score(references, predictions)
    return scores


def metrics(scores):
    """As run_ner reports them with --return_entity_level_metrics."""
    out = {}
    for key, value in scores.items():
        if isinstance(value, dict):
            for name, number in value.items():
                out[f"{key}_{name}"] = float(number)
        else:
            out[key] = float(value)
    return out


def read_tags(path, column):
    """The tags of each sentence."""
    sentences, sentence = [], []
    for line in path.read_text(encoding="utf-8").split("\n") + [""]:
        fields = line.split("\t")
        if line.strip("\t") == "":
            if sentence:
                sentences.append(sentence)
            sentence = []
        elif len(fields) > 1 and (column == 1 or fields[0].isdigit()):
            sentence.append(fields[column])
    return sentences


def with_mistakes(sentences):
    """Predictions: one tag in six is that of some other word."""
    random = Random(7)
    flat = [tag for sentence in sentences for tag in sentence]
    return [[flat[random.below(len(flat))] if random.below(6) == 0 else tag for tag in sentence] for sentence in sentences]


def main():
    warnings.simplefilter("ignore")
    data = pathlib.Path(sys.argv[1])
    cases, hashes, chunk = [], [], Fnv64()
    for number in range(CASES):
        references, predictions, suffix = made_up(number)
        values = metrics(results(references, predictions, suffix))
        for sentence in references:
            for kind, first, last in get_entities(sentence, suffix):
                chunk.add(kind.encode() + struct.pack("<qq", first, last))
        for key, value in values.items():
            chunk.add(key.encode() + struct.pack("<d", value))
        if number < WHOLE:
            cases.append({"references": references, "predictions": predictions, "suffix": suffix,
                          "metrics": list(values.items())})
        if (number + 1) % 1000 == 0:
            hashes.append(f"{chunk.hash:016x}")
            chunk = Fnv64()
    sets = []
    for file, column in SETS:
        sentences = read_tags(data / file, column)
        values = metrics(results(sentences, with_mistakes(sentences), False))
        sets.append({"file": file, "sentences": len(sentences), "tags": sum(map(len, sentences)),
                     "metrics": list(values.items())})
    target = pathlib.Path(__file__).resolve().parent.parent / "tests/golden/data/seqeval.json"
    lines = [json.dumps(case, separators=(",", ":"), ensure_ascii=False) for case in cases]
    rest = json.dumps({"alphabets": ALPHABETS, "suffixes": SUFFIXES, "fnv64_per_1000": hashes, "sets": sets},
                      separators=(",", ":"), ensure_ascii=False)
    target.write_text('{"cases":[\n' + ",\n".join(lines) + "],\n" + rest[1:] + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
