#!/usr/bin/env python3
"""Writes tests/golden/data/reference.json: what PyTorch, accelerate, transformers, scikit-learn and scipy give
for the inputs that lathe/data's tests rebuild.  Needs those packages; the tests do not.

Usage: tools/make_data_goldens.py            (from the repository root)
"""
import json
import pathlib

import numpy as np
import torch
from accelerate.data_loader import BatchSamplerShard
from scipy.stats import pearsonr, spearmanr
from sklearn.metrics import f1_score, matthews_corrcoef
from torch.utils.data import BatchSampler, SequentialSampler
from transformers.trainer_pt_utils import get_length_grouped_indices


def generator(seed):
    return torch.Generator().manual_seed(seed)


def fnv64(values):
    """FNV-1a over little-endian int32."""
    h = 0xCBF29CE484222325
    for byte in np.asarray(values, dtype="<i4").tobytes():
        h = ((h ^ byte) * 0x100000001B3) % 2**64
    return f"{h:016x}"


def pseudo(count, modulus, seed):
    """Numbers below modulus from a 64-bit LCG that the tests repeat (Knuth's MMIX constants)."""
    out, state = [], seed
    for _ in range(count):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        out.append((state >> 33) % modulus)
    return out


def permutations():
    cases = [(0, 1), (1, 1), (2, 5), (20, 42), (20, 0), (3668, 42), (3668, 43), (3668, 44), (130000, 42),
             (130000, 2**32 + 7)]
    out = []
    for n, seed in cases:
        order = torch.randperm(n, generator=generator(seed)).tolist()
        out.append({"n": n, "seed": seed, "head": order[:20], "fnv64": fnv64(order)})
    return out


def normals():
    """Samples of every 97th element, the first and the last 20."""
    out = []
    for n in (1, 5, 15, 16, 17, 250, 384, 768, 1536, 4608):
        for seed, mean, std in ((42, 0.0, 0.02), (43, 0.5, 2.0)):
            x = torch.empty(n).normal_(mean, std, generator=generator(seed)).tolist()
            at = sorted(set(list(range(min(n, 20))) + list(range(0, n, 97)) + list(range(max(0, n - 20), n))))
            out.append({"n": n, "seed": seed, "mean": mean, "std": std, "at": at, "values": [x[i] for i in at]})
    return out


def continued():
    """Draws of several kinds, one after the other, from one generator."""
    g = generator(7)
    parts = [torch.empty(5).normal_(0, 1, generator=g), torch.empty(2).normal_(0, 1, generator=g),
             torch.empty(3).uniform_(-1, 3, generator=g), torch.empty(20).normal_(0, 1, generator=g)]
    return torch.cat(parts).tolist()


def grouped():
    out = []
    for n, group, seed in ((1, 4, 1), (37, 4, 42), (1000, 8, 43), (9000, 32, 42)):
        lengths = pseudo(n, 120, seed)
        order = get_length_grouped_indices(lengths, group, generator=generator(seed))
        out.append({"n": n, "group": group, "seed": seed, "head": order[:20], "fnv64": fnv64(order)})
    return out


def shards():
    out = []
    for size in (1, 3, 7, 16, 17, 23, 24, 25):
        for world in (2, 3):
            for drop_last, even in ((False, True), (False, False), (True, True)):
                ranks = []
                for rank in range(world):
                    sampler = BatchSampler(SequentialSampler(range(size)), 4, drop_last)
                    ranks.append([list(b) for b in BatchSamplerShard(sampler, world, rank, even_batches=even)])
                out.append({"size": size, "batch_size": 4, "world": world, "drop_last": drop_last, "even": even,
                            "ranks": ranks})
    return out


def metrics():
    out = []
    for n, classes, seed in ((10, 2, 1), (408, 2, 2), (1043, 2, 3), (500, 3, 4)):
        truth, guess = np.array(pseudo(n, classes, seed)), np.array(pseudo(n, classes, seed + 100))
        keep = np.array(pseudo(n, 3, seed + 200)) > 0  # two thirds right, about
        guess = np.where(keep, truth, guess)
        out.append({"n": n, "classes": classes, "seed": seed, "accuracy": float((truth == guess).mean()),
                    "f1": float(f1_score(truth, guess)) if classes == 2 else None,
                    "mcc": float(matthews_corrcoef(truth, guess))})
    return out


def regressions():
    out = []
    for n, modulus, seed in ((5, 20, 1), (1500, 26, 2), (300, 100000, 3)):
        truth = np.array(pseudo(n, modulus, seed)) / 5.0
        noise = np.array(pseudo(n, modulus, seed + 100)) / 10.0
        x, y = np.float32(truth + noise), np.float32(truth)
        out.append({"n": n, "modulus": modulus, "seed": seed,
                    "pearson": float(pearsonr(x.astype(np.float64), y.astype(np.float64))[0]),
                    "spearman": float(spearmanr(x, y)[0]),
                    "mse": float(((x.astype(np.float64) - y.astype(np.float64)) ** 2).mean())})
    return out


def main():
    target = pathlib.Path(__file__).resolve().parent.parent / "tests/golden/data/reference.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    content = {"versions": {"torch": torch.__version__}, "randperm": permutations(), "normal": normals(),
               "continued": continued(), "length_grouped": grouped(), "shards": shards(), "classes": metrics(),
               "regression": regressions()}
    lines = [f"{json.dumps(k)}: {json.dumps(v, separators=(',', ':'))}" for k, v in content.items()]
    target.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
