#!/usr/bin/env python3
"""Makes tests/golden/embed/ with the real packages (torch, transformers, sentence-transformers 6.2): what
SentenceTransformerTrainer does with tiny random models by each loss, on the CPU, fp32, eager attention, dropout 0. What each
file holds is written in tests/golden/README.md.

    make_embed_traces.py
"""
import csv
import pathlib
import shutil
import tempfile

import torch
import transformers
from datasets import Dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers import losses as L
from sentence_transformers.evaluation import (BinaryClassificationEvaluator, EmbeddingSimilarityEvaluator,
                                              TripletEvaluator)
from sentence_transformers.losses import SiameseDistanceMetric, TripletDistanceMetric
from sentence_transformers.models import Dense, Normalize, Pooling, Transformer
from transformers import set_seed

from make_traces import SEED, WORDS, versions, write_json

GOLDEN = pathlib.Path(__file__).parent.parent / "tests" / "golden"
EMBED, MLM = GOLDEN / "embed", GOLDEN / "mlm"
STEPS, BATCH, EVAL_BATCH, LENGTH = 20, 4, 3, 20
TABLES = {"pairs": ("anchor", "positive"), "hard": ("anchor", "positive", "negative_1", "negative_2"),
          "triplets": ("anchor", "positive", "negative"), "scores": ("sentence1", "sentence2", "score"),
          "labels": ("sentence1", "sentence2", "label"), "alike": ("anchor", "positive")}


def make_tables():
    """Rows of words; of "alike" many texts are equal.  Epochs end in a short batch."""
    draw = torch.Generator().manual_seed(9)
    number = lambda below: int(torch.randint(below, (1,), generator=draw))
    words = lambda most: " ".join(WORDS[number(len(WORDS))] for _ in range(number(most) + 1))
    for name, columns in TABLES.items():
        for split, count in (("train", 29), ("dev", 11)):
            with open(EMBED / f"{name}_{split}.csv", "w", newline="") as file:
                table = csv.writer(file, lineterminator="\n")
                table.writerow(columns)
                for row in range(count):
                    texts = [words(9) if name != "alike" else words(1) for _ in columns if _ not in ("score", "label")]
                    target = {"scores": [number(9) / 8], "labels": [row % 2]}.get(name, [])
                    table.writerow([*texts, *target])


def rows(name, split):
    table = list(csv.DictReader(open(EMBED / f"{name}_{split}.csv")))
    return {column: [{"score": float, "label": int}.get(column, str)(row[column]) for row in table] for column in TABLES[name]}


def model_of(family, modes=("mean",), prompt=True, dense=False):
    base = Transformer(str(MLM / family), max_seq_length=LENGTH, model_args={"attn_implementation": "eager"})
    width = base.get_word_embedding_dimension()
    modules = [base, Pooling(width, pooling_mode=modes if len(modes) > 1 else modes[0], include_prompt=prompt)]
    if dense:
        torch.manual_seed(3)
        modules += [Dense(width, 12, activation_function=torch.nn.Tanh()), Normalize()]
    model = SentenceTransformer(modules=modules, device="cpu")
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    return model


class Run(SentenceTransformerTrainer):
    """Keeps losses and norms before clipping."""

    def training_step(self, *args, **kwargs):
        loss = super().training_step(*args, **kwargs)
        self.losses.append(loss.item())
        return loss

    def _clip_grad_norm(self, model):
        norm = super()._clip_grad_norm(model)
        self.norms.append(norm.item())
        self.updates.append(sum(self.losses[self.counted:]))
        self.counted = len(self.losses)
        return norm


def evaluator_of(name):
    dev = list(rows(name, "dev").values())
    if name == "scores":
        return EmbeddingSimilarityEvaluator(dev[0], dev[1], dev[2], batch_size=EVAL_BATCH)
    if name == "labels":
        return BinaryClassificationEvaluator(dev[0], dev[1], dev[2], batch_size=EVAL_BATCH)
    return TripletEvaluator(dev[0], dev[1], dev[2], batch_size=EVAL_BATCH) if name in ("triplets", "hard") else None


# Name: table, its loss, the flags of lathe embed that say the same, and the model.
MNRL, COSENT = L.MultipleNegativesRankingLoss, L.CoSENTLoss
CASES = {
    "negatives": ("pairs", MNRL, {}, {}),
    "hard_negatives": ("hard", lambda m: MNRL(m, scale=10), {"scale": "10"}, {}),
    "symmetric": ("pairs", lambda m: MNRL(m, directions=("query_to_doc", "doc_to_query"), partition_mode="per_direction"),
                  {"symmetric": "True"}, {}),
    "cached": ("pairs", lambda m: L.CachedMultipleNegativesRankingLoss(m, mini_batch_size=3),
               {"loss": "CachedMultipleNegativesRankingLoss", "mini_batch_size": "3"}, {}),
    "no_duplicates": ("alike", MNRL, {"batch_sampler": "no_duplicates"}, {}),
    "accumulated": ("pairs", MNRL, {"gradient_accumulation_steps": "2"}, {}),
    "cosine": ("scores", L.CosineSimilarityLoss, {"loss": "CosineSimilarityLoss"}, {}),
    "cosent": ("scores", COSENT, {}, {}),
    "triplet": ("triplets", L.TripletLoss, {"loss": "TripletLoss"}, {}),
    "triplet_cosine": ("triplets", lambda m: L.TripletLoss(m, TripletDistanceMetric.COSINE, 0.5),
                       {"loss": "TripletLoss", "distance_metric": "cosine", "triplet_margin": "0.5"}, {}),
    "triplet_manhattan": ("triplets", lambda m: L.TripletLoss(m, TripletDistanceMetric.MANHATTAN, 5),
                          {"loss": "TripletLoss", "distance_metric": "manhattan"}, {}),
    "contrastive": ("labels", L.ContrastiveLoss, {}, {}),
    "contrastive_euclidean": ("labels", lambda m: L.ContrastiveLoss(m, SiameseDistanceMetric.EUCLIDEAN, 2.0),
                              {"distance_metric": "euclidean", "margin": "2"}, {}),
    "contrastive_sum": ("labels", lambda m: L.ContrastiveLoss(m, SiameseDistanceMetric.MANHATTAN, 2.0, size_average=False),
                        {"distance_metric": "manhattan", "margin": "2", "size_average": "False"}, {}),
    "matryoshka": ("pairs", lambda m: L.MatryoshkaLoss(m, MNRL(m), [5, 16, 8], [0.25, 1, 0.5]),
                   {"matryoshka_dims": "5,16,8", "matryoshka_weights": "0.25,1,0.5"}, {}),
    "matryoshka_cosent": ("scores", lambda m: L.MatryoshkaLoss(m, COSENT(m), [16, 5]), {"matryoshka_dims": "16,5"}, {}),
    "matryoshka_cached": ("pairs", lambda m: L.MatryoshkaLoss(m, L.CachedMultipleNegativesRankingLoss(m, mini_batch_size=2), [16, 8]),
                          {"loss": "CachedMultipleNegativesRankingLoss", "mini_batch_size": "2", "matryoshka_dims": "16,8"}, {}),
    "cls": ("pairs", MNRL, {"pooling_mode": "cls"}, {"modes": ("cls",)}),
    "max": ("pairs", MNRL, {"pooling_mode": "max"}, {"modes": ("max",)}),
    "lasttoken": ("pairs", MNRL, {"pooling_mode": "lasttoken"}, {"modes": ("lasttoken",), "family": "roberta"}),
    "weightedmean": ("scores", COSENT, {"pooling_mode": "weightedmean"}, {"modes": ("weightedmean",), "family": "modernbert"}),
    "two_poolings": ("scores", COSENT, {"pooling_mode": "cls,mean"}, {"modes": ("cls", "mean"), "family": "distilbert"}),
    "dense": ("pairs", MNRL, {}, {"dense": True}),
    "prompts": ("pairs", MNRL, {"prompts": '{"anchor": "the old ", "positive": "bridge: "}'}, {}),
    "prompts_left_out": ("pairs", MNRL, {"prompts": "the old "}, {"prompt": False}),
}


def make(name):
    table, loss, flags, how = CASES[name]
    how = dict(how)
    family = how.pop("family", "bert")
    set_seed(SEED)
    model = model_of(family, **how)
    with tempfile.TemporaryDirectory() as output:
        prompts = flags.get("prompts")
        # With the usual epsilon Adam makes whole steps of gradients that are only rounding.
        arguments = SentenceTransformerTrainingArguments(
            output_dir=output, use_cpu=True, seed=SEED, max_steps=STEPS, per_device_train_batch_size=BATCH,
            per_device_eval_batch_size=EVAL_BATCH, save_strategy="no", learning_rate=1e-3, weight_decay=0.01, adam_epsilon=1e-5,
            report_to=[], disable_tqdm=True, batch_sampler=flags.get("batch_sampler", "batch_sampler"),
            gradient_accumulation_steps=int(flags.get("gradient_accumulation_steps", 1)),
            prompts=eval(prompts) if prompts and prompts[0] == "{" else prompts)
        if "dense" in how or "prompt" in how:  # the modules of the folder that lathe embed starts from
            model.save(output + "/model", create_model_card=False)
            shutil.rmtree(EMBED / f"{name}_modules", ignore_errors=True)
            shutil.copytree(output + "/model", EMBED / f"{name}_modules", ignore=shutil.ignore_patterns(
                "token*", "config.json.", "special*", "vocab*", "merges*", "README.md"))
            for of_base in ("config.json", "model.safetensors"):
                (EMBED / f"{name}_modules" / of_base).unlink()
        trainer = Run(model=model, args=arguments, train_dataset=Dataset.from_dict(rows(table, "train")),
                      eval_dataset=Dataset.from_dict(rows(table, "dev")), loss=loss(model))
        trainer.losses, trainer.norms, trainer.updates, trainer.counted = [], [], [], 0
        trainer.train()
        found = {"eval_loss": trainer.evaluate()["eval_loss"]}
    evaluator = evaluator_of(table)
    if evaluator is not None and not prompts:
        found.update({f"eval_{key}": value for key, value in evaluator(model).items()})
    texts = rows(table, "dev")
    first = next(iter(texts.values()))[:4]
    out = {"table": table, "family": family, "flags": flags, "losses": trainer.updates, "grad_norms": trainer.norms,
           "evaluation": found, "vectors": model.encode(first, show_progress_bar=False).tolist()}
    return out


if __name__ == "__main__":
    transformers.utils.logging.set_verbosity_error()
    torch.set_num_threads(1)
    EMBED.mkdir(exist_ok=True)
    make_tables()
    for case in CASES:
        write_json(EMBED / f"{case}.json", {**make(case), "seed": SEED, "versions": versions()})
        print(case, flush=True)
