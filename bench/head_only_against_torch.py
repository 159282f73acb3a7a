#!/usr/bin/env python3
"""A head on a frozen BERT, trained on TREC's first 1,000 questions by Lathe and by PyTorch: are the scores alike?

    head_only_against_torch.py --model DIR [--lathe build/lathe] [--data trec/train_5500.label] [--epochs 10]
                               [--batch 8] [--seeds 5] [--rates 1e-3,3e-3,1e-2] [--dropout] [--json]

Run it in a Python with torch and transformers. PyTorch's side is what tutorials write: the base frozen, a linear layer
on the pooled output, Adam with one learning rate, several epochs; of the rates it takes the one with the best mean.
Lathe's side is `lathe glue --freeze_base_model` with its default learning rate. Without --dropout neither side has any
(--config_overrides), so both keep the base's output. Accuracy is that of the other 4,452 questions. The rule: Lathe's
mean over the seeds is at least PyTorch's - 2 sqrt(s1^2/n + s2^2/n). Exit code 1 where it does not hold.
"""
import argparse
import json
import math
import pathlib
import statistics
import subprocess
import sys
import tempfile

TRAINED, LENGTH = 1000, 64


class Torch:
    """The tutorial's side."""

    def __init__(self, model, lines, dropout):
        import torch
        import transformers
        transformers.logging.set_verbosity_error()
        torch.set_num_threads(1)  # the products are small
        self.torch, self.transformers, self.model, self.dropout = torch, transformers, model, dropout
        names = sorted({line.split(":", 1)[0] for line in lines})
        self.classes = len(names)
        self.labels = torch.tensor([names.index(line.split(":", 1)[0]) for line in lines])
        tokenizer = transformers.AutoTokenizer.from_pretrained(model)
        self.ids = [tokenizer(line.split(" ", 1)[1], truncation=True, max_length=LENGTH)["input_ids"] for line in lines]
        self.pooled = self.all_pooled()

    def made(self):
        return self.transformers.AutoModelForSequenceClassification.from_pretrained(self.model, num_labels=self.classes)

    def batch(self, rows):
        longest = max(len(self.ids[i]) for i in rows)
        ids = self.torch.tensor([self.ids[i] + [0] * (longest - len(self.ids[i])) for i in rows])
        return {"input_ids": ids, "attention_mask": (ids != 0).long()}

    def all_pooled(self):
        """The base's output without dropout, for every row."""
        base = self.made().eval().base_model
        out = self.torch.empty(len(self.ids), base.config.hidden_size)
        order = sorted(range(len(self.ids)), key=lambda i: len(self.ids[i]))
        with self.torch.no_grad():
            for at in range(0, len(order), 64):
                rows = order[at:at + 64]
                out[rows] = base(**self.batch(rows)).pooler_output
        return out

    def accuracy(self, seed, rate, epochs, batch_size):
        torch = self.torch
        torch.manual_seed(seed)
        model = self.made()
        for parameter in model.base_model.parameters():
            parameter.requires_grad = False
        optimizer = torch.optim.Adam(model.classifier.parameters(), lr=rate)
        model.train()
        for _ in range(epochs):
            order = torch.randperm(TRAINED).tolist()
            for at in range(0, TRAINED, batch_size):
                rows = order[at:at + batch_size]
                logits = model(**self.batch(rows)).logits if self.dropout else model.classifier(self.pooled[rows])
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(logits, self.labels[rows]).backward()
                optimizer.step()
        model.eval()
        with torch.no_grad():
            return (model.classifier(self.pooled[TRAINED:]).argmax(-1) == self.labels[TRAINED:]).float().mean().item()


def lathe_accuracy(args, folder, seed):
    command = [args.lathe, "glue", "--model_name_or_path", args.model, "--train_file", folder / "train.label",
               "--validation_file", folder / "test.label", "--do_train", "--do_eval", "--freeze_base_model",
               "--max_seq_length", LENGTH, "--num_train_epochs", args.epochs, "--per_device_train_batch_size", args.batch,
               "--per_device_eval_batch_size", 64, "--seed", seed, "--save_strategy", "no", "--output_dir",
               folder / f"out{seed}", "--use_cpu"]
    if not args.dropout:
        command += ["--config_overrides", "hidden_dropout_prob=0,attention_probs_dropout_prob=0,classifier_dropout=0"]
    subprocess.run([str(word) for word in command], check=True, capture_output=True)
    return json.loads((folder / f"out{seed}" / "eval_results.json").read_text())["eval_accuracy"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--lathe", default="build/lathe")
    parser.add_argument("--data", default="../shared/data/trec/train_5500.label")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rates", default="1e-3,3e-3,1e-2")
    parser.add_argument("--dropout", action="store_true")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    lines = pathlib.Path(args.data).read_text(encoding="latin-1").splitlines()
    seeds = range(42, 42 + args.seeds)
    side = Torch(args.model, lines, args.dropout)
    by_rate = {rate: [side.accuracy(seed, float(rate), args.epochs, args.batch) for seed in seeds]
               for rate in args.rates.split(",")}
    best = max(by_rate, key=lambda rate: statistics.mean(by_rate[rate]))
    with tempfile.TemporaryDirectory() as temp:
        folder = pathlib.Path(temp)
        (folder / "train.label").write_text("\n".join(lines[:TRAINED]) + "\n")
        (folder / "test.label").write_text("\n".join(lines[TRAINED:]) + "\n")
        lathe = [lathe_accuracy(args, folder, seed) for seed in seeds]
    torch = by_rate[best]
    margin = 2 * math.sqrt((statistics.variance(lathe) + statistics.variance(torch)) / args.seeds)
    holds = statistics.mean(lathe) >= statistics.mean(torch) - margin
    if args.json:
        print(json.dumps({"epochs": args.epochs, "batch": args.batch, "dropout": args.dropout, "rate": best,
                          "lathe_scores": [round(x, 4) for x in lathe], "torch_scores": [round(x, 4) for x in torch],
                          "margin": round(margin, 4), "holds": holds}))
        return 0 if holds else 1
    for rate, scores in by_rate.items():
        print(f"torch {rate}: mean {statistics.mean(scores):.4f}, {[round(x, 4) for x in scores]}")
    print(f"lathe: mean {statistics.mean(lathe):.4f}, {[round(x, 4) for x in lathe]}")
    print(f"{'holds' if holds else 'DOES NOT HOLD'}: {statistics.mean(lathe):.4f} against "
          f"{statistics.mean(torch):.4f} - {margin:.4f}")
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
