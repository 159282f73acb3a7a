#!/usr/bin/env python3
"""RoBERTa and XLM-R folders with tokenizer.json as the only tokenizer file, and a BERT with a tokenizer of ModernBERT's form: glue,
predict, qa and tokenize read them."""
import json
import math
import pathlib
import random
import struct
import tempfile
import unittest

import command_line as cl

GOLDENS = cl.ROOT / "lathe" / "tokenizers" / "testdata"
POSITIONS = 130
# model_type -> the file and the name of its tokenizer among the goldens
FAMILIES = {"roberta": ("byte_level_goldens.json", "roberta"), "xlm_roberta": ("unigram_goldens.json", "xlm-roberta"),
            "bert": ("unigram_goldens.json", "modernbert")}
RUN = ["--max_steps", "4", "--per_device_train_batch_size", "8", "--learning_rate", "1e-3", "--logging_steps", "1", "--use_cpu"]


def tokenizer(family):
    file, name = FAMILIES[family]
    goldens = json.loads((GOLDENS / file).read_text(encoding="utf-8"))
    source = goldens["tokenizers"][name]
    if "tokenizer.json" in source:
        return source["tokenizer.json"]
    model = source["shared"]["model"]
    for key in ("vocab", "merges"):
        if key in model and model[key] is None:
            model[key] = goldens["shared"][f"{model['type']}.{key}"]
    text = json.dumps(source["shared"])
    return json.loads(text.replace('"precompiled_charsmap": "precompiled_charsmap"',
                                   '"precompiled_charsmap": ' + json.dumps(goldens["shared"]["precompiled_charsmap"])))


def make_folder(folder, family, task, edit=lambda file: file):
    """The golden model with random embeddings for its tokenizer's vocabulary."""
    golden = cl.ROOT / "tests" / "golden" / f"tiny_{family}" / task
    file = edit(tokenizer(family))
    count = max([len(file["model"]["vocab"])] + [token["id"] + 1 for token in file["added_tokens"]])
    folder.mkdir()
    (folder / "tokenizer.json").write_text(json.dumps(file), encoding="utf-8")
    config = json.loads((golden / "config.json").read_text())
    config.update(vocab_size=count, max_position_embeddings=POSITIONS)
    (folder / "config.json").write_text(json.dumps(config))
    data = (golden / "model.safetensors").read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header, draw, out = json.loads(data[8:8 + size]), random.Random(1), bytearray()
    header.pop("__metadata__", None)
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        values = data[8 + size + begin:8 + size + end]
        for part, rows in (("word_embeddings", count), ("position_embeddings", POSITIONS)):
            if part in name:
                entry["shape"][0] = rows
                n = rows * entry["shape"][1]
                values = struct.pack(f"<{n}f", *(draw.gauss(0, 0.02) for _ in range(n)))
        entry["data_offsets"] = [len(out), len(out) + len(values)]
        out += values
    text = json.dumps({"__metadata__": {"format": "pt"}, **header}).encode()
    text += b" " * (-len(text) % 8)
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + out)
    return folder


def write_pairs(path, rows, seed):
    draw = random.Random(seed)
    with open(path, "w", encoding="utf-8") as out:
        out.write("sentence1,sentence2,label\n")
        for i in range(rows):
            first, second = (" ".join(draw.choice(cl.WORDS) for _ in range(draw.randint(2, 9))) for _ in "ab")
            out.write(f"{first} café,{second} {'yes' if i % 2 else 'no'},{'same' if i % 2 else 'other'}\n")


def write_squad(path, questions):
    draw, paragraphs = random.Random(3), []
    for i in range(questions):
        words = [draw.choice(cl.WORDS) for _ in range(60)]
        words[30] = answer = f"Zürich{i}"
        context = " ".join(words)
        paragraphs.append({"context": context, "qas": [{"id": f"q{i}", "question": "where is the old bridge?",
                                                        "answers": [{"text": answer, "answer_start": context.index(answer)}]}]})
    path.write_text(json.dumps({"data": [{"title": "t", "paragraphs": paragraphs}]}), encoding="utf-8")


class FamiliesTokenizer(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        write_pairs(self.root / "train.csv", 32, 1)
        write_pairs(self.root / "dev.csv", 8, 2)

    def done(self, command):
        result = cl.run([cl.program(), *map(str, command)])
        self.assertEqual(result.returncode, 0, f"{command}\n{result.stdout}\n{result.stderr}")
        return result.stdout

    def glue(self, model, out):
        self.done(["glue", "--model_name_or_path", model, "--train_file", self.root / "train.csv", "--validation_file",
                   self.root / "dev.csv", "--do_train", "--do_eval", "--max_seq_length", 48, "--output_dir", out,
                   "--ignore_mismatched_sizes", *RUN])
        return json.loads((out / "all_results.json").read_text())

    def test_pairs_are_classified(self):
        for family in FAMILIES:
            with self.subTest(family=family):
                model, out = make_folder(self.root / family, family, "classification"), self.root / f"{family}-out"
                results = self.glue(model, out)
                self.assertTrue(0 < results["train_loss"] < 3 and math.isfinite(results["eval_loss"]), results)
                self.assertEqual((out / "tokenizer.json").read_bytes(), (model / "tokenizer.json").read_bytes())
                labels = self.done(["predict", out, "the old bridge is small", "who opened it"]).split()
                self.assertTrue({"same", "other"} & set(labels), labels)

    def test_a_model_with_one_token_type_does_not_look_at_types(self):
        """The template gives the second text type 1; transformers leaves the types out for this family."""
        def one_type(file):
            for piece in file["post_processor"]["pair"]:
                next(iter(piece.values()))["type_id"] = 0
            return file
        two = self.glue(make_folder(self.root / "two", "xlm_roberta", "classification"), self.root / "two-out")
        one = self.glue(make_folder(self.root / "one", "xlm_roberta", "classification", one_type), self.root / "one-out")
        self.assertEqual((two["train_loss"], two["eval_loss"]), (one["train_loss"], one["eval_loss"]))

    def test_questions_are_answered_in_windows(self):
        write_squad(self.root / "squad.json", 6)
        for family in FAMILIES:
            with self.subTest(family=family):
                model, out = make_folder(self.root / family, family, "question_answering"), self.root / f"{family}-out"
                self.done(["qa", "--model_name_or_path", model, "--train_file", self.root / "squad.json", "--validation_file",
                           self.root / "squad.json", "--do_train", "--do_eval", "--max_seq_length", 96, "--doc_stride", 24,
                           "--output_dir", out, *RUN])
                results = json.loads((out / "all_results.json").read_text())
                self.assertGreater(results["eval_samples"], 6, results)   # windows overflow
                answers = json.loads((out / "eval_predictions.json").read_text(encoding="utf-8"))
                self.assertEqual(sorted(answers), [f"q{i}" for i in range(6)])
                contexts = {p["qas"][0]["id"]: p["context"] for p in
                            json.loads((self.root / "squad.json").read_text(encoding="utf-8"))["data"][0]["paragraphs"]}
                for question, answer in answers.items():
                    self.assertIn(answer, contexts[question])

    def test_pairs_have_the_template_of_the_file(self):
        for family, between in (("roberta", ["</s>", "</s>"]), ("xlm_roberta", ["</s>", "</s>"]), ("bert", ["[SEP]"])):
            with self.subTest(family=family):
                model = make_folder(self.root / family, family, "classification")
                row = json.loads(self.done(["tokenize", model, "who is it", "a ship"]))
                inner = [token for token, text in zip(row["tokens"], row["sequence_ids"]) if text == -1]
                self.assertEqual(inner[1:-1], between)
                self.assertEqual(row["offsets"][1][0], 0)


if __name__ == "__main__":
    cl.main()
