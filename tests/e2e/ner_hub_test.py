#!/usr/bin/env python3
"""lathe ner on a data set of the Hub whose tags are ids of named classes."""
import json

import command_line as cl
from hub_data_test import DataCase, needs_parquet

try:
    import pyarrow
    import pyarrow.parquet
except ImportError:
    pyarrow = None


@needs_parquet
class NerHub(DataCase):
    def test_conll2003(self):
        names = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]  # their order, not the sorted one, is that of the labels
        features = {"tokens": {"feature": {"dtype": "string", "_type": "Value"}, "_type": "Sequence"},
                    "ner_tags": {"feature": {"names": names, "_type": "ClassLabel"}, "_type": "Sequence"}}

        def part(rows):
            table = pyarrow.Table.from_pylist([{"tokens": ["the", "old", "bridge", "is", "small"][: 3 + i % 3],
                                                "ner_tags": [0, 3, 4, 0, 0][: 3 + i % 3]} for i in range(rows)])
            sink = pyarrow.BufferOutputStream()
            pyarrow.parquet.write_table(table.replace_schema_metadata(
                {"huggingface": json.dumps({"info": {"features": features}})}), sink)
            return sink.getvalue().to_pybytes()

        self.add_dataset("eriktks/conll2003", {"conll2003/train/0000.parquet": part(30), "conll2003/train/0001.parquet": part(9),
                                               "conll2003/validation/0000.parquet": part(8), "conll2003/test/0000.parquet": part(5)})
        self.succeeds(self.run_on_hub("ner", "hub", "--dataset_name", "eriktks/conll2003", "--do_predict"))
        results = json.loads((self.root / "hub" / "all_results.json").read_text())
        self.assertEqual([results[f"{part}_samples"] for part in ("train", "eval", "predict")], [39, 8, 5])
        ids = json.loads((self.root / "hub" / "config.json").read_text())["id2label"]
        self.assertEqual([ids[str(i)] for i in range(5)], names)
        card = (self.root / "hub" / "README.md").read_text()
        for part in ("name: Token Classification\n", "type: token-classification\n", "type: eriktks/conll2003\n"):
            self.assertIn(part, card)


if __name__ == "__main__":
    cl.main()
