#!/usr/bin/env python3
"""Writes tests/golden/embedding_metrics/no_duplicates.json: batches of sentence-transformers' NoDuplicatesBatchSampler for
made-up samples, of whose texts only the numbers count. Needs sentence-transformers (6.2); the tests do not.

Usage: tools/make_no_duplicates_golden.py [CASES]     (from the repository root; 16 are stored)
"""
import json
import logging
import pathlib
import sys

import numpy as np
import torch
from datasets import Dataset
from sentence_transformers.base.sampler import NoDuplicatesBatchSampler

logging.disable(logging.WARNING)
cases = []
for number in range(int(sys.argv[1]) if len(sys.argv) > 1 else 16):
    rng = np.random.default_rng(number)
    rows, columns, size = int(rng.integers(1, 40)), int(rng.integers(1, 4)), int(rng.integers(1, 9))
    texts = rng.integers(0, [6, 40, 400, 2][number % 4], (rows, columns)).tolist()
    epoch, seed, drop_last = int(rng.integers(0, 3)), int(rng.integers(0, 100)), bool(rng.integers(0, 2))
    data = Dataset.from_dict({f"c{i}": [f"text {row[i]}" for row in texts] for i in range(columns)} | {"label": [0] * rows})
    sampler = NoDuplicatesBatchSampler(data, size, drop_last, valid_label_columns=["label"], generator=torch.Generator(), seed=seed)
    sampler.set_epoch(epoch)
    cases.append({"texts": texts, "batch_size": size, "drop_last": drop_last, "seed": seed + epoch, "batches": list(sampler)})
rows = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
pathlib.Path("tests/golden/embedding_metrics/no_duplicates.json").write_text(f"[\n{rows}\n]\n")
