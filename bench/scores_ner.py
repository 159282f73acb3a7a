#!/usr/bin/env python3
"""Scores of all-MiniLM-L6-v2 over seeds: `lathe ner` and LoRA of `lathe glue` next to the Trainer on the same machine.

    scores_ner.py --model DIR [--data ../shared/data] [--cases english,chinese,lora] [--lathe build/lathe]
                  [--device cpu|cuda] [--dtype bf16|fp32] [--seeds 5] [--epochs 3] [--lora_rate 1e-3] [--limit N]
                  [--machine NAME --commit HASH --note TEXT]

english and chinese: entities, batch 32, learning rate 5e-5; the other side is what run_ner.py runs (see
ner_against_run_ner.py), scored by the package seqeval. Of the English file every fifth document is held out. lora: MRPC
with PEFT's defaults (r 8, alpha 8, query and value) and batch 32; the other side is peft's get_peft_model in the
Trainer. It needs peft, and the NER cases need seqeval; both sides start from the same weights, A, B and head.

The rule: Lathe's mean over the seeds is at least the Trainer's - 2 sqrt(s1^2/n + s2^2/n), and its loss of evaluation at
most the Trainer's + as much. A line of JSON for each score, as in bench/results; each seed goes to stderr. Exit code 1
where a rule does not hold.
"""
import argparse
import contextlib
import datetime
import json
import math
import pathlib
import statistics
import sys
import tempfile

from ner_against_run_ner import leave_out_a_fifth, read_sentences, run_lathe, trainer_arguments, trainer_of

LANGUAGES = {"english": "English", "chinese": "Chinese"}
MRPC_LENGTH = 128


class Case:
    """Both sides of one case: seed to scores by name. title and variant are how the table calls a score."""

    batch, loss = 32, "eval_loss"

    def __init__(self, name, options, folder):
        self.name, self.options, self.folder = name, options, folder

    def arguments(self, seed):
        return trainer_arguments(self.folder / "trainer", self.options.device, self.options.dtype, seed=seed,
                                 per_device_train_batch_size=self.batch, per_device_eval_batch_size=self.batch,
                                 learning_rate=float(self.rate), num_train_epochs=self.options.epochs,
                                 label_names=["labels"])

    def lathe(self, seed):
        out = self.folder / "out"
        run_lathe([self.options.lathe, *self.command(), "--model_name_or_path", self.options.model, "--do_train",
                   "--do_eval", "--per_device_train_batch_size", self.batch, "--per_device_eval_batch_size", self.batch,
                   "--learning_rate", self.rate, "--num_train_epochs", self.options.epochs, "--seed", seed,
                   "--save_strategy", "no", "--device", self.options.device, "--output_dir", out,
                   "--overwrite_output_dir"]
                  + (["--bf16"] if self.options.dtype == "bf16" else []))
        return json.loads((out / "all_results.json").read_text())

    def limits(self):
        """Of `lathe`, which takes them of every task."""
        limit = self.options.limit
        return ["--max_train_samples", limit, "--max_eval_samples", limit] if limit else []

    def trained(self, trainer):
        with contextlib.redirect_stdout(sys.stderr):
            trainer.train()
            return trainer.evaluate()


class Entities(Case):
    scores, rate, more = {"eval_f1": "F1"}, "5e-5", ""
    title = lambda self, score: f"NER {score}"
    variant = lambda self, score: LANGUAGES[self.name]

    def __init__(self, *words):
        super().__init__(*words)
        data = pathlib.Path(self.options.data) / "ner"
        if self.name == "english":
            files = leave_out_a_fifth(data / "uner_en_ewt" / "en_ewt-ud-dev.iob2", self.folder)
        else:
            files = [data / "uner_zh_gsd" / f"zh_gsd-ud-{part}.iob2" for part in ("train", "dev")]
        self.files = files
        sentences, held_out = (read_sentences(path) for path in files)
        self.labels = sorted({tag for _, tags in sentences for tag in tags})
        self.sentences, self.held_out = sentences[:self.options.limit], held_out[:self.options.limit]

    def command(self):
        return ["ner", "--train_file", self.files[0], "--validation_file", self.files[1], *self.limits()]

    def metrics(self, found):
        """run_ner's, over whole entities."""
        from seqeval.metrics import f1_score
        rows = [[(best, label) for best, label in zip(*pair) if label != -100]
                for pair in zip(found.predictions.argmax(-1), found.label_ids)]
        return {"f1": f1_score([[self.labels[label] for _, label in row] for row in rows],
                               [[self.labels[best] for best, _ in row] for row in rows])}

    def trainer(self, seed):
        return self.trained(trainer_of(self.options.model, self.sentences, self.labels, self.arguments(seed),
                                       self.held_out, self.metrics))


class Lora(Case):
    scores = {"eval_accuracy": "accuracy", "eval_f1": "F1"}
    title = lambda self, score: "LoRA on MRPC"
    variant = lambda self, score: score

    def __init__(self, *words):
        super().__init__(*words)
        self.rate = self.options.lora_rate
        self.more = f" --lora_rate {self.rate}"
        self.files = pathlib.Path(self.options.data) / "glue" / "MRPC"

    def command(self):
        return ["glue", "--task_name", "mrpc", "--data_dir", self.files.parent, "--max_seq_length", MRPC_LENGTH,
                "--use_peft", *self.limits()]

    def samples(self, tokenizer, part):
        found = []
        for line in (self.files / f"{part}.tsv").read_text(encoding="utf-8-sig").split("\n")[1:]:
            columns = line.rstrip("\r").split("\t")
            if len(columns) == 5:
                found.append({**tokenizer(columns[3], columns[4], truncation=True, max_length=MRPC_LENGTH),
                              "labels": int(columns[0])})
        return found[:self.options.limit]

    @staticmethod
    def metrics(found):
        from sklearn.metrics import f1_score
        best = found.predictions.argmax(-1)
        return {"accuracy": float((best == found.label_ids).mean()), "f1": float(f1_score(found.label_ids, best))}

    def trainer(self, seed):
        import peft
        import transformers
        transformers.set_seed(seed)
        tokenizer = transformers.AutoTokenizer.from_pretrained(self.options.model)
        base = transformers.AutoModelForSequenceClassification.from_pretrained(self.options.model, num_labels=2)
        model = peft.get_peft_model(base, peft.LoraConfig(task_type=peft.TaskType.SEQ_CLS))
        return self.trained(transformers.Trainer(
            model=model, args=self.arguments(seed), train_dataset=self.samples(tokenizer, "train"),
            eval_dataset=self.samples(tokenizer, "dev"), processing_class=tokenizer, compute_metrics=self.metrics,
            data_collator=transformers.DataCollatorWithPadding(tokenizer)))


def verdict(holds):
    return "holds" if holds else "DOES NOT HOLD"


def margin(ours, theirs):
    if len(ours) < 2:
        return math.nan
    return 2 * math.sqrt(statistics.variance(ours) / len(ours) + statistics.variance(theirs) / len(theirs))


def rows_of(case, options, script):
    """(row of each score, whether all rules hold)"""
    ours, theirs = [], []
    for seed in range(42, 42 + options.seeds):
        ours.append(case.lathe(seed))
        theirs.append(case.trainer(seed))
        told = [f"{key} {ours[-1][key]:.4f} / {theirs[-1][key]:.4f}" for key in (case.loss, *case.scores)]
        print(f"{case.name} seed {seed}: {', '.join(told)} (Lathe / the Trainer)", file=sys.stderr, flush=True)
    import transformers
    both = lambda key: ([run[key] for run in ours], [run[key] for run in theirs])
    losses = both(case.loss)
    most = statistics.mean(losses[1]) + margin(*losses)
    low_enough = statistics.mean(losses[0]) <= most
    rows, all_hold = [], low_enough
    for key, name in case.scores.items():
        scores = both(key)
        least = statistics.mean(scores[1]) - margin(*scores)
        holds = statistics.mean(scores[0]) >= least
        all_hold = all_hold and holds
        rows.append({
            "subject": "scores",
            "opponent": f"the Trainer on the same device, {options.dtype}, transformers {transformers.__version__}",
            "case": f"{case.title(name)}, `{options.device}`",
            "variant": case.variant(name), "machine": options.machine, "commit": options.commit,
            "date": str(datetime.date.today()),
            "command": f"bench/{script} --cases {case.name} --device {options.device} --dtype {options.dtype} "
                       f"--epochs {options.epochs:g}{case.more}",
            "lathe_scores": [round(score, 4) for score in scores[0]],
            "trainer_scores": [round(score, 4) for score in scores[1]],
            "note": f"The rule needs {least:.4f} and {verdict(holds)}, the loss ({statistics.mean(losses[0]):.4f}, at most "
                    f"{most:.4f}) {verdict(low_enough)}; {options.note}".removesuffix("; ").removesuffix(".") + "."})
    return rows, all_hold


def main(kinds, script, description):
    """kinds: the cases by name. script: whose help and command it is."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", default="../shared/data")
    parser.add_argument("--cases", default=",".join(kinds))
    parser.add_argument("--lathe", default="build/lathe")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--dtype", choices=("bf16", "fp32"), default="bf16")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=float, default=3)
    if "lora" in kinds:
        parser.add_argument("--lora_rate", default="1e-3")
    parser.add_argument("--limit", type=int, help="of each set the first so many samples")
    parser.add_argument("--machine", default="linux")
    parser.add_argument("--commit", default="")
    parser.add_argument("--note", default="")
    options = parser.parse_args()
    import transformers
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    failed = 0
    for name in options.cases.split(","):
        with tempfile.TemporaryDirectory() as folder:
            rows, all_hold = rows_of(kinds[name](name, options, pathlib.Path(folder)), options, script)
            for row in rows:
                print(json.dumps(row, ensure_ascii=False), flush=True)
            failed |= not all_hold
    return int(failed)


if __name__ == "__main__":
    sys.exit(main({"english": Entities, "chinese": Entities, "lora": Lora}, "scores_ner.py", __doc__))
