#!/usr/bin/env python3
"""Makes tests/golden/rerank/ with the real packages (torch, transformers, sentence-transformers): what CrossEncoderTrainer
does with a tiny random model of two families by each of three losses, on the CPU, fp32, eager attention, dropout 0, a new
head on a base; and a folder of each that it saves, in the keys of version 6 and of 3. What each file holds is written in
tests/golden/README.md. Run tools/make_mlm_traces.py first: its tokenizers and models are the bases.

    make_rerank_traces.py [family ...]
"""
import csv
import json
import pathlib
import shutil
import sys
import tempfile

import sentence_transformers
import torch
import transformers
from datasets import Dataset
from sentence_transformers import CrossEncoder
from sentence_transformers.cross_encoder import CrossEncoderTrainer, CrossEncoderTrainingArguments, losses
from sentence_transformers.cross_encoder.evaluation import (CrossEncoderClassificationEvaluator,
                                                            CrossEncoderCorrelationEvaluator,
                                                            CrossEncoderRerankingEvaluator)
from transformers import set_seed

from make_traces import SEED, WORDS, versions, write_json

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "tests" / "golden"
RERANK, MLM = GOLDEN / "rerank", GOLDEN / "mlm"
STEPS, BATCH, LENGTH = 20, 4, 24
# The column of the labels, the number of scores.
LOSSES = {"BinaryCrossEntropyLoss": ("label", 1), "MSELoss": ("score", 1), "CrossEntropyLoss": ("class", 3)}


def make_rows():
    """Queries with four passages each, some pairs longer than a sample; the last query has no passage of label 1."""
    draw = torch.Generator().manual_seed(7)
    number = lambda below: int(torch.randint(below, (1,), generator=draw))
    words = lambda most: " ".join(WORDS[number(len(WORDS))] for _ in range(number(most) + 1))
    for name, queries in (("train", 12), ("dev", 4)):
        with open(RERANK / f"{name}.csv", "w", newline="") as file:
            table = csv.writer(file, lineterminator="\n")
            table.writerow(["query", "passage", "label", "score", "class"])
            for query in range(queries):
                text, right = f"{words(8)} {query}", -1 if query == queries - 1 else number(4)
                for i in range(4):
                    table.writerow([text, words(18), int(i == right), number(400) / 100, number(3)])


def rows(name, label):
    kind = float if label == "score" else int
    table = list(csv.DictReader(open(RERANK / f"{name}.csv")))
    return Dataset.from_dict({"query": [r["query"] for r in table], "passage": [r["passage"] for r in table],
                              "label": [kind(r[label]) for r in table]})


class Run(CrossEncoderTrainer):
    """Keeps losses, and norms before clipping."""

    def training_step(self, *args, **kwargs):
        loss = super().training_step(*args, **kwargs)
        self.kept.append(loss.item())
        return loss

    def _clip_grad_norm(self, model):
        norm = super()._clip_grad_norm(model)
        self.norms.append(norm.item())
        return norm


def evaluation(model, name, data):
    """The evaluators of labels and scores, and of lists where labels are 0 and 1."""
    pairs = list(zip(data["query"], data["passage"]))
    kind = CrossEncoderCorrelationEvaluator if name == "MSELoss" else CrossEncoderClassificationEvaluator
    found = dict(kind(pairs, list(data["label"]), write_csv=False)(model))
    if name != "BinaryCrossEntropyLoss":
        return found
    lists = {}
    for (query, passage), label in zip(pairs, data["label"]):
        sample = lists.setdefault(query, {"query": query, "positive": [], "negative": []})
        sample["positive" if label else "negative"].append(passage)
    found.update(CrossEncoderRerankingEvaluator(list(lists.values()), write_csv=False)(model))
    return {key: value for key, value in found.items() if not key.startswith("base_")}


def save(model, folder):
    """As version 6 saves it, and with the keys of version 3."""
    model.save_pretrained(str(folder))
    for extra in ("README.md",):
        (folder / extra).unlink(missing_ok=True)
    old = folder.with_name(folder.name + "_old")
    shutil.copytree(folder, old)
    for name in ("modules.json", "config_sentence_transformers.json", "sentence_bert_config.json"):
        (old / name).unlink(missing_ok=True)
    config = json.loads((old / "config.json").read_text())
    config.pop("sentence_transformers", None)
    config["sbert_ce_default_activation_function"] = "torch.nn.modules.linear.Identity"
    (old / "config.json").write_text(json.dumps(config, indent=2) + "\n")


def make(family):
    out = {"seed": SEED, "versions": {**versions(), "sentence_transformers": sentence_transformers.__version__}}
    for name, (label, scores) in LOSSES.items():
        with tempfile.TemporaryDirectory() as folder:
            for file in ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "vocab.txt"):
                if (MLM / family / file).exists():
                    shutil.copy(MLM / family / file, folder)
            arguments = CrossEncoderTrainingArguments(
                output_dir=folder + "/out", use_cpu=True, seed=SEED, max_steps=STEPS, per_device_train_batch_size=BATCH,
                save_strategy="no", learning_rate=1e-3, weight_decay=0.01, report_to=[], disable_tqdm=True)
            set_seed(SEED)
            # A head of larger weights: gradients that are not mostly rounding.
            model = CrossEncoder(folder, num_labels=scores, max_length=LENGTH, device="cpu",
                                 model_kwargs={"attn_implementation": "eager"}, config_kwargs={"initializer_range": 0.2})
            train, dev = rows("train", label), rows("dev", label)
            trainer = Run(model=model, args=arguments, train_dataset=train, loss=getattr(losses, name)(model))
            trainer.kept, trainer.norms = [], []
            trainer.train()
            pairs = list(zip(dev["query"], dev["passage"]))
            out[name] = {"losses": trainer.kept, "grad_norms": trainer.norms,
                         "logits": model.predict(pairs, activation_fn=torch.nn.Identity()).tolist(),
                         "metrics": evaluation(model, name, dev)}
            if family == "bert" and name == "BinaryCrossEntropyLoss":
                save(model, RERANK / "folder")
                out["scores"] = model.predict(pairs).tolist()
                out["old_scores"] = CrossEncoder(str(RERANK / "folder_old"), device="cpu").predict(pairs).tolist()
    write_json(RERANK / f"{family}.json", out)


if __name__ == "__main__":
    transformers.utils.logging.set_verbosity_error()
    torch.set_num_threads(1)
    shutil.rmtree(RERANK, ignore_errors=True)
    RERANK.mkdir()
    make_rows()
    for name in sys.argv[1:] or ("bert", "roberta"):
        make(name)
