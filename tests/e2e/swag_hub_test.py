#!/usr/bin/env python3
"""lathe swag without own files: SWAG of the Hub, whose labels are ids of named classes, as the script reads it."""
import json

import command_line as cl
from hub_data_test import DataCase, needs_parquet

try:
    import pyarrow
    import pyarrow.parquet
except ImportError:
    pyarrow = None


@needs_parquet
class SwagHub(DataCase):
    def part(self, rows, label=None, lists=False):
        features = {name: {"dtype": "string", "_type": "Value"} for name in ("video-id", "sent1", "sent2")}
        features["label"] = {"names": ["0", "1", "2", "3"], "_type": "ClassLabel"}
        endings = ["is small", "runs", "opened a bank", "turns metal"]
        own = lambda i: {"endings": endings[: 2 + i % 3]} if lists else {f"ending{k}": e for k, e in enumerate(endings)}
        table = pyarrow.Table.from_pylist([{"video-id": f"v{i}", "sent1": "The old bridge.", "sent2": "It", **own(i),
                                            "label": i % 2 if label is None else label} for i in range(rows)])
        sink = pyarrow.BufferOutputStream()
        pyarrow.parquet.write_table(table.replace_schema_metadata(
            {"huggingface": json.dumps({"info": {"features": features}})}), sink)
        return sink.getvalue().to_pybytes()

    def test_swag(self):
        self.add_dataset("allenai/swag", {"regular/train/0000.parquet": self.part(13), "regular/validation/0000.parquet": self.part(5),
                                          "regular/test/0000.parquet": self.part(3, -1)})
        self.succeeds(self.run_on_hub("swag", "hub", "--do_predict"))
        results = json.loads((self.root / "hub" / "all_results.json").read_text())
        self.assertEqual([results[f"{part}_samples"] for part in ("train", "eval", "predict")], [13, 5, 3])
        self.assertNotIn("predict_accuracy", results)  # SWAG does not tell the labels of its test
        self.assertEqual(len((self.root / "hub" / "predict_results.txt").read_text().splitlines()), 4)
        card = (self.root / "hub" / "README.md").read_text()
        for part in ("name: Multiple Choice\n", "type: multiple-choice\n", "name: SWAG\n", "type: swag\n", "args: regular\n",
                     "- en\n"):
            self.assertIn(part, card)

    def test_lists_of_another_data_set(self):
        self.add_dataset("me/choices", {"default/train/0000.parquet": self.part(7, lists=True),
                                        "default/validation/0000.parquet": self.part(4, lists=True)})
        self.succeeds(self.run_on_hub("swag", "own", "--dataset_name", "me/choices"))
        self.assertIn("type: me/choices\n", (self.root / "own" / "README.md").read_text())


if __name__ == "__main__":
    cl.main()
