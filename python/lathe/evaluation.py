"""Evaluators by the names of sentence-transformers: called with a model, each gives a dict of metrics."""
import numpy as np

from . import _lathe


def value_of(similarity):
    return getattr(similarity, "value", similarity)


class Evaluator:
    """name: comes before each metric.  rows(): the texts as a data set, for a trainer that has no other."""

    def __init__(self, name):
        self.name = name
        self.primary_metric = None

    def __call__(self, model, output_path=None, epoch=-1, steps=-1):
        prefix = f"{self.name}_" if self.name else ""
        found = {prefix + key: value for key, value in self.metrics(model).items()}
        self.primary_metric = prefix + self.primary_of(model)
        return found


class PairEvaluator(Evaluator):
    """What evaluators of vectors of columns of texts share."""

    def __init__(self, name, columns, similarities):
        super().__init__(name)
        lengths = [len(column) for column in columns]
        if len(set(lengths)) > 1 or not lengths[0]:
            raise ValueError(f"{type(self).__name__}: found {lengths} texts and labels, expected as many of each, one or more")
        self.columns = [list(column) for column in columns]
        self.similarities = None if similarities is None else [value_of(one) for one in similarities]

    def by(self, model):
        return self.similarities or [model.similarity_fn_name]

    def vectors(self, model, columns):
        return [model.encode(self.columns[i]) for i in columns]


class EmbeddingSimilarityEvaluator(PairEvaluator):
    """Pairs with scores: pearson_cosine, spearman_cosine."""

    def __init__(self, sentences1, sentences2, scores, batch_size=16, main_similarity=None, similarity_fn_names=None, name="",
                 show_progress_bar=False, write_csv=False):
        super().__init__(name, [sentences1, sentences2, scores], similarity_fn_names)
        self.main = None if main_similarity is None else value_of(main_similarity)

    def rows(self):
        return dict(zip(("sentence1", "sentence2", "score"), self.columns))

    def primary_of(self, model):
        by = self.by(model)
        return f"spearman_{self.main or (by[0] if len(by) == 1 else 'max')}"

    def metrics(self, model):
        return _lathe.similarity_metrics(*self.vectors(model, (0, 1)), np.asarray(self.columns[2], np.float64), self.by(model))


class BinaryClassificationEvaluator(PairEvaluator):
    """Pairs with labels 0 and 1: cosine_accuracy, cosine_f1, cosine_ap …"""

    def __init__(self, sentences1, sentences2, labels, name="", batch_size=32, show_progress_bar=False, write_csv=False,
                 similarity_fn_names=None):
        super().__init__(name, [sentences1, sentences2, labels], similarity_fn_names)

    def rows(self):
        return dict(zip(("sentence1", "sentence2", "label"), self.columns))

    def primary_of(self, model):
        by = self.by(model)
        return f"{by[0]}_ap" if len(by) == 1 else "max_ap"

    def metrics(self, model):
        return _lathe.binary_metrics(*self.vectors(model, (0, 1)), np.asarray(self.columns[2], np.int32), self.by(model))


class TripletEvaluator(PairEvaluator):
    """Anchors, positives, negatives: cosine_accuracy."""

    def __init__(self, anchors, positives, negatives, main_similarity_function=None, margin=None, name="", batch_size=16,
                 show_progress_bar=False, write_csv=False, similarity_fn_names=None):
        super().__init__(name, [anchors, positives, negatives], similarity_fn_names)
        self.margin = float(margin or 0)

    def rows(self):
        return dict(zip(("anchor", "positive", "negative"), self.columns))

    def primary_of(self, model):
        by = self.by(model)
        return f"{by[0]}_accuracy" if len(by) == 1 else "max_accuracy"

    def metrics(self, model):
        return _lathe.triplet_metrics(*self.vectors(model, (0, 1, 2)), self.by(model), self.margin)


class InformationRetrievalEvaluator(Evaluator):
    """A search.  queries, corpus: texts by ids; relevant_docs: sets of ids of documents by ids of queries."""

    def __init__(self, queries, corpus, relevant_docs, corpus_chunk_size=50000, mrr_at_k=(10,), ndcg_at_k=(10,),
                 accuracy_at_k=(1, 3, 5, 10), precision_recall_at_k=(1, 3, 5, 10), map_at_k=(100,), show_progress_bar=False,
                 batch_size=32, name="", write_csv=False, query_prompt=None, query_prompt_name=None, corpus_prompt=None,
                 corpus_prompt_name=None):
        super().__init__(name)
        self.queries = {key: text for key, text in queries.items() if relevant_docs.get(key)}
        if not self.queries:
            raise ValueError("InformationRetrievalEvaluator: no query has a relevant document, expected one or more")
        self.corpus = dict(corpus)
        numbers = {key: i for i, key in enumerate(self.corpus)}
        self.relevant = [[numbers.get(document, -1) for document in sorted(relevant_docs[key], key=str)] for key in self.queries]
        self.ndcg = ndcg_at_k
        self.cutoffs = [list(accuracy_at_k), list(precision_recall_at_k), list(ndcg_at_k), list(mrr_at_k), list(map_at_k)]
        self.query = {"prompt": query_prompt, "prompt_name": query_prompt_name}
        self.document = {"prompt": corpus_prompt, "prompt_name": corpus_prompt_name}

    def rows(self):
        documents = list(self.corpus.values())
        if max(map(max, self.relevant)) < 0:
            raise ValueError("InformationRetrievalEvaluator: the corpus has none of the relevant documents, expected their ids")
        pairs = [(query, documents[max(found)]) for query, found in zip(self.queries.values(), self.relevant) if max(found) >= 0]
        return {"query": [query for query, _ in pairs], "document": [document for _, document in pairs]}

    def primary_of(self, model):
        return f"{model.similarity_fn_name}_ndcg@{max(self.ndcg)}"

    def metrics(self, model):
        queries = encode_as(model, list(self.queries.values()), self.query, ("query",))
        documents = encode_as(model, list(self.corpus.values()), self.document, ("document", "passage", "corpus"))
        return _lathe.retrieval_metrics(queries, documents, [str(key) for key in self.corpus], self.relevant,
                                        model.similarity_fn_name, self.cutoffs)


def encode_as(model, texts, prompt, names):
    """Without a prompt of its own, the model's first of these names."""
    if prompt["prompt"] is None and prompt["prompt_name"] is None:
        known = [name for name in names if name in model.prompts]
        prompt = {"prompt_name": known[0]} if known else {"prompt": ""}
    return model.encode(texts, **prompt)
