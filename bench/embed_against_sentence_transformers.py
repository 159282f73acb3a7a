#!/usr/bin/env python3
"""`lathe embed` and sentence-transformers' trainer, in turns on the same rows: samples per second of training.

    embed_against_sentence_transformers.py --model DIR --data FILE [--case pairs|scores|rerank] [--lathe build/lathe]
        [--device cpu|cuda] [--dtypes bf16,fp32] [--rounds 3] [--batch 128] [--steps 60] [--limit N]
        [--machine NAME --commit HASH --bar 8 --note TEXT]

Run it in a Python with torch, datasets and sentence-transformers. Of `pairs` the first two columns of the JSON Lines of FILE
are learnt by MultipleNegativesRankingLoss; of `scores` FILE is STS-B's train.tsv, learnt by CoSENTLoss, and of `rerank` the
same by `lathe rerank` with BinaryCrossEntropyLoss. The other side is SentenceTransformerTrainer or CrossEncoderTrainer with
their defaults. Texts have their real lengths.

Both sides write the loss to their log in the middle and at the end of a run. The time between the two lines is that of the
second half, without start, warm-up and tuning, and gives the figure; that of the whole run (train_runtime, which both print)
is in the note. A line of JSON for each dtype, as in bench/results; what each round took goes to stderr.
"""
import argparse
import contextlib
import csv
import datetime
import json
import pathlib
import statistics
import sys
import tempfile
import time

from ner_against_run_ner import run_lathe


def read_rows(path, case, limit):
    """Columns by name."""
    lines = pathlib.Path(path).read_text(encoding="utf-8").splitlines()
    if case != "pairs":
        rows = [line.split("\t") for line in lines[1:]]
        rows = [{"sentence1": row[7], "sentence2": row[8], "score": float(row[9]) / 5} for row in rows]
    else:
        rows = [dict(list(json.loads(line).items())[:2]) for line in lines]
    return {name: [row[name] for row in rows[:limit]] for name in rows[0]}


class Comparison:

    def __init__(self, options, folder):
        self.options, self.folder, self.half = options, folder, options.steps // 2
        self.rows = read_rows(options.data, options.case, options.limit)
        self.table = folder / "rows.csv"
        with open(self.table, "w", newline="", encoding="utf-8") as file:
            table = csv.writer(file)
            table.writerow(self.rows)
            table.writerows(zip(*self.rows.values()))

    def speeds(self, times, whole_seconds):
        """(of the second half, of the whole run) in samples per second; epochs end in a short batch."""
        if len(times) != 2:
            sys.exit(f"expected two lines with a loss, found {len(times)}")
        count, batch = len(self.rows[next(iter(self.rows))]), self.options.batch
        per_epoch = -(-count // batch)
        seen = lambda steps: steps // per_epoch * count + min(steps % per_epoch * batch, count)
        return (seen(2 * self.half) - seen(self.half)) / (times[1] - times[0]), seen(2 * self.half) / whole_seconds

    def lathe(self, dtype):
        times, out = [], self.folder / "out"
        losses = {"pairs": "MultipleNegativesRankingLoss", "scores": "CoSENTLoss", "rerank": "BinaryCrossEntropyLoss"}
        run_lathe([self.options.lathe, "rerank" if self.options.case == "rerank" else "embed", "--model_name_or_path", self.options.model, "--train_file", self.table,
                   "--do_train", "--per_device_train_batch_size", self.options.batch, "--max_steps", 2 * self.half,
                   "--logging_steps", self.half, "--save_strategy", "no", "--device", self.options.device, "--loss",
                   losses[self.options.case], "--output_dir", out,
                   "--overwrite_output_dir"] + (["--bf16"] if dtype == "bf16" else []),
                  lambda: times.append(time.perf_counter()))
        return self.speeds(times, json.loads((out / "train_results.json").read_text())["train_runtime"])

    def trainer(self, dtype):
        import datasets
        import transformers
        from sentence_transformers import cross_encoder as cross
        from sentence_transformers import (SentenceTransformer, SentenceTransformerTrainer,
                                           SentenceTransformerTrainingArguments, losses)
        times = []

        class Clock(transformers.TrainerCallback):

            def on_log(self, args, state, control, logs=None, **more):
                if "loss" in logs:
                    times.append(time.perf_counter())

        of_pairs = self.options.case == "rerank"
        if of_pairs:
            model = cross.CrossEncoder(self.options.model, num_labels=1, device=self.options.device)
            loss = cross.losses.BinaryCrossEntropyLoss(model)
        else:
            model = SentenceTransformer(self.options.model, device=self.options.device)
            loss = (losses.CoSENTLoss if self.options.case == "scores" else losses.MultipleNegativesRankingLoss)(model)
        arguments = (cross.CrossEncoderTrainingArguments if of_pairs else SentenceTransformerTrainingArguments)(
            output_dir=str(self.folder / "trainer"), use_cpu=self.options.device == "cpu", bf16=dtype == "bf16",
            save_strategy="no", report_to=[], disable_tqdm=True, per_device_train_batch_size=self.options.batch,
            max_steps=2 * self.half, logging_steps=self.half)
        trainer = (cross.CrossEncoderTrainer if of_pairs else SentenceTransformerTrainer)(
            model=model, args=arguments, train_dataset=datasets.Dataset.from_dict(self.rows), loss=loss, callbacks=[Clock()])
        with contextlib.redirect_stdout(sys.stderr):
            whole = trainer.train().metrics["train_runtime"]
        return self.speeds(times, whole)

    def row(self, dtype):
        import sentence_transformers
        import torch
        lathe, trainer = [], []
        for turn in range(self.options.rounds):
            lathe.append(self.lathe(dtype))
            trainer.append(self.trainer(dtype))
            sides = [f"{name} {run[0]:.1f} (whole {run[1]:.1f})"
                     for name, run in (("Lathe", lathe[-1]), ("the trainer", trainer[-1]))]
            print(f"{self.options.device} {dtype} round {turn + 1}: {', '.join(sides)} samples/s", file=sys.stderr, flush=True)
        ratios = sorted(ours[0] / theirs[0] for ours, theirs in zip(lathe, trainer))
        middle = lambda side, which: statistics.median(run[which] for run in side)
        threads = f", {torch.get_num_threads()} threads" if self.options.device == "cpu" else ""
        what = {"pairs": "embed pairs", "scores": "embed STS-B", "rerank": "rerank STS-B"}[self.options.case]
        found = {"subject": "against", "case": "next to sentence-transformers, texts of real lengths",
                 "variant": f"{what}, {self.options.name}, batch {self.options.batch}, {dtype}", "machine": self.options.machine, "commit": self.options.commit,
                 "date": str(datetime.date.today()),
                 "command": f"bench/embed_against_sentence_transformers.py --case {self.options.case} --device "
                            f"{self.options.device} --dtypes {dtype} --batch {self.options.batch} --steps {self.options.steps} "
                            f"--rounds {self.options.rounds}",
                 "opponent": f"sentence-transformers {sentence_transformers.__version__}, "
                             f"PyTorch {torch.__version__.split('+')[0]}{threads}",
                 "lathe_per_s": round(middle(lathe, 0), 1), "torch_per_s": round(middle(trainer, 0), 1),
                 "ratio": round(statistics.median(ratios), 2), "ratio_low": round(ratios[0], 2),
                 "ratio_high": round(ratios[-1], 2)}
        if self.options.bar:
            found["bar_ratio"] = self.options.bar
        whole = f"Whole runs of {2 * self.half} updates: {middle(lathe, 1):.1f} against {middle(trainer, 1):.1f}."
        return {**found, "note": f"{whole} {self.options.note}".strip()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--case", choices=("pairs", "scores", "rerank"), default="pairs")
    parser.add_argument("--name", default="MiniLM")
    parser.add_argument("--lathe", default="build/lathe")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--dtypes", default="bf16")
    for name, default in (("rounds", 3), ("batch", 128), ("steps", 60)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--limit", type=int, help="train on the first so many rows")
    parser.add_argument("--machine", default="linux")
    parser.add_argument("--commit", default="")
    parser.add_argument("--bar", type=float)
    parser.add_argument("--note", default="")
    options = parser.parse_args()
    import transformers
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    with tempfile.TemporaryDirectory() as folder:
        comparison = Comparison(options, pathlib.Path(folder))
        for dtype in options.dtypes.split(","):
            print(json.dumps(comparison.row(dtype), ensure_ascii=False), flush=True)


if __name__ == "__main__":
    main()
