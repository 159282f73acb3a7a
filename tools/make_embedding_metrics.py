#!/usr/bin/env python3
"""Writes tests/golden/embedding_metrics: what the evaluators of sentence-transformers give for made-up vectors and scores.
Needs sentence-transformers (6.2); the tests do not.

Usage: tools/make_embedding_metrics.py [CASES]     (from the repository root; 12 of each kind are stored)
"""
import json
import math
import pathlib
import sys
import warnings

import numpy as np
import torch
from sentence_transformers import util
from sentence_transformers.cross_encoder import evaluation as cross
from sentence_transformers.sentence_transformer import evaluation as dense

OUT = pathlib.Path("tests/golden/embedding_metrics")
NAMES = ["cosine", "dot", "euclidean", "manhattan"]
PAIRWISE = {"cosine": util.pairwise_cos_sim, "dot": util.pairwise_dot_score, "euclidean": util.pairwise_euclidean_sim,
            "manhattan": util.pairwise_manhattan_sim}
SEARCH = {"cosine": util.cos_sim, "dot": util.dot_score, "euclidean": util.euclidean_sim, "manhattan": util.manhattan_sim}


class Card:
    def set_evaluation_metrics(self, *args, **kwargs):
        pass


class Encoder:
    """Knows the vectors of its texts; in double precision, so that nothing is rounded on the way."""
    similarity_fn_name = "cosine"
    model_card_data = Card()

    def __init__(self, vectors, dtype=np.float64):
        self.vectors = {text: np.asarray(vector, dtype) for text, vector in vectors.items()}

    def encode(self, texts, convert_to_tensor=False, **kwargs):
        rows = np.stack([self.vectors[text] for text in texts])
        return torch.from_numpy(rows) if convert_to_tensor else rows

    encode_query = encode_document = encode


class Ranker:
    model_card_data = Card()

    def __init__(self, scores):
        self.scores = np.asarray(scores, np.float32)
        self.num_labels = 1 if self.scores.ndim == 1 else self.scores.shape[1]

    def predict(self, pairs, **kwargs):
        assert len(pairs) == len(self.scores)
        return self.scores


def plain(metrics):
    """Pairs in order; NaN, which JSON lacks, as null."""
    return [[key, None if math.isnan(value) else float(value)] for key, value in metrics.items()]


def vectors(rng, rows, width, shape):
    """Random ones; of "ties" small whole numbers, some of them all zero or equal to others."""
    if shape != "ties":
        return rng.standard_normal((rows, width)).astype(np.float32).round(3)
    out = rng.integers(-1, 2, (rows, width)).astype(np.float32)
    out[rng.random(rows) < 0.15] = 0
    return out


def texts(rows, prefix):
    return [f"{prefix}{i}" for i in range(len(rows))]


def some_names(rng):
    return NAMES if rng.random() < 0.5 else [str(rng.choice(NAMES))]


def flat(array):
    return [float(x) for x in np.asarray(array, np.float32).ravel()]


def labels_of(rng, count, number):
    if number % 6 == 5:
        return [int(rng.integers(0, 2))] * count      # one class
    return [int(x) for x in rng.integers(0, 2, count)]


def similarity(rng, number, shape):
    rows, width, names = int(rng.integers(2, 12)), int(rng.integers(1, 9)), some_names(rng)
    a, b = vectors(rng, rows, width, shape), vectors(rng, rows, width, shape)
    labels = [round(float(x), 2) for x in rng.random(rows) * 5]
    if number % 6 == 5:
        labels = [labels[0]] * rows
    model = Encoder(dict(zip(texts(a, "a") + texts(b, "b"), [*a, *b])))
    metrics = dense.EmbeddingSimilarityEvaluator(texts(a, "a"), texts(b, "b"), labels, similarity_fn_names=list(names))(model)
    return {"width": width, "a": flat(a), "b": flat(b), "labels": labels, "similarities": names, "metrics": plain(metrics)}


def triplet(rng, number, shape):
    rows, width, names = int(rng.integers(1, 12)), int(rng.integers(1, 9)), some_names(rng)
    a, p, n = (vectors(rng, rows, width, shape) for _ in range(3))
    margin = [0, 0.25, 1][number % 3]
    model = Encoder(dict(zip(texts(a, "a") + texts(p, "p") + texts(n, "n"), [*a, *p, *n])))
    metrics = dense.TripletEvaluator(texts(a, "a"), texts(p, "p"), texts(n, "n"), margin=margin,
                                     similarity_fn_names=list(names))(model)
    return {"width": width, "a": flat(a), "p": flat(p), "n": flat(n), "margin": margin, "similarities": names,
            "metrics": plain(metrics)}


def binary(rng, number, shape):
    rows, width, names = int(rng.integers(1, 16)), int(rng.integers(1, 9)), some_names(rng)
    a, b = vectors(rng, rows, width, shape), vectors(rng, rows, width, shape)
    labels = labels_of(rng, rows, number)
    model = Encoder(dict(zip(texts(a, "a") + texts(b, "b"), [*a, *b])), np.float32)
    metrics = dense.BinaryClassificationEvaluator(texts(a, "a"), texts(b, "b"), labels, similarity_fn_names=list(names))(model)
    return {"scores": [flat(PAIRWISE[name](a, b)) for name in names], "labels": labels, "similarities": names,
            "metrics": plain(metrics)}


def retrieval(rng, number, shape):
    queries, documents, width = int(rng.integers(1, 6)), int(rng.integers(1, 25)), int(rng.integers(1, 9))
    name = str(rng.choice(NAMES))
    q, d = vectors(rng, queries, width, shape), vectors(rng, documents, width, shape)
    if shape == "ties" and name == "cosine":          # vectors of one direction but other lengths tie by chance of rounding
        q, d = np.sign(q), np.repeat(np.sign(d[:1 + documents // 3]), 3, 0)[:documents]
    ids = [str(x) for x in rng.permutation(documents * 7)[:documents]]
    relevant = [[int(x) for x in rng.permutation(documents + 2)[:rng.integers(1, documents + 2)]] for _ in range(queries)]
    cutoffs = {} if number % 2 == 0 else {"mrr_at_k": [3, 20], "ndcg_at_k": [1, 5], "accuracy_at_k": [2],
                                          "precision_recall_at_k": [4, 2], "map_at_k": [3, 50]}
    model = Encoder(dict(zip(texts(q, "q") + texts(d, "d"), [*q, *d])))
    evaluator = dense.InformationRetrievalEvaluator(
        dict(zip(texts(q, "q"), texts(q, "q"))), dict(zip(ids, texts(d, "d"))),
        {f"q{i}": {ids[x] if x < documents else f"none{x}" for x in row} for i, row in enumerate(relevant)},
        score_functions={name: SEARCH[name]}, corpus_chunk_size=[50000, 7][number % 2], **cutoffs)
    metrics = {key.removeprefix(name + "_"): value for key, value in evaluator(model).items()}
    return {"width": width, "q": flat(q), "d": flat(d), "ids": ids, "similarity": name, "default": not cutoffs,
            "relevant": [[x if x < documents else -1 for x in row] for row in relevant], "metrics": plain(metrics)}


def scores_of(rng, count, shape):
    """Different ones; of "ties" some equal.  numpy's argsort is stable for few elements on every machine only if they differ."""
    if shape == "ties":
        return rng.integers(0, 4, count).astype(np.float32) / 4
    return rng.standard_normal(count).astype(np.float32).round(4)


def reranking(rng, number, shape):
    samples, lists = [], []
    scores, before = [], number % 2 == 1
    for i in range(int(rng.integers(1, 6))):
        positives, negatives = int(rng.integers(0 if before else 1, 4)), int(rng.integers(1, 14))
        p, n = [f"p{i}.{j}" for j in range(positives)], [f"n{i}.{j}" for j in range(negatives)]
        one = {}
        if before:
            found = [str(x) for x in rng.permutation(p + n)[:rng.integers(1, len(p + n) + 1)]]
            samples.append({"query": f"q{i}", "positive": p, "documents": found})
            one |= {"found": [int(x in p) for x in found], "positives": positives}
            documents = p + [x for x in found if x not in p]
        else:
            samples.append({"query": f"q{i}", "positive": p, "negative": n})
            documents = p + n
        if p and len(documents) < 2:
            return None
        one["relevant"] = [int(x in p) for x in documents]
        s = scores_of(rng, len(documents), "ties" if shape == "ties" else "random")
        # Ties of mrr hang on numpy's sort: keep them among documents of one kind.
        if shape == "ties":
            s += np.asarray(one["relevant"], np.float32) / 8
        scores += flat(s) if p else []
        one["scores"] = flat(s)
        if before and len(found) + positives < 3:
            return None
        lists.append(one)
    k = [10, 3][number // 2 % 2]
    metrics = cross.CrossEncoderRerankingEvaluator(samples, at_k=k)(Ranker(scores))
    return {"lists": lists, "k": k, "before": before, "metrics": plain(metrics)}


def pair_scores(rng, number, shape):
    rows = int(rng.integers(1, 30))
    scores, labels = scores_of(rng, rows, shape), labels_of(rng, rows, number)
    metrics = cross.CrossEncoderClassificationEvaluator([["a", "b"]] * rows, labels)(Ranker(scores))
    return {"scores": flat(scores), "labels": labels, "metrics": plain(metrics)}


def pair_classes(rng, number, shape):
    rows, classes = int(rng.integers(1, 30)), int(rng.integers(2, 5))
    scores = scores_of(rng, rows * classes, shape).reshape(rows, classes)
    labels = [int(x) for x in rng.integers(0, 1 if number % 6 == 5 else classes, rows)]
    metrics = cross.CrossEncoderClassificationEvaluator([["a", "b"]] * rows, labels)(Ranker(scores))
    return {"scores": flat(scores), "labels": labels, "metrics": plain(metrics)}


def pair_correlation(rng, number, shape):
    rows = int(rng.integers(2, 30))
    scores = scores_of(rng, rows, shape)
    labels = [0.4] * rows if number % 6 == 5 else [round(float(x), 2) for x in rng.random(rows)]
    metrics = cross.CrossEncoderCorrelationEvaluator([["a", "b"]] * rows, labels)(Ranker(scores))
    return {"scores": flat(scores), "labels": labels, "metrics": plain(metrics)}


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 12
    warnings.simplefilter("ignore")
    OUT.mkdir(parents=True, exist_ok=True)
    for kind in (similarity, triplet, binary, retrieval, reranking, pair_scores, pair_classes, pair_correlation):
        cases, number = [], 0
        while len(cases) < count:
            rng = np.random.default_rng([number, len(kind.__name__)])
            case = kind(rng, number, "ties" if number % 3 == 2 else "random")
            number += 1
            if case is not None:
                cases.append(case)
        rows = ",\n".join(json.dumps(case, separators=(",", ":"), allow_nan=False) for case in cases)
        (OUT / f"{kind.__name__}.json").write_text(f"[\n{rows}\n]\n")


main()
