#!/usr/bin/env python3
"""Writes tests/golden/data/squad_features.json and qa_answers.json: what run_qa makes of real SQuAD and XQuAD
files, as hashes over all features, a few of them in full, and the answers to made-up logits.
Needs transformers and numpy; the tests do not.

Usage: tools/make_squad_goldens.py DATA_DIR [UTILS_QA]     (from the repository root)
UTILS_QA: folder with the utils_qa.py of transformers' examples; without it the answers are left as they are.
"""
import json
import pathlib
import sys

import numpy as np
from transformers import BertTokenizerFast

CASES = [  # name, file, vocabulary, lower case, max_seq_length, doc_stride
    ("train", "squad/train-v1.1-part.json", "bert-base-uncased", True, 384, 128),
    ("train", "squad/train-v1.1-part.json", "bert-base-uncased", True, 128, 48),
    ("validation", "squad/dev-v1.1-a.json", "bert-base-uncased", True, 384, 128),
    ("validation", "squad/dev-v1.1-a.json", "bert-base-uncased", True, 160, 64),
    ("train", "xquad/xquad.ru-a.json", "bert-base-multilingual-cased", False, 200, 50),
    ("train", "xquad/xquad.zh-a.json", "bert-base-multilingual-cased", False, 200, 50),
    ("validation", "xquad/xquad.th-a.json", "bert-base-multilingual-cased", False, 200, 50),
]


class Fnv64:
    """FNV-1a over little-endian int32."""

    def __init__(self):
        self.hash = 0xCBF29CE484222325

    def add(self, values):
        h = self.hash
        for byte in np.asarray(values, dtype="<i4").tobytes():
            h = ((h ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
        self.hash = h


def read_questions(path):
    for article in json.loads(path.read_text(encoding="utf-8"))["data"]:
        for paragraph in article["paragraphs"]:
            for qa in paragraph["qas"]:
                yield {"id": qa["id"], "question": qa["question"], "context": paragraph["context"],
                       "answers": qa["answers"]}


def windows(tokenizer, questions, max_length, stride):
    """Encodings of all windows with the question each belongs to."""
    encoded = tokenizer([q["question"].lstrip() for q in questions], [q["context"] for q in questions],
                        truncation="only_second", max_length=max_length, stride=stride, padding=False,
                        return_overflowing_tokens=True, return_offsets_mapping=True)
    for i, sample in enumerate(encoded["overflow_to_sample_mapping"]):
        yield sample, {key: encoded[key][i] for key in ("input_ids", "token_type_ids", "offset_mapping")}, \
            encoded.sequence_ids(i)


def positions(question, offsets, sequence_ids):
    """First and last token of the first answer by run_qa's rules; (0, 0), the CLS token, if it is not there."""
    if not question["answers"]:
        return 0, 0
    begin = question["answers"][0]["answer_start"]
    end = begin + len(question["answers"][0]["text"])
    context = [i for i, s in enumerate(sequence_ids) if s == 1]
    if offsets[context[0]][0] > begin or offsets[context[-1]][1] < end:
        return 0, 0
    first = context[0]
    while first < len(offsets) and offsets[first][0] <= begin:
        first += 1
    last = context[-1]
    while offsets[last][1] >= end:
        last -= 1
    return first - 1, last + 1


def case(data, kind, file, vocabulary, lower, max_length, stride):
    tokenizer = BertTokenizerFast(vocab=str(data / "vocab" / vocabulary / "vocab.txt"), do_lower_case=lower)
    questions = list(read_questions(data / file))
    whole, chunk, chunks, examples, count = Fnv64(), Fnv64(), [], [], 0
    for sample, encoding, sequence_ids in windows(tokenizer, questions, max_length, stride):
        ids, types, offsets = encoding["input_ids"], encoding["token_type_ids"], encoding["offset_mapping"]
        if kind == "train":
            place = list(positions(questions[sample], offsets, sequence_ids))
        else:
            place = [x for o, s in zip(offsets, sequence_ids) for x in (o if s == 1 else (-1, -1))]
        record = [sample, len(ids)] + ids + types + place
        chunk.add(record)
        count += 1
        if count % 1000 == 0:
            chunks.append(f"{chunk.hash:016x}")
            chunk = Fnv64()
        if count in (1, 500):
            examples.append({"feature": count - 1, "record": record})
    chunks.append(f"{chunk.hash:016x}")
    return {"kind": kind, "file": file, "vocabulary": vocabulary, "lower_case": lower,
            "max_seq_length": max_length, "doc_stride": stride, "features": count, "fnv64_per_1000": chunks,
            "examples": examples}


def pseudo(count, seed):
    """Logits in [-8, 8) from the generator that the tests repeat: multiples of 2^-19, so that float32 is exact."""
    out, state = np.empty(count, dtype=np.float32), seed
    for i in range(count):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        out[i] = (state >> 40) / 2.0**20 - 8.0
    return out


# Contexts of the answers; a window is CLS, two tokens of question, SEP, at most 14 words of the context, SEP.
CONTEXTS = [
    "The lathe turned the brass rod twice , slowly at first , then fast enough that the Größe of each chip halved "
    "and the shop smelt of hot oil .",
    "Nobody knew .",
    "A keel , a mast and \u5e06 were all she \U0001f6a2 took north in the spring of the year , when the ice let go of "
    "the harbour and the pilots came back",
    "Short one here",
]


def word_windows(context, size=14, step=9):
    """Per window the offsets of its tokens, None outside of the context."""
    words, at = [], 0
    for word in context.split(" "):
        words.append((at, at + len(word)))
        at += len(word) + 1
    begin = 0
    while True:
        yield [None] * 4 + words[begin:begin + size] + [None]
        if begin + size >= len(words):
            return
        begin += step


def answers(utils_qa):
    """Predictions for the contexts above from made-up logits, v1.1 and v2."""
    sys.path.insert(0, utils_qa)
    import tempfile

    from utils_qa import postprocess_qa_predictions
    questions = [{"id": f"q-{i}", "context": c} for i, c in enumerate(CONTEXTS)]
    features, starts, ends = [], [], []
    for question in questions:
        for offsets in word_windows(question["context"]):
            features.append({"example_id": question["id"], "offset_mapping": offsets})
            starts.append(pseudo(len(offsets), 2 * len(features) - 1))
            ends.append(pseudo(len(offsets), 2 * len(features)))

    class Examples(list):
        def __getitem__(self, key):
            return [q[key] for q in self] if isinstance(key, str) else list.__getitem__(self, key)

    runs = []
    for version_2, threshold, longest, n_best in ((False, 0.0, 30, 20), (True, 0.0, 30, 5), (True, -9.0, 3, 20)):
        with tempfile.TemporaryDirectory() as folder:
            postprocess_qa_predictions(Examples(questions), features, (starts, ends), version_2, n_best, longest,
                                       threshold, folder, "eval")
            files = {f.stem: f.read_text() for f in sorted(pathlib.Path(folder).iterdir())}
        runs.append({"version_2": version_2, "threshold": threshold, "max_answer_length": longest,
                     "n_best_size": n_best, "files": files})
    return {"contexts": CONTEXTS, "runs": runs}


def main():
    data = pathlib.Path(sys.argv[1])
    target = pathlib.Path(__file__).resolve().parent.parent / "tests/golden/data"
    cases = [json.dumps(case(data, *c), separators=(",", ":")) for c in CASES]
    (target / "squad_features.json").write_text("[\n" + ",\n".join(cases) + "\n]\n")
    if len(sys.argv) > 2:
        (target / "qa_answers.json").write_text(json.dumps(answers(sys.argv[2]), indent=1) + "\n")


if __name__ == "__main__":
    main()
