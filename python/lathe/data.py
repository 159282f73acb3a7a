"""Rows of tokens as Python has them, and as Lathe takes them: flat and without padding."""
import numpy as np

from . import _lathe


class BatchEncoding(dict):
    """What a tokenizer gives: a dict whose keys are attributes, too."""

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


class DataCollatorWithPadding:
    """Taken for compatibility: batches are packed, padding is never computed."""

    def __init__(self, tokenizer=None, **_):
        self.tokenizer = tokenizer


def labels_of(rows):
    """The labels of all rows; None where they have none."""
    for key in ("labels", "label"):
        if len(rows) > 0 and key in rows[0]:
            return [row[key] for row in rows]
    return None


def real_tokens(row):
    """ids and type ids of the row, without what attention_mask leaves out."""
    ids = np.asarray(row["input_ids"], dtype=np.int32)
    types = np.asarray(row.get("token_type_ids", np.zeros(len(ids))), dtype=np.uint8)
    mask = row.get("attention_mask")
    if mask is None:
        return ids, types
    kept = np.asarray(mask, dtype=bool)
    return ids[kept], types[kept]


def to_dataset(rows, model):
    """A data set for the native code.  ValueError for rows without tokens or labels that the model has not."""
    rows = list(rows)
    if not rows or "input_ids" not in rows[0]:
        raise ValueError(f"found {f'rows with {sorted(rows[0])}' if rows else 'no rows'}, wants rows with input_ids: "
                         "map the tokenizer over the texts first")
    tokens = [real_tokens(row) for row in rows]
    begins = np.cumsum([0] + [len(ids) for ids, _ in tokens], dtype=np.int64)
    classes = targets = None
    columns = 1
    labels = labels_of(rows)
    if labels is not None:
        if model.problem == "single_label_classification":
            classes = np.asarray(labels, dtype=np.int32)
            count = len(model.labels)
            if classes.ndim != 1 or classes.min() < 0 or classes.max() >= count:
                raise ValueError(f"found labels from {classes.min()} to {classes.max()}, wants whole numbers from 0 to "
                                 f"{count - 1}: from_pretrained(…, num_labels=N) says how many there are")
        else:
            matrix = np.asarray(labels, dtype=np.float32)
            columns = 1 if matrix.ndim == 1 else matrix.shape[1]
            if columns != len(model.labels):
                raise ValueError(f"found {columns} labels per row, wants {len(model.labels)}")
            targets = matrix.ravel()
    return _lathe.Dataset(np.concatenate([ids for ids, _ in tokens]), np.concatenate([t for _, t in tokens]), begins,
                          classes, targets, columns)
