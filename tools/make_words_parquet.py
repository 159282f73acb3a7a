#!/usr/bin/env python3
"""Writes tests/golden/data/words.parquet: sentences with ids of a ClassLabel as the datasets library writes them.
Needs pyarrow; the tests do not.

Usage: tools/make_words_parquet.py     (from the repository root)
"""
import json
import pathlib

import pyarrow as pa
import pyarrow.parquet as pq


def main():
    classes = {"feature": {"names": ["O", "B-PER", "I-PER"], "_type": "ClassLabel"}, "_type": "List"}
    text = {"dtype": "string", "_type": "Value"}
    features = {"id": text, "tokens": {"feature": text, "_type": "List"}, "ner_tags": classes}
    table = pa.table({"id": ["0", "1"], "tokens": [["Ada", "Lovelace", "wrote"], ["She"]],
                      "ner_tags": pa.array([[1, 2, 0], [0]], pa.list_(pa.int64()))})
    table = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
    pq.write_table(table, pathlib.Path(__file__).resolve().parent.parent / "tests/golden/data/words.parquet")


if __name__ == "__main__":
    main()
