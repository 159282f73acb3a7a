"""What tests of the Python package share; a test that imports it is skipped where the package was not built."""
import csv
import os
import pathlib
import sys
import tempfile
import unittest

import command_line as cl

BUILD = pathlib.Path(os.environ.get("LATHE_BINARY_DIR", cl.ROOT / "build"))
PACKAGE = BUILD / "python"
if not list(PACKAGE.glob("lathe/_lathe.*")):
    print("skipped: the Python package was not built (it needs nanobind, tools/setup.sh --test)")
    sys.exit(77)
sys.path.insert(0, str(PACKAGE))
import numpy as np
from lathe import AutoModelForSequenceClassification, AutoTokenizer, TrainingArguments

LABELS = ["person", "place", "thing"]  # as `lathe glue` sorts them


def read_rows(path):
    with open(path, encoding="utf-8") as lines:
        return [{"text": row["sentence1"], "label": LABELS.index(row["label"])} for row in csv.DictReader(lines)]


def accuracy(eval_pred):
    logits, labels = eval_pred
    return {"accuracy": (np.argmax(logits, axis=-1) == labels).mean()}


class PackageCase(unittest.TestCase):
    def setUp(self):
        temp = tempfile.TemporaryDirectory()
        self.addCleanup(temp.cleanup)
        self.root = pathlib.Path(temp.name)
        cl.write_csv(self.root / "train.csv", 48, 1)
        cl.write_csv(self.root / "dev.csv", 12, 2)
        self.tokenizer = AutoTokenizer.from_pretrained(cl.MODEL)
        self.train, self.dev = (self.tokenized(read_rows(self.root / f"{name}.csv")) for name in ("train", "dev"))

    def tokenized(self, rows, **keywords):
        return [{**self.tokenizer(row["text"], truncation=True, max_length=32, **keywords), "label": row["label"]}
                for row in rows]

    def model(self):
        return AutoModelForSequenceClassification.from_pretrained(
            cl.MODEL, id2label=dict(enumerate(LABELS)), ignore_mismatched_sizes=True)

    def arguments(self, **more):
        settings = {"output_dir": self.root / "out", "per_device_train_batch_size": 8, "learning_rate": 1e-3,
                    "num_train_epochs": 3, "use_cpu": True, "logging_steps": 1, "save_strategy": "no", **more}
        return TrainingArguments(**settings)
