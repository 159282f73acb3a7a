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


def real_tokens(row, index):
    """ids and type ids of row number `index`, without what attention_mask leaves out.  ValueError where they have not the
    length of the ids."""
    ids = np.asarray(row["input_ids"], dtype=np.int32)
    if ids.ndim != 1:
        raise ValueError(f"row {index}: input_ids has the shape {list(ids.shape)}, wants one dimension")

    def beside(key, dtype):
        if row.get(key) is None:
            return None
        values = np.asarray(row[key], dtype=dtype)
        if values.shape != ids.shape:
            raise ValueError(f"row {index}: {key} has {values.size} values, wants {ids.size} as input_ids has")
        return values

    types, mask = beside("token_type_ids", np.uint8), beside("attention_mask", bool)
    if types is None:
        types = np.zeros(ids.shape, np.uint8)
    return (ids, types) if mask is None else (ids[mask], types[mask])


def classes_of(labels, count):
    """Labels of a classifier as int32.  ValueError for what is no whole number from 0 to count - 1."""
    classes = np.asarray(labels)
    if classes.ndim == 1 and classes.dtype.kind in "biuf":
        wrong = np.flatnonzero(classes != np.floor(classes))
    else:
        wrong = [i for i, label in enumerate(labels) if np.ndim(label) > 0 or not isinstance(label, (int, float, np.number))]
    if len(wrong) > 0:
        raise ValueError(f"row {wrong[0]}: found the label {labels[wrong[0]]!r}, wants a whole number from 0 to "
                         f'{count - 1}; numbers to be met are for problem_type="regression"')
    if classes.min() < 0 or classes.max() >= count:
        raise ValueError(f"found labels from {classes.min()} to {classes.max()}, wants whole numbers from 0 to "
                         f"{count - 1}: from_pretrained(…, num_labels=N) says how many there are")
    return classes.astype(np.int32)


def to_dataset(rows, model):
    """A data set for the native code.  ValueError for rows without tokens or labels that the model has not."""
    rows = list(rows)
    if not rows or "input_ids" not in rows[0]:
        raise ValueError(f"found {f'rows with {sorted(rows[0])}' if rows else 'no rows'}, wants rows with input_ids: "
                         "map the tokenizer over the texts first")
    tokens = [real_tokens(row, index) for index, row in enumerate(rows)]
    begins = np.cumsum([0] + [len(ids) for ids, _ in tokens], dtype=np.int64)
    classes = targets = None
    columns = 1
    labels = labels_of(rows)
    if labels is not None:
        if model.problem == "single_label_classification":
            classes = classes_of(labels, len(model.labels))
        else:
            matrix = np.asarray(labels, dtype=np.float32)
            columns = 1 if matrix.ndim == 1 else matrix.shape[1]
            if columns != len(model.labels):
                raise ValueError(f"found {columns} labels per row, wants {len(model.labels)}")
            targets = matrix.ravel()
    return _lathe.Dataset(np.concatenate([ids for ids, _ in tokens]), np.concatenate([t for _, t in tokens]), begins,
                          classes, targets, columns)
