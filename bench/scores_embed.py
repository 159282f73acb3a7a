#!/usr/bin/env python3
"""Scores of all-MiniLM-L6-v2 over seeds: `lathe embed` next to SentenceTransformerTrainer on the same machine.

    scores_embed.py --model DIR [--data ../shared/data] [--cases stsb,nli,rerank] [--lathe build/lathe] [--device cpu|cuda]
                    [--dtype bf16|fp32] [--seeds 5] [--epochs 1] [--limit N] [--machine NAME --commit HASH --note TEXT]

stsb: STS-B by CoSENTLoss; nli: SNLI's triplets by MultipleNegativesRankingLoss; batch 32, learning rate 5e-5, both evaluated
on STS-B's dev pairs by EmbeddingSimilarityEvaluator. rerank: questions of PubMedQA, each with its abstract and four others,
by `lathe rerank` and CrossEncoderTrainer with BinaryCrossEntropyLoss and CrossEncoderRerankingEvaluator. It needs datasets and sentence-transformers; both sides start from the
same weights. The rule, what is printed and the exit code are those of scores_ner.py; the loss is that of the evaluation, of
nli that of the training: its evaluation has other columns.
"""
import contextlib
import csv
import json
import pathlib
import random
import sys

from scores_ner import Case, main


class Embeddings(Case):
    scores, rate, more = {"eval_spearman_cosine": "Spearman"}, "5e-5", ""
    title = lambda self, score: f"{score} of embeddings"
    variant = lambda self, score: {"stsb": "STS-B by CoSENT", "nli": "SNLI triplets by in-batch negatives"}[self.name]

    def __init__(self, *words):
        super().__init__(*words)
        self.loss = "train_loss" if self.name == "nli" else "eval_loss"
        data, limit = pathlib.Path(self.options.data), self.options.limit
        self.rows = {"dev": self.pairs(data / "glue" / "STS-B" / "dev.tsv")}
        if self.name == "nli":
            lines = (data / "snli" / "triplets-dev.jsonl").read_text(encoding="utf-8").splitlines()
            self.rows["train"] = [json.loads(line) for line in lines]
        else:
            self.rows["train"] = self.pairs(data / "glue" / "STS-B" / "train.tsv")
        for part, rows in self.rows.items():
            self.rows[part] = rows[:limit]
            with open(self.folder / f"{part}.csv", "w", newline="", encoding="utf-8") as file:
                table = csv.DictWriter(file, rows[0])
                table.writeheader()
                table.writerows(rows[:limit])

    @staticmethod
    def pairs(path):
        rows = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()[1:]]
        return [{"sentence1": row[7], "sentence2": row[8], "score": float(row[9]) / 5} for row in rows]

    def command(self):
        return ["embed", "--train_file", self.folder / "train.csv", "--validation_file", self.folder / "dev.csv", "--loss",
                "CoSENTLoss" if self.name == "stsb" else "MultipleNegativesRankingLoss"]

    def columns(self, part):
        import datasets
        rows = self.rows[part]
        return datasets.Dataset.from_dict({name: [row[name] for row in rows] for name in rows[0]})

    def trainer(self, seed):
        from sentence_transformers import (SentenceTransformer, SentenceTransformerTrainer,
                                           SentenceTransformerTrainingArguments, losses)
        from sentence_transformers.evaluation import EmbeddingSimilarityEvaluator
        import transformers
        transformers.set_seed(seed)
        model = SentenceTransformer(self.options.model, device=self.options.device)
        loss = (losses.CoSENTLoss if self.name == "stsb" else losses.MultipleNegativesRankingLoss)(model)
        arguments = SentenceTransformerTrainingArguments(
            output_dir=str(self.folder / "trainer"), use_cpu=self.options.device == "cpu", bf16=self.options.dtype == "bf16",
            save_strategy="no", report_to=[], disable_tqdm=True, seed=seed, per_device_train_batch_size=self.batch,
            per_device_eval_batch_size=self.batch, learning_rate=float(self.rate), num_train_epochs=self.options.epochs)
        trainer = SentenceTransformerTrainer(model=model, args=arguments, train_dataset=self.columns("train"), loss=loss,
                                             eval_dataset=self.columns("dev") if self.name == "stsb" else None)
        dev = self.rows["dev"]
        evaluator = EmbeddingSimilarityEvaluator(*([row[name] for row in dev] for name in dev[0]))
        with contextlib.redirect_stdout(sys.stderr):
            found = dict(trainer.train().metrics)
            if self.name == "stsb":
                found.update(trainer.evaluate())
            return {**found, "eval_spearman_cosine": evaluator(model)["spearman_cosine"]}


class Reranking(Case):
    scores, rate, more, loss = {"eval_ndcg@10": "nDCG@10", "eval_mrr@10": "MRR@10"}, "5e-5", "", "train_loss"
    title = lambda self, score: "reranking, PubMedQA"
    variant = lambda self, score: score
    others = 4

    def __init__(self, *words):
        super().__init__(*words)
        data = pathlib.Path(self.options.data) / "retrieval" / "pubmedqa-a"
        read = lambda name: {row["_id"]: row["text"] for row in map(json.loads, open(data / name, encoding="utf-8"))}
        queries, corpus = read("queries.jsonl"), read("corpus.jsonl")
        draw, ids = random.Random(7), sorted(corpus)
        self.rows = {}
        for part, split in (("train", "train"), ("dev", "test")):
            self.rows[part] = []
            for line in (data / "qrels" / f"{split}.tsv").read_text().splitlines()[1:][:self.options.limit]:
                query, right, _ = line.split("\t")
                documents = [right, *draw.sample([other for other in ids if other != right], self.others)]
                draw.shuffle(documents)
                self.rows[part].append({"query": queries[query], "documents": [corpus[d] for d in documents],
                                        "labels": [int(d == right) for d in documents]})
            (self.folder / f"{part}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in self.rows[part]))

    def command(self):
        return ["rerank", "--train_file", self.folder / "train.jsonl", "--validation_file", self.folder / "dev.jsonl",
                "--max_seq_length", "256"]

    def trainer(self, seed):
        import datasets
        import transformers
        from sentence_transformers.cross_encoder import (CrossEncoder, CrossEncoderTrainer, CrossEncoderTrainingArguments,
                                                         evaluation, losses)
        transformers.set_seed(seed)
        model = CrossEncoder(self.options.model, num_labels=1, max_length=256, device=self.options.device)
        arguments = CrossEncoderTrainingArguments(
            output_dir=str(self.folder / "trainer"), use_cpu=self.options.device == "cpu", bf16=self.options.dtype == "bf16",
            save_strategy="no", report_to=[], disable_tqdm=True, seed=seed, per_device_train_batch_size=self.batch,
            learning_rate=float(self.rate), num_train_epochs=self.options.epochs)
        rows = [(row["query"], document, label) for row in self.rows["train"]
                for document, label in zip(row["documents"], row["labels"])]
        columns = dict(zip(("query", "document", "label"), map(list, zip(*rows))))
        trainer = CrossEncoderTrainer(model=model, args=arguments, train_dataset=datasets.Dataset.from_dict(columns),
                                      loss=losses.BinaryCrossEntropyLoss(model))
        judge = evaluation.CrossEncoderRerankingEvaluator([
            {"query": row["query"], "documents": row["documents"],
             "positive": [d for d, label in zip(row["documents"], row["labels"]) if label]} for row in self.rows["dev"]])
        with contextlib.redirect_stdout(sys.stderr):
            found = dict(trainer.train().metrics)
            return {**found, **{f"eval_{key}": value for key, value in judge(model).items()}}


if __name__ == "__main__":
    sys.exit(main({"stsb": Embeddings, "nli": Embeddings, "rerank": Reranking}, "scores_embed.py", __doc__))
