"""Evaluators of CrossEncoder by their names: called with a model, each gives a dict of metrics."""
import numpy as np

from .. import _lathe
from ..evaluation import Evaluator


class PairScores(Evaluator):
    def __init__(self, sentence_pairs, labels, name=""):
        super().__init__(name)
        self.pairs, self.labels = [list(pair) for pair in sentence_pairs], list(labels)
        if len(self.pairs) != len(self.labels) or not self.pairs:
            raise ValueError(f"{type(self).__name__}: found {len(self.pairs)} pairs and {len(self.labels)} labels, expected as "
                             "many, one or more")

    def rows(self):
        first, second = zip(*self.pairs)
        return {"sentence1": list(first), "sentence2": list(second), "label": self.labels}


class CrossEncoderClassificationEvaluator(PairScores):
    """Of one score accuracy, f1, average_precision …; of classes f1_macro, f1_micro, f1_weighted."""

    def __init__(self, sentence_pairs, labels, *, name="", batch_size=32, show_progress_bar=False, write_csv=False):
        super().__init__(sentence_pairs, labels, name)

    def primary_of(self, model):
        return "average_precision" if model.num_labels == 1 else "f1_macro"

    def metrics(self, model):
        scores, labels = model.predict(self.pairs), np.asarray(self.labels, np.int32)
        of = _lathe.pair_score_metrics if model.num_labels == 1 else _lathe.pair_class_metrics
        return of(np.ascontiguousarray(scores, np.float32).ravel(), labels)


class CrossEncoderCorrelationEvaluator(PairScores):
    """pearson, spearman."""

    def __init__(self, sentence_pairs, scores, *, name="", batch_size=32, show_progress_bar=False, write_csv=False):
        super().__init__(sentence_pairs, scores, name)

    def primary_of(self, model):
        return "spearman"

    def metrics(self, model):
        return _lathe.pair_correlation_metrics(model.predict(self.pairs), np.asarray(self.labels, np.float64))


class CrossEncoderRerankingEvaluator(Evaluator):
    """samples: dicts of query, positive and negative, which are lists of texts.  map, mrr@k, ndcg@k."""

    def __init__(self, samples, at_k=10, always_rerank_positives=True, name="", batch_size=64, show_progress_bar=False,
                 write_csv=False):
        super().__init__(name)
        self.samples, self.at_k = list(samples), at_k
        for index, sample in enumerate(self.samples):
            if not {"query", "positive", "negative"} <= set(sample):
                raise NotImplementedError(f"samples: {index}: found {sorted(sample)}, expected query, positive and negative")

    def rows(self):
        return {"query": [sample["query"] for sample in self.samples],
                "document": [[*sample["positive"], *sample["negative"]] for sample in self.samples],
                "label": [[1] * len(sample["positive"]) + [0] * len(sample["negative"]) for sample in self.samples]}

    def primary_of(self, model):
        return f"ndcg@{self.at_k}"

    def metrics(self, model):
        rows = self.rows()
        scores = iter(model.predict([(query, text) for query, texts in zip(rows["query"], rows["document"]) for text in texts]))
        return _lathe.reranking_metrics(rows["label"], [[float(next(scores)) for _ in texts] for texts in rows["document"]],
                                        self.at_k)
