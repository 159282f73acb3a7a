"""Writes what the tests of lathe/train compare with, by the real packages (transformers 5.23 with torch):

  tests/golden/arguments/fields.json      name and default of every field of TrainingArguments
  tests/golden/arguments/schedules.json   learning rates of every schedule
  tests/golden/arguments/floats.json      repr and round(x, 4) of floats, given by their bits
  tests/golden/arguments/dump.json        json.dumps(indent=4, sort_keys=True) of dump_source.json

  python tools/make_argument_goldens.py
"""

import dataclasses
import json
import pathlib
import random
import struct

import torch
from transformers import TrainingArguments, get_scheduler

OUT = pathlib.Path(__file__).resolve().parents[1] / "tests" / "golden" / "arguments"

SCHEDULES = [
    ("linear", 10, 50, {}),
    ("linear", 0, 7, {}),
    ("linear", 60, 50, {}),
    ("cosine", 5, 40, {}),
    ("cosine", 5, 40, {"num_cycles": 1.25}),
    ("cosine_with_restarts", 4, 40, {"num_cycles": 3}),
    ("polynomial", 3, 30, {}),
    ("polynomial", 0, 30, {"lr_end": 1e-6, "power": 2.0}),
    ("constant", 5, 10, {}),
    ("constant_with_warmup", 5, 20, {}),
    ("inverse_sqrt", 8, 40, {}),
    ("inverse_sqrt", 0, 40, {"timescale": 25}),
    ("cosine_with_min_lr", 5, 40, {"min_lr": 1e-6}),
    ("cosine_with_min_lr", 5, 40, {"min_lr_rate": 0.1, "num_cycles": 1.0}),
    ("cosine_warmup_with_min_lr", 6, 40, {"min_lr": 1e-6}),
    ("cosine_warmup_with_min_lr", 6, 40, {"min_lr_rate": 0.2, "warmup_lr_rate": 0.05}),
    ("warmup_stable_decay", 5, 40, {"num_decay_steps": 10}),
    ("warmup_stable_decay", 5, 40, {"num_decay_steps": 10, "warmup_type": "cosine", "decay_type": "linear",
                                    "min_lr_ratio": 0.1}),
    ("warmup_stable_decay", 5, 40, {"num_decay_steps": 12, "num_stable_steps": 9, "warmup_type": "1-sqrt",
                                    "decay_type": "1-sqrt"}),
]


def plain(value):
    return getattr(value, "value", value)


def fields():
    rows = {}
    for field in dataclasses.fields(TrainingArguments):
        made = field.default_factory is not dataclasses.MISSING
        rows[field.name] = plain(field.default_factory() if made else field.default)
    return rows


def schedule(name, warmup, steps, kwargs, lr=5e-5):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=lr)
    scheduler = get_scheduler(name, optimizer, warmup, steps, dict(kwargs))
    rates = []
    for _ in range(steps + 3):
        rates.append(scheduler.get_last_lr()[0])
        optimizer.step()
        scheduler.step()
    return {"name": name, "warmup": warmup, "steps": steps, "kwargs": kwargs, "lr": lr, "rates": rates}


def floats():
    rng = random.Random(1)
    values = [0.0, -0.0, 1.0, 3.0, 0.1, 1e-4, 9.999e-5, 1e-5, 1e15, 9999999999999998.0, 1e16, 1.5e300, 5e-324, 0.5,
              2.5, 0.00005, 0.12345, 2.00005, 123456.78905, 5.073649883270264e-1]
    values += [rng.uniform(-10, 10) for _ in range(200)]
    values += [round(rng.uniform(0, 10), 5) for _ in range(200)]  # near ties of round(x, 4)
    while len(values) < 800:
        x = struct.unpack("<d", struct.pack("<Q", rng.getrandbits(64)))[0]
        if x == x and abs(x) != float("inf"):
            values.append(x)
    return [[struct.unpack("<Q", struct.pack("<d", x))[0], repr(x), repr(round(x, 4))] for x in values]


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    write = lambda name, value: (OUT / name).write_text(json.dumps(value, indent=0) + "\n")
    write("fields.json", fields())
    write("schedules.json", [schedule(*row) for row in SCHEDULES])
    write("floats.json", floats())
    source = {"b": 1e-05, "a": [1, 2.0, True, None, []], "é": "naïve \U0001f600 \x7f \" \\ / \t\n\b\f\x01", "empty": {},
              "nested": {"z": 10**18, "y": -1, "x": "\u2028"}}
    (OUT / "dump_source.json").write_text(json.dumps(source, ensure_ascii=False))
    (OUT / "dump.json").write_text(json.dumps(source, indent=4, sort_keys=True))


main()
