"""Writes what the tests of lathe/train compare with, by the real packages (transformers 5.23 with torch):

  tests/golden/arguments/fields.json      name and default of every field of TrainingArguments
  tests/golden/arguments/schedules.json   learning rates of every schedule
  tests/golden/arguments/metric_schedules.json   those that follow a metric, evaluation by evaluation
  tests/golden/arguments/optimizers.json  parameters after some updates of SGD and Adafactor
  tests/golden/arguments/batch_rebalance.json    the batches of BatchRebalanceSampler
  tests/golden/arguments/label_smoothing.json    losses and gradients of LabelSmoother
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
from transformers import Adafactor, TrainingArguments, get_scheduler
from transformers.trainer_pt_utils import BatchRebalanceSampler, LabelSmoother

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


METRIC_SCHEDULES = [
    ("reduce_lr_on_plateau", 5e-5, {}),
    ("reduce_lr_on_plateau", 1e-3, {"factor": 0.5, "patience": 2, "cooldown": 3, "min_lr": 1e-4, "threshold": 1e-2}),
    ("reduce_lr_on_plateau", 1e-3, {"mode": "max", "patience": 1, "threshold_mode": "abs", "threshold": 0.05}),
    ("reduce_lr_on_plateau", 1e-3, {"patience": 0, "threshold_mode": "abs", "factor": 0.3, "eps": 1e-5}),
    ("reduce_lr_on_plateau", 1e-3, {"mode": "max", "patience": 1}),
    ("greedy", 5e-5, {"patience": 1, "reset_start": 2}),
    ("greedy", 0.1, {"patience": 1, "factor": 0.5, "min_lr": 0.02, "max_lr": 0.15, "reset_start": 3}),
    ("greedy", 0.1, {"patience": 0, "factor": 0.9, "cooldown": 2, "warmup": 1, "mode": "max",
                     "threshold_mode": "rel", "threshold": 0.1, "smooth": True, "window_size": 3}),
]

OPTIMIZERS = [
    ("sgd", {"lr": 0.1}),
    ("sgd", {"lr": 0.1, "weight_decay": 0.05}),
    ("sgd", {"lr": 0.05, "momentum": 0.9, "dampening": 0.3, "weight_decay": 0.05}),
    ("sgd", {"lr": 0.05, "momentum": 0.9, "nesterov": True}),
    ("adafactor", {"lr": 1e-2}),
    ("adafactor", {"lr": 1e-2, "weight_decay": 0.1}),
]
SHAPES = [(7, 5), (1, 6), (4, 1), (9,), (1,)]  # the last two have no weight decay


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


def metric_schedule(name, lr, kwargs):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=lr)
    scheduler = get_scheduler(name, optimizer, 0, 100, dict(kwargs))
    draw = random.Random(len(kwargs))
    metrics, rates, level = [], [], 1.0
    for i in range(60):
        level += draw.choice([-0.1, -0.02, 0.0, 0.03]) if i % 20 < 8 else draw.choice([0.0, 0.0, 0.01])
        metrics.append(level)
        rates.append(optimizer.param_groups[0]["lr"])
        scheduler.step(level)
    return {"name": name, "lr": lr, "kwargs": kwargs, "metrics": metrics, "rates": rates}


def optimizer(name, settings):
    """In double, so that what differs is the formula."""
    torch.manual_seed(3)
    draw = lambda shape: torch.round(torch.randn(shape, dtype=torch.float64), decimals=3)
    parameters = [torch.nn.Parameter(draw(shape)) for shape in SHAPES]
    start = [p.detach().flatten().tolist() for p in parameters]
    groups = [{"params": parameters[:3]}, {"params": parameters[3:], "weight_decay": 0.0}]
    made = (torch.optim.SGD(groups, **settings) if name == "sgd" else
            Adafactor(groups, scale_parameter=False, relative_step=False, **settings))
    steps = []
    for _ in range(4):
        gradients = [draw(shape) for shape in SHAPES]
        for p, g in zip(parameters, gradients):
            p.grad = g
        made.step()
        steps.append({"gradients": [g.flatten().tolist() for g in gradients],
                      "parameters": [p.detach().flatten().tolist() for p in parameters]})
    return {"name": name, "settings": settings, "shapes": SHAPES, "decayed": 3, "start": start, "steps": steps}


def rebalanced(samples, batch, accumulation, ranks, drop_last, seed, epoch, longest):
    draw = random.Random(samples)
    lengths = [min(longest, 3 + int(draw.expovariate(0.05))) for _ in range(samples)]
    rows = []
    for rank in range(ranks):
        sampler = BatchRebalanceSampler(lengths, batch * accumulation * ranks, ranks, accumulation, seed=seed, rank=rank,
                                        drop_last=drop_last)
        sampler.set_epoch(epoch)
        rows.append(list(sampler))
    return {"lengths": lengths, "batch": batch, "accumulation": accumulation, "drop_last": drop_last, "seed": seed,
            "epoch": epoch, "ranks": rows}


def smoothed(classes, epsilon):
    torch.manual_seed(classes)
    logits = (3 * torch.randn(6, classes)).double().requires_grad_()
    labels = torch.randint(0, classes, (6,))
    labels[4] = -100
    loss = LabelSmoother(epsilon=epsilon)({"logits": logits}, labels)
    loss.backward()
    return {"smoothing": epsilon, "logits": logits.tolist(), "labels": labels.tolist(), "loss": loss.item(),
            "gradient": logits.grad.tolist()}


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
    write("metric_schedules.json", [metric_schedule(*row) for row in METRIC_SCHEDULES])
    write("optimizers.json", [optimizer(*row) for row in OPTIMIZERS])
    write("batch_rebalance.json", [rebalanced(*row) for row in (
        (50, 4, 3, 1, False, 42, 0, 60), (50, 4, 3, 1, True, 42, 1, 60), (37, 2, 2, 2, False, 7, 2, 400),
        (13, 1, 4, 3, False, 1, 0, 30), (100, 8, 1, 4, False, 5, 3, 500), (64, 4, 2, 2, True, 5, 0, 8))])
    write("label_smoothing.json", [smoothed(2, 0.1), smoothed(3, 0.5), smoothed(7, 1.0)])
    write("floats.json", floats())
    source = {"b": 1e-05, "a": [1, 2.0, True, None, []], "é": "naïve \U0001f600 \x7f \" \\ / \t\n\b\f\x01", "empty": {},
              "nested": {"z": 10**18, "y": -1, "x": "\u2028"}}
    (OUT / "dump_source.json").write_text(json.dumps(source, ensure_ascii=False))
    (OUT / "dump.json").write_text(json.dumps(source, indent=4, sort_keys=True))


main()
