#!/usr/bin/env python3
"""lathe mlm on texts of the Hub: with a validation split, and with none."""
import json
import unittest

import command_line as cl
from hub_data_test import DataCase, sentence
from random import Random


def texts(rows, seed):
    draw = Random(seed)
    return "".join(json.dumps({"id": i, "text": sentence(draw)}) + "\n" for i in range(rows)).encode()


class MlmHub(DataCase):
    def test_texts(self):
        self.add_dataset("someone/texts", {"train.jsonl": texts(40, 1), "validation.jsonl": texts(8, 2)}, "main")
        self.add_dataset("someone/more", {"train.jsonl": texts(40, 1)}, "main")
        for name, samples in (("someone/texts", [40, 8]), ("someone/more", [38, 2])):
            line = self.command("mlm", name.replace("/", "-"), "--model_name_or_path", "bert-base-cased", "--dataset_name", name,
                                "--line_by_line")
            line.remove("--ignore_mismatched_sizes")
            self.succeeds(cl.run(line, env=self.environment()))
            out = self.root / name.replace("/", "-")
            results = json.loads((out / "all_results.json").read_text())
            self.assertEqual([results["train_samples"], results["eval_samples"]], samples)
            card = (out / "README.md").read_text()
            for part in ("name: Masked Language Modeling\n", "type: fill-mask\n", f"type: {name}\n"):
                self.assertIn(part, card)


if __name__ == "__main__":
    cl.main()
