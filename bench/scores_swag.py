#!/usr/bin/env python3
"""Scores of all-MiniLM-L6-v2 over seeds: `lathe swag` next to the Trainer on the same machine.

    scores_swag.py --model DIR [--data ../shared/data] [--lathe build/lathe] [--device cpu|cuda] [--dtype bf16|fp32]
                   [--seeds 5] [--epochs 3] [--limit N] [--machine NAME --commit HASH --note TEXT]

arc_easy: questions with four answers each, batch 16, learning rate 5e-5; every fifth question is held out. The other side
is what run_swag.py runs: each answer with its question, AutoModelForMultipleChoice, batches that
DataCollatorForMultipleChoice pads to their longest answer, and the Trainer. Both sides start from the same weights and
head. The rule, what is printed and the exit code are those of scores_ner.py.
"""
import json
import pathlib
import sys

from scores_ner import Case, main

QUESTION, ANSWERS, RIGHT = "query", "choices", "gold"


class Choices(Case):
    scores, rate, batch, more = {"eval_accuracy": "accuracy"}, "5e-5", 16, ""
    title = lambda self, score: "multiple choice"
    variant = lambda self, score: self.name

    def __init__(self, *words):
        super().__init__(*words)
        lines = (pathlib.Path(self.options.data) / "mc" / self.name / "train.jsonl").read_text(encoding="utf-8").splitlines()
        parts = {"train": [line for i, line in enumerate(lines, 1) if i % 5], "dev": lines[4::5]}
        self.files, self.rows = {}, {}
        for part, own in parts.items():
            self.files[part] = self.folder / f"{part}.jsonl"
            self.files[part].write_text("".join(line + "\n" for line in own), encoding="utf-8")
            self.rows[part] = [json.loads(line) for line in own[:self.options.limit]]

    def command(self):
        return ["swag", "--train_file", self.files["train"], "--validation_file", self.files["dev"], "--context_column_name",
                QUESTION, "--endings_column_name", ANSWERS, "--label_column_name", RIGHT, *self.limits()]

    def samples(self, tokenizer, part):
        """run_swag's preprocess_function."""
        length = min(tokenizer.model_max_length, 1024)
        return [{**tokenizer([row[QUESTION]] * len(row[ANSWERS]), row[ANSWERS], truncation=True, max_length=length),
                 "label": row[RIGHT]} for row in self.rows[part]]

    @staticmethod
    def metrics(found):
        return {"accuracy": (found.predictions.argmax(axis=1) == found.label_ids).astype("float32").mean().item()}

    def trainer(self, seed):
        import transformers
        transformers.set_seed(seed)
        tokenizer = transformers.AutoTokenizer.from_pretrained(self.options.model)
        model = transformers.AutoModelForMultipleChoice.from_pretrained(self.options.model)
        if str(model.dtype) != "torch.float32":
            sys.exit(f"{self.options.model}: run_swag would train weights in {model.dtype}, Lathe in float32")
        return self.trained(transformers.Trainer(
            model=model, args=self.arguments(seed), train_dataset=self.samples(tokenizer, "train"),
            eval_dataset=self.samples(tokenizer, "dev"), processing_class=tokenizer, compute_metrics=self.metrics,
            data_collator=transformers.DataCollatorForMultipleChoice(tokenizer)))


if __name__ == "__main__":
    sys.exit(main({"arc_easy": Choices}, "scores_swag.py", __doc__))
