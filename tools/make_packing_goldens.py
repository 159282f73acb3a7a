#!/usr/bin/env python3
"""Makes tests/golden/packing.json with the real packages (trl, datasets): what is in each packed sample.  By case: strategy,
length, tokens of each sample, and of each packed sample pieces [sample, begin, end], flat."""
import json
import pathlib
import random

import trl
from datasets import Dataset
from trl import pack_dataset

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "tests" / "golden" / "packing.json"
TOKENS = 100_000  # a token's id says its sample and its place


def pieces(ids):
    """Runs of following tokens."""
    found = []
    for token in ids:
        sample, place = divmod(token, TOKENS)
        if found and found[-1][0] == sample and found[-1][2] == place:
            found[-1][2] += 1
        else:
            found.append([sample, place, place + 1])
    return found


def case(strategy, length, lengths):
    rows = Dataset.from_dict({"input_ids": [[i * TOKENS + k for k in range(n)] for i, n in enumerate(lengths)]})
    packed = pack_dataset(rows, length, strategy)
    return {"strategy": strategy, "length": length, "lengths": lengths,
            "packed": [sum(pieces(ids), []) for ids in packed["input_ids"]]}


def main():
    draw = random.Random(5)
    sets = [(4, [5, 2, 3, 1]), (16, [draw.randint(0, 40) for _ in range(60)]), (7, [7] * 5 + [1] * 9 + [3] * 4),
            (1, [1, 0, 2]), (32, [draw.choice([3, 8, 8, 8, 13, 20, 31, 32, 33, 70]) for _ in range(80)]),
            (24, [draw.randint(1, 24) for _ in range(1100)])]
    cases = [case(strategy, length, lengths) for length, lengths in sets for strategy in ("bfd", "bfd_split", "wrapped")]
    text = ",\n".join(json.dumps(one, separators=(",", ":")) for one in cases)
    GOLDEN.write_text(f'{{"trl": "{trl.__version__}", "cases": [\n{text}\n]}}\n')


if __name__ == "__main__":
    main()
