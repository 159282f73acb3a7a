#!/usr/bin/env python3
"""lathe embed with a data set of the Hub: pairs with scores, of which some columns are left out."""
import json

import command_line as cl
from hub_data_test import DataCase, needs_parquet

try:
    import pyarrow
    import pyarrow.parquet
except ImportError:
    pyarrow = None


@needs_parquet
class EmbedHub(DataCase):
    def part(self, count):
        words = ["is small", "runs", "opened a bank"]
        rows = [{"id": i, "genre": "news", "sentence1": f"the old bridge {i}", "sentence2": words[i % 3], "similarity": i / count}
                for i in range(count)]
        sink = pyarrow.BufferOutputStream()
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), sink)
        return sink.getvalue().to_pybytes()

    def test_named_columns_of_all_splits(self):
        self.add_dataset("me/sts", {f"default/{name}/0000.parquet": self.part(count)
                                    for name, count in (("train", 12), ("validation", 6), ("test", 4))})
        self.succeeds(self.run_on_hub("embed", "out", "--dataset_name", "me/sts", "--do_predict", "--text_column_names",
                                      "sentence1,sentence2", "--label_column_name", "similarity"))
        results = json.loads((self.root / "out" / "all_results.json").read_text())
        self.assertEqual([results[f"{part}_samples"] for part in ("train", "eval", "predict")], [12, 6, 4])
        for key in ("eval_loss", "eval_spearman_cosine", "predict_spearman_cosine"):
            self.assertIn(key, results)
        self.assertEqual(len((self.root / "out" / "predict_results.txt").read_text().splitlines()), 5)
        card = (self.root / "out" / "README.md").read_text()
        for part in ("library_name: sentence-transformers\n", "datasets:\n- me/sts\n", "loss:CoSENTLoss"):
            self.assertIn(part, card)


if __name__ == "__main__":
    cl.main()
