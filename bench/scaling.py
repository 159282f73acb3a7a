#!/usr/bin/env python3
"""Training on 1, 2, 4 processes of this machine, in turns within one run: samples per second, and their ratio to one
process's in the same turn, as the median over the turns.

    bench/scaling.py LATHE MODEL TRAIN_CSV [--turns N] [--steps N] [--batch N] [--seq N] [FLAGS OF lathe glue...]

Every number of processes trains the same batch in the same number of updates, so ratios tell of strong scaling: 1.0 for one
process, n at best where n processes have n times the cores; on the cores of one process about 1 is the best."""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile


def rate(arguments, more, ranks):
    """train_samples_per_second of one run."""
    with tempfile.TemporaryDirectory() as out:
        words = [arguments.lathe, *(["launch", "-n", str(ranks)] if ranks > 1 else []), "glue", "--model_name_or_path",
                 arguments.model, "--train_file", arguments.train, "--do_train", "--max_steps", str(arguments.steps),
                 "--per_device_train_batch_size", str(arguments.batch // ranks), "--max_seq_length", str(arguments.seq),
                 "--output_dir", out, "--save_strategy", "no", "--use_cpu", "--ignore_mismatched_sizes", "--disable_tqdm",
                 "true", *more]
        result = subprocess.run(words, capture_output=True, text=True)
        if result.returncode != 0:
            sys.exit(result.stderr)
        return json.loads((pathlib.Path(out) / "train_results.json").read_text())["train_samples_per_second"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lathe")
    parser.add_argument("model")
    parser.add_argument("train", help="a csv with the columns sentence1 and label")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--batch", type=int, default=32, help="of all processes together")
    parser.add_argument("--seq", type=int, default=64)
    arguments, more = parser.parse_known_args()
    processes = (1, 2, 4)
    rates = {n: [] for n in processes}
    for turn in range(arguments.turns):
        for n in processes if turn % 2 == 0 else reversed(processes):  # a load that grows or falls must not favour one
            rates[n].append(rate(arguments, more, n))
    cores, load = len(os.sched_getaffinity(0)), os.getloadavg()[0]
    print(f"{cores} cores, load {load:.1f}; batch {arguments.batch}, at most {arguments.seq} tokens, {arguments.steps} updates, "
          f"{arguments.turns} turns\n")
    print("| processes | samples/s | ratio | least | most |\n| ---: | ---: | ---: | ---: | ---: |")
    for n in processes:
        ratios = [mine / one for mine, one in zip(rates[n], rates[1])]
        print(f"| {n} | {statistics.median(rates[n]):.1f} | {statistics.median(ratios):.2f} | {min(ratios):.2f} | "
              f"{max(ratios):.2f} |")


if __name__ == "__main__":
    main()
