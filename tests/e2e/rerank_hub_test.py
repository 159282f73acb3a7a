#!/usr/bin/env python3
"""lathe rerank with data sets of the Hub: pairs with ids of named classes, and queries with lists of documents."""
import json

import command_line as cl
from hub_data_test import DataCase, needs_parquet

try:
    import pyarrow
    import pyarrow.parquet
except ImportError:
    pyarrow = None


@needs_parquet
class RerankHub(DataCase):
    def part(self, rows, features=None):
        table = pyarrow.Table.from_pylist(rows)
        if features:
            said = {name: {"dtype": "string", "_type": "Value"} for name in ("query", "answer")}
            said["label"] = features
            table = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": said}})})
        sink = pyarrow.BufferOutputStream()
        pyarrow.parquet.write_table(table, sink)
        return sink.getvalue().to_pybytes()

    def splits(self, make):
        return {f"default/{name}/0000.parquet": make(count, label) for name, count, label in
                (("train", 12, None), ("validation", 6, None), ("test", 4, -1))}

    def check(self, name, pairs):
        self.succeeds(self.run_on_hub("rerank", "out", "--dataset_name", name, "--do_predict", "--loss", "BinaryCrossEntropyLoss"))
        results = json.loads((self.root / "out" / "all_results.json").read_text())
        self.assertEqual([results[f"{part}_samples"] for part in ("train", "eval", "predict")], pairs)
        self.assertIn("eval_average_precision", results)
        self.assertNotIn("predict_average_precision", results)
        self.assertEqual(len((self.root / "out" / "predict_results.txt").read_text().splitlines()), 1 + pairs[2])
        self.assertIn(f"datasets:\n- {name}\n", (self.root / "out" / "README.md").read_text())

    def test_pairs(self):
        words = ["is small", "runs", "opened a bank"]
        row = lambda i, label: {"query": f"the old bridge {i}", "answer": words[i % 3], "label": i % 2 if label is None else label}
        self.add_dataset("me/pairs", self.splits(lambda count, label: self.part(
            [row(i, label) for i in range(count)], {"names": ["no", "yes"], "_type": "ClassLabel"})))
        self.check("me/pairs", [12, 6, 4])

    def test_lists(self):
        def row(i, label):
            labels = {} if label is not None else {"labels": [i % 2, 1 - i % 2]}
            return {"query": f"the old bridge {i}", "docs": ["is small", "opened a bank"], **labels}

        self.add_dataset("me/lists", self.splits(lambda count, label: self.part([row(i, label) for i in range(count)])))
        self.check("me/lists", [24, 12, 8])
        results = json.loads((self.root / "out" / "all_results.json").read_text())
        self.assertIn("eval_ndcg@10", results)


if __name__ == "__main__":
    cl.main()
