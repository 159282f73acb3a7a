"""Tokenizers, models and pipelines by the names of transformers."""
import json
import os

import numpy as np

from . import _lathe
from .data import BatchEncoding


# The values of a tokenizer's arguments, and their meaning.
PADDING = {False: "do_not_pad", True: "longest", "do_not_pad": "do_not_pad", "longest": "longest", "max_length": "max_length"}
TRUNCATION = {None: "do_not_truncate", False: "do_not_truncate", True: "longest_first", "do_not_truncate": "do_not_truncate",
              "longest_first": "longest_first", "only_first": "only_first", "only_second": "only_second"}
NO_LIMIT = 2**31 - 1  # the model_max_length of a tokenizer that has none


def strategy_of(name, value, table):
    value = getattr(value, "value", value)  # transformers' enums have their texts as values
    if not isinstance(value, (bool, str, type(None))) or value not in table:
        raise ValueError(f"{name}: found {value!r}, expected one of {', '.join(map(repr, table))}")
    return table[value]


def refuse_what_is_no_text(name, values):
    for index, value in enumerate(values):
        if not isinstance(value, str):
            raise ValueError(f"{name}: found {value!r} in row {index}, expected a text (the second one of a pair goes into "
                             "text_pair)")
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise ValueError(f"{name}: row {index}: found half of a surrogate pair, {value[error.start]!r}, which is no "
                             f"text, at {error.start}: str.encode(errors='replace').decode() replaces it") from None


class Tokenizer:
    """WordPiece, byte-level BPE or Unigram; ids equal those of transformers' fast tokenizer."""

    def __init__(self, native):
        self._native = native
        self.vocab_size = native.vocab_size
        self.pad_token_id = native.pad_token_id
        self.model_max_length = native.model_max_length

    def __len__(self):
        return self.vocab_size

    def __call__(self, text, text_pair=None, *, padding=False, truncation=None, max_length=None, return_tensors=None):
        """One text or a list of them; pairs with text_pair.  padding and truncation: PADDING and TRUNCATION; max_length
        by itself truncates, as in transformers.  return_tensors: None for lists, "np" for arrays."""
        single = isinstance(text, str)
        first = [text] if single else list(text)
        if not single and isinstance(text_pair, str):
            raise ValueError("text_pair: found one text, expected a list of them as text is")
        second = [] if text_pair is None else [text_pair] if single else list(text_pair)
        if second and len(second) != len(first):
            raise ValueError(f"text_pair: found {len(second)} texts, expected {len(first)} as text has")
        if return_tensors not in (None, "np"):
            raise ValueError(f'return_tensors: found {return_tensors!r}, expected None or "np"')
        if max_length is not None and max_length < 1:
            raise ValueError(f"max_length: found {max_length}, expected at least 1")
        if max_length is not None and padding is False and truncation is None:
            truncation = True
        padding, truncation = strategy_of("padding", padding, PADDING), strategy_of("truncation", truncation, TRUNCATION)
        limit = max_length or self.model_max_length
        if limit >= NO_LIMIT:
            truncation, padding = "do_not_truncate", "do_not_pad" if padding == "max_length" else padding
        try:
            ids, types, begins = self._native.encode(first, second, min(limit, NO_LIMIT), truncation)
        except TypeError:
            refuse_what_is_no_text("text", first)
            refuse_what_is_no_text("text_pair", second)
            raise
        rows = [slice(a, b) for a, b in zip(begins[:-1], begins[1:])]
        width = 0
        if padding != "do_not_pad" and rows:
            width = limit if padding == "max_length" else max(r.stop - r.start for r in rows)
        batch = {"input_ids": [padded(ids[r], width, self.pad_token_id) for r in rows],
                 "token_type_ids": [padded(types[r].astype(np.int32), width, 0) for r in rows],
                 "attention_mask": [padded(np.ones(r.stop - r.start, np.int32), width, 0) for r in rows]}
        if return_tensors == "np":
            return BatchEncoding({key: np.stack(value) for key, value in batch.items()})
        lists = {key: [row.tolist() for row in value] for key, value in batch.items()}
        return BatchEncoding({key: value[0] for key, value in lists.items()} if single else lists)

    def decode(self, ids, skip_special_tokens=False):
        return self._native.decode([int(i) for i in ids], skip_special_tokens)

    def convert_ids_to_tokens(self, ids):
        return [self._native.token(int(i)) for i in ids]

    def save_pretrained(self, folder):
        os.makedirs(folder, exist_ok=True)
        for name, content in self._native.files().items():
            with open(os.path.join(folder, name), "wb") as out:
                out.write(content)


def padded(row, width, value):
    return row if len(row) >= width else np.concatenate([row, np.full(width - len(row), value, row.dtype)])


class AutoTokenizer:
    @staticmethod
    def from_pretrained(name_or_path, *, revision="main", cache_dir=None, use_fast=True):
        """A folder, or a name on the Hub, which is fetched into the cache that Python shares."""
        return Tokenizer(_lathe.Tokenizer.load(str(name_or_path), revision, str(cache_dir or "")))


class Model:
    """A classifier as it was read.  The weights that a Trainer learns are in the Trainer; its save_model
    writes them."""

    def __init__(self, native):
        self._native = native
        self.labels = native.labels
        self.problem = native.problem
        self.name_or_path = native.folder
        self.num_labels = len(self.labels)
        self.config = BatchEncoding(json.loads(native.config))

    def __call__(self, *_, **__):
        raise NotImplementedError("a model does not compute by itself: Trainer(model).predict(rows) gives logits, "
                                  'pipeline("text-classification", model) labels')

    @property
    def tokenizer(self):
        return Tokenizer(self._native.tokenizer)


class AutoModelForSequenceClassification:
    @staticmethod
    def from_pretrained(name_or_path, *, num_labels=None, id2label=None, label2id=None, problem_type=None,
                        ignore_mismatched_sizes=False, revision="main", cache_dir=None):
        """num_labels, id2label or label2id make a new head if the folder has none of that size.  Without problem_type it is
        the one in config.json, else one label means regression, as in transformers."""
        if id2label:
            labels = [id2label[i] if i in id2label else id2label[str(i)] for i in range(len(id2label))]
        elif label2id:
            labels = sorted(label2id, key=lambda name: int(label2id[name]))
        else:
            labels = [f"LABEL_{i}" for i in range(num_labels or 0)]
        problem = problem_type or ""
        known = ("", "regression", "single_label_classification", "multi_label_classification")
        if problem not in known:
            raise ValueError(f"problem_type: found {problem!r}, expected one of {', '.join(known[1:])}")
        return Model(_lathe.Model(str(name_or_path), problem, labels, ignore_mismatched_sizes, revision,
                                  str(cache_dir or "")))


BEST_ALONE = object()  # top_k was not given, which is not the same as 1


class TextClassificationPipeline:
    """Classifies texts with a fine-tuned model, with results in the forms of transformers' class of this name."""

    def __init__(self, model, tokenizer=None, **arguments):
        from .trainer import Trainer, TrainingArguments
        self.model = model
        self.tokenizer = tokenizer or model.tokenizer
        self._trainer = Trainer(model, TrainingArguments(".", per_device_eval_batch_size=32, **arguments))  # it writes nothing
        if not self._trainer.all_weights_are_there():
            raise ValueError(f"{model.name_or_path} has no trained head: it would predict at random; fine-tune it first")

    def __call__(self, texts, *, top_k=BEST_ALONE, max_length=None):
        """One text or a list; a dict {"text", "text_pair"} is a pair.  For each {"label", "score"} of the best label (for a
        single string a list of that one), with top_k a list of the best top_k; None: of all."""
        single = isinstance(texts, (str, dict))
        rows = [self._tokenize(text, max_length) for text in ([texts] if single else texts)]
        if not rows:
            return []
        scores = scores_of(self.model.problem, self._trainer.predict(rows).predictions)
        if top_k is BEST_ALONE:
            best = [self._ranked(row, 1)[0] for row in scores]
            return best[0] if isinstance(texts, dict) else best
        ranked = [self._ranked(row, top_k) for row in scores]
        return ranked[0] if single else ranked

    def _tokenize(self, text, max_length):
        pair = text if isinstance(text, dict) else {"text": text}
        return self.tokenizer(pair["text"], pair.get("text_pair"), truncation=True, max_length=max_length)

    def _ranked(self, row, top_k):
        order = np.argsort(-row, kind="stable")[:top_k]
        return [{"label": self.model.labels[k], "score": float(row[k])} for k in order]


def scores_of(problem, logits):
    """Softmax over classes, a sigmoid for each of several labels, the value itself for regression."""
    logits = logits.astype(np.float64)
    if problem == "regression":
        return logits
    if problem == "multi_label_classification":
        return 1 / (1 + np.exp(-logits))
    exponents = np.exp(logits - logits.max(axis=1, keepdims=True))
    return exponents / exponents.sum(axis=1, keepdims=True)


def pipeline(task, model, tokenizer=None, *, device=None, **arguments):
    """pipeline("text-classification", model=FOLDER_OR_NAME).  device: "auto", "cpu", "cuda" or "mps"."""
    if task not in ("text-classification", "sentiment-analysis"):
        raise NotImplementedError(f'pipeline: found {task!r}, lathe has "text-classification"')
    if not isinstance(model, Model):
        model = AutoModelForSequenceClassification.from_pretrained(model)
    if tokenizer is not None and not isinstance(tokenizer, Tokenizer):
        tokenizer = AutoTokenizer.from_pretrained(tokenizer)
    if device is not None:
        arguments["device"] = device
    return TextClassificationPipeline(model, tokenizer, **arguments)
