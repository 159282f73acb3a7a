#!/usr/bin/env python3
"""Counts what PyTorch dispatches in one training step of BERT (random weights): forward, backward, clipping, AdamW.

Usage: torch_ops.py [--batch 32] [--seq 128] [--layers 12] [--lists]

Needs torch and transformers. The count is of operators after autograd and autocast, as the device sees them; views of
memory, which compute nothing, are told apart. `lathe bench plan` counts Lathe's. AdamW is the fused one, the Trainer's
default. --lists: the norm and clipping go over lists of tensors, as on CUDA; else tensor by tensor, as on MPS.
"""
import argparse
import collections

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import BertConfig, BertForSequenceClassification


def is_view(func) -> bool:
    return any(result.alias_info is not None and not result.alias_info.is_write for result in func._schema.returns)


class Counter(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.ops, self.views = collections.Counter(), collections.Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        (self.views if is_view(func) else self.ops)[func.overloadpacket.__name__] += 1
        return func(*args, **(kwargs or {}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--seq", type=int, default=128)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--lists", action="store_true")
    args = parser.parse_args()
    model = BertForSequenceClassification(BertConfig(num_hidden_layers=args.layers)).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5, fused=True)
    ids = torch.randint(1000, 30000, (args.batch, args.seq))
    labels = torch.arange(args.batch) % 2

    def step():
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = model(input_ids=ids, labels=labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=args.lists)
        optimizer.step()
        optimizer.zero_grad()

    step()  # makes the optimizer's state
    with Counter() as counter:
        step()
    for name, count in counter.ops.most_common():
        print(f"{count:6}  {name}")
    print(f"{counter.ops.total():6}  operators in all, and {counter.views.total()} views")


if __name__ == "__main__":
    main()
