#!/usr/bin/env python3
"""The same work in Lathe and in PyTorch, in turns, on the same threads, and the ratios of their times.

    against_torch.py [--lathe build/lathe] [--threads N] [--rounds 10] [--cases step,infer,mlp]
                     [--step_batches 8,32] [--step_dtypes bf16,fp32] [--json]

Run it in a Python with torch and transformers. Each round times Lathe (one process of `lathe bench`, its median of
three calls after its warm-up) and then PyTorch (the median of three calls, warmed up before the first round); the table
holds medians over the rounds, of the ratios too, and the quartiles of the ratios. PyTorch is eager, as the Trainer runs
it: a step is forward under autocast, backward, clipping and fused AdamW with dropout on, in fp16 with the loss scaled;
inference has padding and a mask, with weights cast to bf16 once, which is faster than autocast. Both get the same
lengths and token ids.

Peak memory and the time from start to the first finished step are those of a process of its own.
"""
import argparse
import contextlib
import importlib.util
import itertools
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

CALLS = 3  # of each side in a round
BATCHES, SEQ, DTYPES = (8, 32), 128, ("bf16", "fp16", "fp32")
TEXTS = [1, 8, 64]


def token_ids(torch, lengths, vocabulary):
    """As `lathe bench` draws them, padded with 0; and the mask."""
    longest = max(lengths)
    ids = [[(7919 * row + 104729 * t) % vocabulary if t < n else 0 for t in range(longest)]
           for row, n in enumerate(lengths)]
    mask = [[int(t < n) for t in range(longest)] for n in lengths]
    return torch.tensor(ids), torch.tensor(mask)


def torch_step(torch, batch, seq, dtype):
    """A function that runs one training step of BERT-base."""
    import transformers
    torch.manual_seed(0)
    model = transformers.BertForSequenceClassification(transformers.BertConfig(num_labels=2)).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5, fused=True)
    ids, mask = token_ids(torch, [seq] * batch, model.config.vocab_size)
    labels = torch.arange(batch) % 2
    scaler = torch.amp.GradScaler("cpu", enabled=dtype == "fp16")  # does nothing where it is not enabled

    def step():
        with torch.autocast("cpu", dtype=torch.float16 if dtype == "fp16" else torch.bfloat16, enabled=dtype != "fp32"):
            loss = model(input_ids=ids, attention_mask=mask, labels=labels).loss
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)

    return step


def torch_inference(torch, lengths):
    """A function that scores texts of these lengths with BERT-base."""
    import transformers
    torch.manual_seed(0)
    model = transformers.BertForSequenceClassification(transformers.BertConfig(num_labels=6)).eval().bfloat16()
    ids, mask = token_ids(torch, lengths, model.config.vocab_size)

    def infer():
        with torch.inference_mode():
            return model(input_ids=ids, attention_mask=mask).logits

    return infer


def torch_mlp(torch, rows):
    torch.manual_seed(0)
    widths = (1024, 512, 256, 10)
    layers = [torch.nn.Linear(a, b) for a, b in zip(widths, widths[1:])]
    model = torch.nn.Sequential(layers[0], torch.nn.ReLU(), layers[1], torch.nn.ReLU(), layers[2])
    x = torch.randn(rows, widths[0])

    def step():
        model.zero_grad(set_to_none=True)
        model(x).mean().backward()

    return step


def timed(call):
    begin = time.perf_counter()
    call()
    return (time.perf_counter() - begin) * 1e3


def resident_peak():
    """Bytes; not getrusage, whose value begins with what the process was that called exec."""
    with contextlib.suppress(OSError), open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM:"))
    return None


def run_alone(batch, seq, dtype, threads, begin):
    """In a process of its own: milliseconds from its start to the end of the first step, and its peak memory."""
    import torch
    torch.set_num_threads(threads)
    step = torch_step(torch, batch, seq, dtype)
    step()
    first = (time.time() - begin) * 1e3
    for _ in range(CALLS):
        step()
    print(json.dumps({"first_step_ms": first, "peak_memory_bytes": resident_peak()}))


class Comparison:

    def __init__(self, torch, options):
        self.torch, self.options = torch, options
        self.results = []

    def lathe(self, *words):
        command = [self.options.lathe, "bench", *map(str, words), "--device", "cpu", "--threads",
                   str(self.options.threads), "--steps", str(CALLS), "--json"]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            sys.exit(f"{' '.join(command)}\n{result.stderr}")
        return json.loads(result.stdout)

    def in_turns(self, name, words, make):
        """make(row) gives PyTorch's call for what Lathe said it did."""
        call = make(self.lathe(*words))
        for _ in range(2):
            call()
        rows, torch_ms = [], []
        for _ in range(self.options.rounds):
            rows.append(self.lathe(*words))
            torch_ms.append(statistics.median(timed(call) for _ in range(CALLS)))
        ratios = sorted(t / row["ms"] for t, row in zip(torch_ms, rows))
        low, _, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
        self.add(name, "ms", statistics.median(row["ms"] for row in rows), statistics.median(torch_ms),
                 ratio=statistics.median(ratios), low=low, high=high, rounds=len(rows),
                 percent_of_peak=statistics.median(row["percent_of_peak"] for row in rows))
        return rows

    def add(self, case, unit, lathe, torch, **more):
        result = {"case": case, "unit": unit, "lathe": lathe, "torch": torch, "ratio": torch / lathe,
                  "threads": self.options.threads, **more}
        self.results.append(result)
        if self.options.json:
            print(json.dumps({"bench": "against_torch", **result}), flush=True)
            return
        spread = f"{result['low']:.2f} to {result['high']:.2f}" if "low" in result else ""
        share = f"{result['percent_of_peak']:.1f} % of peak" if "percent_of_peak" in result else ""
        print(f"{case:<28} {lathe:>10.2f} {torch:>10.2f} {unit:<4} {result['ratio']:>6.2f}   {spread:<14} {share}",
              flush=True)

    def steps(self):
        batches, dtypes = (chosen.split(",") for chosen in (self.options.step_batches, self.options.step_dtypes))
        for batch, dtype in itertools.product(batches, dtypes):
            name = f"step {batch} x {SEQ} {dtype}"
            rows = self.in_turns(name, ["step", "--model", "bert-base", "--batch", batch, "--seq", SEQ, "--dtype", dtype],
                                 lambda row: torch_step(self.torch, row["batch"], row["seq"], row["dtype"]))
            alone = self.alone(batch, SEQ, dtype)
            self.add(f"{name}, start to first", "ms", statistics.median(row["first_step_ms"] for row in rows),
                     alone["first_step_ms"])
            if alone["peak_memory_bytes"] and rows[0]["peak_memory_bytes"]:
                self.add(f"{name}, memory", "GiB", max(row["peak_memory_bytes"] for row in rows) / 2**30,
                         alone["peak_memory_bytes"] / 2**30)

    def alone(self, *case):
        command = [sys.executable, __file__, "--alone", *map(str, case), str(self.options.threads), str(time.time())]
        return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    def inference(self):
        for batch in TEXTS:
            self.in_turns(f"infer {batch} bf16", ["infer", "--model", "bert-base", "--batch", batch, "--dtype", "bf16"],
                          lambda row: torch_inference(self.torch, row["lengths"]))

    def mlp(self):
        self.in_turns("mlp fp32", ["mlp"], lambda row: torch_mlp(self.torch, row["batch"]))


def arguments():
    root = pathlib.Path(__file__).resolve().parents[1]
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0],
                                     formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--lathe", default=str(root / "build" / "lathe"), help="the program")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity")
                        else os.cpu_count(), help="of both")
    parser.add_argument("--rounds", type=int, default=10, help="turns of each case")
    parser.add_argument("--cases", default="step,infer,mlp", help="which, parted by commas")
    parser.add_argument("--step_batches", default="8,32", help="rows of the steps, parted by commas")
    parser.add_argument("--step_dtypes", default="bf16,fp32", help="of the steps, parted by commas: bf16, fp16, fp32")
    parser.add_argument("--json", action="store_true", help="JSON lines instead of a table")
    options = parser.parse_args()
    unknown = set(options.cases.split(",")) - {"step", "infer", "mlp"}
    if set(options.step_batches.split(",")) - set(map(str, BATCHES)):
        parser.error(f"found {options.step_batches}; expected steps of 8 rows, of 32, or of both")
    if set(options.step_dtypes.split(",")) - set(DTYPES):
        parser.error(f"found {options.step_dtypes}; expected steps in {', '.join(DTYPES)}")
    if unknown or options.rounds < 1:
        parser.error(f"found {', '.join(sorted(unknown)) or options.rounds}; expected cases among step, infer, mlp and at "
                     "least one round")
    if options.threads < 1:
        parser.error(f"--threads: found {options.threads}; expected at least 1")
    if shutil.which(options.lathe) is None:
        parser.error(f"--lathe: found {options.lathe}, which is no program; expected the path of a built lathe")
    return options


def main():
    if sys.argv[1:2] == ["--alone"]:
        batch, seq, dtype, threads, begin = sys.argv[2:]
        return run_alone(int(batch), int(seq), dtype, int(threads), float(begin))
    options = arguments()
    missing = [name for name in ("torch", "transformers") if importlib.util.find_spec(name) is None]
    for name in missing:
        print(f"skipped: {name} is not installed in {sys.executable}"
              + ("; only mlp can be compared" if missing == ["transformers"] else ""))
    if "torch" in missing:
        sys.exit(77)
    import torch
    torch.set_num_threads(options.threads)
    comparison = Comparison(torch, options)
    if not options.json:
        print(f"{options.threads} threads, torch {torch.__version__}, {options.rounds} rounds; ratio = PyTorch / Lathe\n\n"
              f"{'case':<28} {'Lathe':>10} {'PyTorch':>10}       ratio   quartiles")
    for name, run in (("step", comparison.steps), ("infer", comparison.inference), ("mlp", comparison.mlp)):
        if name in options.cases.split(",") and (name == "mlp" or not missing):
            run()


if __name__ == "__main__":
    main()
