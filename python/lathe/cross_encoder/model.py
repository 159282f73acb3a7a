"""CrossEncoder: scores of pairs of texts."""
import numpy as np

from .. import _lathe
from ..kept_model import KeptModel
from ..text_rows import text_rows
from ..trainer import TrainingArguments, say, show


class CrossEncoder(KeptModel):
    """A cross-encoder's folder, or an encoder, whose head is then new; or a name on the Hub.  num_labels: of a new head.
    device: as --device of the program, None for the best that there is."""

    def __init__(self, model_name_or_path, num_labels=None, max_length=None, activation_fn=None, device=None,
                 cache_folder=None, revision="main"):
        super().__init__(model_name_or_path)
        words = [] if activation_fn is None else [f"--activation_fn={name_of(activation_fn)}"]
        self._made_of = (words, num_labels or 0, max_length or 0, revision, str(cache_folder or ""))
        self._device = str(device or "auto")
        self._native = self._pair_model([])
        self._own = None  # the run that computes where nothing was trained

    def _pair_model(self, words):
        """With the head that these flags of `lathe rerank` ask for, too."""
        own, *rest = self._made_of
        return _lathe.PairModel(self._folder_of_weights(), [*own, *words], *rest)

    @property
    def _run(self):
        if self._trainer is not None:
            return self._trainer._run
        if self._own is None:
            self._own = _lathe.Run(self._native, None, TrainingArguments(".", device=self._device, per_device_eval_batch_size=32)
                                   ._native, None, None, None, show, say)
        return self._own

    @property
    def num_labels(self):
        return len(self._native.labels)

    max_length = property(lambda self: self._native.max_length)
    config = property(lambda self: self._native.config)

    def predict(self, sentences, batch_size=32, show_progress_bar=None, activation_fn=None, apply_softmax=False,
                convert_to_numpy=True, convert_to_tensor=False):
        """One pair of texts or a list of them.  Scores [pairs], after the activation, or of classes [pairs, classes] logits;
        activation_fn: "Sigmoid" or "Identity" instead of the model's; apply_softmax: of classes.  batch_size has no effect:
        batches are made by tokens."""
        if convert_to_tensor or not convert_to_numpy:
            raise ValueError("predict gives arrays of numpy: leave convert_to_tensor and convert_to_numpy as they are")
        pairs = list(sentences)
        single = bool(pairs) and isinstance(pairs[0], str)
        pairs = [pairs] if single else pairs
        if not pairs:
            return np.zeros(0, np.float32)
        for index, pair in enumerate(pairs):
            if len(pair) != 2 or not all(isinstance(text, str) for text in pair):
                raise ValueError(f"sentences: {index}: found {pair!r}, expected two texts")
        rows = text_rows([{"sentence1": first, "sentence2": second} for first, second in pairs], "sentences")
        logits, _ = self._run.predict(self._native.dataset(rows, False))
        if self.num_labels > 1:
            if apply_softmax:
                logits = np.exp(logits - logits.max(axis=1, keepdims=True))
                logits /= logits.sum(axis=1, keepdims=True)
            return logits[0] if single else logits
        scores = self._activated(logits.ravel(), activation_fn)
        return scores[0] if single else scores

    def _activated(self, logits, activation_fn):
        if activation_fn is None:
            return self._native.scores(logits)
        return logits if name_of(activation_fn) == "Identity" else 1 / (1 + np.exp(-logits))

    def rank(self, query, documents, top_k=None, return_documents=False, **predict):
        """The documents, the best first: dicts of corpus_id and score, with return_documents also text."""
        if self.num_labels != 1:
            raise ValueError(f"rank: found a model of {self.num_labels} classes, expected one of scores (num_labels=1)")
        documents = list(documents)
        scores = self.predict([(query, document) for document in documents], **predict)
        order = np.argsort(-scores, kind="stable")[:top_k]
        return [{"corpus_id": int(i), "score": float(scores[i]), **({"text": documents[i]} if return_documents else {})}
                for i in order]


def name_of(activation):
    """Of torch.nn.Sigmoid() and the like, or a name: the class's."""
    name = activation if isinstance(activation, str) else type(activation).__name__
    if name not in ("Sigmoid", "Identity"):
        raise ValueError(f"activation_fn: found {activation!r}, expected 'Sigmoid' or 'Identity'")
    return name
