#!/usr/bin/env python3
"""What lathe rerank writes loads in sentence-transformers' CrossEncoder and what that writes loads in Lathe, with scores that
differ by 1e-6 at most. Runs in $LATHE_HF_PYTHON, if it has sentence-transformers, too."""
import csv
import json
import os
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import command_line as cl

cl.need_transformers()
os.environ.update(HF_HUB_OFFLINE="1", CUDA_VISIBLE_DEVICES="")
try:
    from sentence_transformers import CrossEncoder
except ImportError:
    print("skipped: needs sentence-transformers in LATHE_HF_PYTHON")
    sys.exit(77)
GOLDEN = cl.ROOT / "tests" / "golden"
DEV = GOLDEN / "rerank" / "dev.csv"
LOSSES = {"BinaryCrossEntropyLoss": ("label", "Sigmoid"), "MSELoss": ("score", "Identity"), "CrossEntropyLoss": ("class", "Identity")}


class RoundTrip(unittest.TestCase):
    def setUp(self):
        self.temp = tempfile.TemporaryDirectory()
        self.addCleanup(self.temp.cleanup)
        self.root = pathlib.Path(self.temp.name)
        with open(DEV, newline="") as file:
            self.pairs = [(row["query"], row["passage"]) for row in csv.DictReader(file)]

    def lathe(self, *words):
        result = cl.run([cl.program(), *map(str, words)])
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def train(self, family, loss):
        out = self.root / f"{family}_{loss}"
        self.lathe("rerank", "--model_name_or_path", GOLDEN / "mlm" / family, "--train_file", GOLDEN / "rerank" / "train.csv",
                   "--text_column_names", "query,passage", "--label_column_name", LOSSES[loss][0], "--loss", loss, "--do_train",
                   "--max_steps", "10", "--learning_rate", "1e-2", "--output_dir", out, "--use_cpu")
        return out

    def scores(self, folder, key):
        lines = self.lathe("predict", folder, "--file", DEV, "--column", "query,passage", "--json", "--device", "cpu", "--max_seq_length", "24")
        return [json.loads(line)[key] for line in lines.splitlines()]

    def near(self, found, wanted):
        for mine, theirs in zip(found, wanted, strict=True):
            self.assertAlmostEqual(mine, float(theirs), delta=1e-6 * max(1, abs(float(theirs))))

    def test_one_score(self):
        for family in ("bert", "roberta", "distilbert", "xlm_roberta", "modernbert"):
            for loss in ("BinaryCrossEntropyLoss", "MSELoss"):
                with self.subTest(family=family, loss=loss):
                    out = self.train(family, loss)
                    model = CrossEncoder(str(out), device="cpu", max_length=24)
                    self.assertEqual(type(model.activation_fn).__name__, LOSSES[loss][1])
                    wanted = model.predict(self.pairs)
                    self.near(self.scores(out, "predicted_score"), wanted)
                    again = out / "again"
                    model.save_pretrained(str(again))
                    self.near(self.scores(again, "predicted_score"), wanted)
                    query, documents = self.pairs[0][0], [passage for _, passage in self.pairs[:4]]
                    ranked = json.loads(self.lathe("predict", out, query, *documents, "--json", "--device", "cpu", "--max_seq_length", "24"))["ranking"]
                    best = model.rank(query, documents)
                    self.assertEqual([r["corpus_id"] for r in ranked], [r["corpus_id"] for r in best])

    def test_classes(self):
        out = self.train("bert", "CrossEntropyLoss")
        model = CrossEncoder(str(out), device="cpu", max_length=24)
        self.assertEqual(model.num_labels, 3)
        wanted = model.predict(self.pairs, apply_softmax=True)
        self.near(self.scores(out, "predicted_score"), wanted.max(1))
        self.assertEqual(self.scores(out, "predicted_label"), [f"LABEL_{k}" for k in wanted.argmax(1)])


if __name__ == "__main__":
    cl.main()
