#!/usr/bin/env python3
"""`lathe ner` and what run_ner.py runs, in turns on the same sentences: sentences per second of training.

    ner_against_run_ner.py --model DIR --data FILE.iob2 [--lathe build/lathe] [--device cpu|cuda] [--dtypes bf16,fp32]
                           [--rounds 3] [--epochs 3] [--batch 32] [--limit N]
                           [--machine NAME --commit HASH --bar 8 --note TEXT]

Run it in a Python with torch, transformers and accelerate. The other side is run_ner.py without its reading of files
and arguments: words to tokens, a label for the first token of each word, AutoModelForTokenClassification, batches that
DataCollatorForTokenClassification pads to their longest sentence, and the Trainer, all with their defaults. Its samples
lie in a list, which is faster than a data set of `datasets`. Of the file every fifth document is left out.

Both sides write the loss to their log in the middle and at the end of a run. The time between the two lines is that of
the second half, without start, warm-up and tuning, and gives the figure; that of the whole run (train_runtime, which
both print) is in the note. A line of JSON for each dtype, as in bench/results; what each round took goes to stderr.
"""
import argparse
import contextlib
import datetime
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time


def read_sentences(path):
    """(words, tags) of each sentence of an IOB2 file of UNER."""
    found = []
    for part in pathlib.Path(path).read_text(encoding="utf-8").strip().split("\n\n"):
        rows = [line.split("\t") for line in part.split("\n") if not line.startswith("#")]
        found.append(([row[1] for row in rows], [row[2] for row in rows]))
    return found


def leave_out_a_fifth(path, folder):
    """train.iob2 and dev.iob2 in the folder: dev has every fifth document."""
    documents = ["# newdoc" + text for text in pathlib.Path(path).read_text(encoding="utf-8").split("# newdoc")[1:]]
    parts = {"train": [d for i, d in enumerate(documents, 1) if i % 5], "dev": documents[4::5]}
    for name, part in parts.items():
        (folder / f"{name}.iob2").write_text("".join(part), encoding="utf-8")
    return folder / "train.iob2", folder / "dev.iob2"


def samples(tokenizer, sentences, labels):
    """Tokens; the first one of a word has its label, the others -100."""
    found = []
    for words, tags in sentences:
        tokens = tokenizer(words, truncation=True, is_split_into_words=True)
        places = tokens.word_ids()
        found.append({**tokens, "labels": [-100 if word is None or word == before else labels.index(tags[word])
                                           for before, word in zip([None] + places, places)]})
    return found


def trainer_of(model_folder, sentences, labels, arguments, held_out=(), metrics=None):
    """run_ner's Trainer for these sentences."""
    import transformers
    transformers.set_seed(arguments.seed)
    tokenizer = transformers.AutoTokenizer.from_pretrained(model_folder)
    model = transformers.AutoModelForTokenClassification.from_pretrained(model_folder, num_labels=len(labels))
    if str(model.dtype) != "torch.float32":
        sys.exit(f"{model_folder}: run_ner would train weights in {model.dtype}, Lathe in float32")
    return transformers.Trainer(
        model=model, args=arguments, train_dataset=samples(tokenizer, sentences, labels),
        eval_dataset=samples(tokenizer, held_out, labels) if held_out else None, processing_class=tokenizer,
        data_collator=transformers.DataCollatorForTokenClassification(tokenizer), compute_metrics=metrics)


def trainer_arguments(folder, device, dtype, **more):
    import transformers
    return transformers.TrainingArguments(output_dir=str(folder), use_cpu=device == "cpu", bf16=dtype == "bf16",
                                          save_strategy="no", report_to=[], disable_tqdm=True, **more)


def run_lathe(command, at_loss=lambda: None):
    """Runs Lathe and calls at_loss for each line of the log with a loss."""
    words = [str(word) for word in command]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        lines = []
        for line in run.stdout:
            if line.startswith("{'loss'"):
                at_loss()
            lines.append(line)
        told = run.stderr.read()
    if run.returncode != 0:
        sys.exit(f"{' '.join(words)}\n{''.join(lines)}{told}")


class Comparison:

    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.train, _ = leave_out_a_fifth(options.data, folder)
        sentences = read_sentences(self.train)
        self.labels = sorted({tag for _, tags in sentences for tag in tags})
        self.sentences = sentences[:options.limit]
        self.half = max(1, -(-len(self.sentences) // options.batch) * options.epochs // 2)

    def seen(self, steps):
        """Sentences of so many updates: the last batch of an epoch is smaller."""
        per_epoch = -(-len(self.sentences) // self.options.batch)
        return (steps // per_epoch * len(self.sentences)
                + min(steps % per_epoch * self.options.batch, len(self.sentences)))

    def speeds(self, times, whole_seconds):
        """(of the second half, of the whole run) in sentences per second."""
        if len(times) != 2:
            sys.exit(f"expected two lines with a loss, found {len(times)}")
        return ((self.seen(2 * self.half) - self.seen(self.half)) / (times[1] - times[0]),
                self.seen(2 * self.half) / whole_seconds)

    def lathe(self, dtype):
        times, out, limit = [], self.folder / "out", self.options.limit
        run_lathe([self.options.lathe, "ner", "--model_name_or_path", self.options.model, "--train_file", self.train,
                   "--do_train", "--per_device_train_batch_size", self.options.batch, "--learning_rate", "5e-5",
                   "--max_steps", 2 * self.half, "--logging_steps", self.half, "--save_strategy", "no", "--device",
                   self.options.device, "--output_dir", out, "--overwrite_output_dir"]
                  + (["--bf16"] if dtype == "bf16" else [])
                  + (["--max_train_samples", limit] if limit else []), lambda: times.append(time.perf_counter()))
        return self.speeds(times, json.loads((out / "train_results.json").read_text())["train_runtime"])

    def trainer(self, dtype):
        import transformers
        times = []

        class Clock(transformers.TrainerCallback):

            def on_log(self, args, state, control, logs=None, **more):
                if "loss" in logs:
                    times.append(time.perf_counter())

        trainer = trainer_of(self.options.model, self.sentences, self.labels, trainer_arguments(
            self.folder / "trainer", self.options.device, dtype, per_device_train_batch_size=self.options.batch,
            learning_rate=5e-5, max_steps=2 * self.half, logging_steps=self.half))
        trainer.add_callback(Clock())
        with contextlib.redirect_stdout(sys.stderr):
            whole = trainer.train().metrics["train_runtime"]
        return self.speeds(times, whole)

    def row(self, dtype):
        import torch
        import transformers
        lathe, trainer = [], []
        for turn in range(self.options.rounds):
            lathe.append(self.lathe(dtype))
            trainer.append(self.trainer(dtype))
            sides = [f"{name} {run[0]:.1f} (whole {run[1]:.1f})"
                     for name, run in (("Lathe", lathe[-1]), ("the Trainer", trainer[-1]))]
            print(f"{self.options.device} {dtype} round {turn + 1}: {', '.join(sides)} sentences/s", file=sys.stderr,
                  flush=True)
        ratios = sorted(ours[0] / theirs[0] for ours, theirs in zip(lathe, trainer))
        middle = lambda side, which: statistics.median(run[which] for run in side)
        threads = f", {torch.get_num_threads()} threads" if self.options.device == "cpu" else ""
        found = {"subject": "against", "case": "NER next to run_ner, MiniLM, real lengths, batch 32", "variant": dtype,
                 "machine": self.options.machine, "commit": self.options.commit, "date": str(datetime.date.today()),
                 "command": f"bench/ner_against_run_ner.py --device {self.options.device} --dtypes {dtype} "
                            f"--rounds {self.options.rounds} --epochs {self.options.epochs}",
                 "opponent": f"run_ner's Trainer, transformers {transformers.__version__}, "
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
    parser.add_argument("--data", default="../shared/data/ner/uner_en_ewt/en_ewt-ud-dev.iob2")
    parser.add_argument("--lathe", default="build/lathe")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--dtypes", default="bf16")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--limit", type=int, help="train on the first so many sentences")
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
