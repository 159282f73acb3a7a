"""Converts rows of tokens from Python's form into Lathe's: flat and without padding."""
import numpy as np

from . import _lathe


class BatchEncoding(dict):
    """The output of a tokenizer: a dict whose keys are attributes, too."""

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


class DataCollatorWithPadding:
    """Taken for compatibility: batches are packed, padding is never computed."""

    def __init__(self, tokenizer=None, **_):
        self.tokenizer = tokenizer


MISSING = object()
LABEL_KEYS = ("labels", "label")


def labels_of(rows):
    """The labels of all rows; None if they have none.  ValueError if only some have one."""
    by_row = [[row.get(key, MISSING) for key in LABEL_KEYS] for row in rows]  # once: a data set may decode each row it gives
    for key, labels in zip(LABEL_KEYS, zip(*by_row)):
        with_label = [label is not MISSING for label in labels]
        if any(with_label):
            if not all(with_label):
                raise ValueError(f"row {with_label.index(False)}: has no {key!r}, expected one as other rows have")
            return list(labels)
    return None


def whole_numbers(values, dtype, place):
    """The values as `dtype`.  ValueError if `dtype` cannot hold one of them exactly."""
    found = np.asarray(values)
    if found.size > 0 and found.dtype.kind not in "iub":
        raise ValueError(f"{place}: found values of type {found.dtype}, expected whole numbers")
    taken = found.astype(dtype)
    if (taken != found).any():
        limits = np.iinfo(dtype)
        raise ValueError(f"{place}: found {found[taken != found].flat[0]}, expected numbers from {limits.min} to {limits.max}")
    return taken


def real_tokens(row, index):
    """ids and type ids of row number `index`, without what attention_mask leaves out.  ValueError if it has no
    tokens, or if another entry differs in length from the ids."""
    if "input_ids" not in row:
        raise ValueError(f"row {index}: found {sorted(row)}, expected input_ids: map the tokenizer over the texts first")
    ids = whole_numbers(row["input_ids"], np.int32, f"row {index}: input_ids")
    if ids.ndim != 1:
        raise ValueError(f"row {index}: input_ids has the shape {list(ids.shape)}, expected one dimension")

    def beside(key):
        values = None if row.get(key) is None else np.asarray(row[key])
        if values is not None and values.shape != ids.shape:
            raise ValueError(f"row {index}: {key} has {values.size} values, expected {ids.size} as input_ids has")
        return values

    types, mask = beside("token_type_ids"), beside("attention_mask")
    types = np.zeros(ids.shape, np.uint8) if types is None else whole_numbers(types, np.uint8, f"row {index}: token_type_ids")
    if mask is not None:
        ids, types = ids[mask.astype(bool)], types[mask.astype(bool)]
    if len(ids) == 0:
        raise ValueError(f"row {index}: has no tokens, expected at least one: is its text empty?")
    return ids, types


def classes_of(labels, count):
    """Labels of a classifier as int32.  ValueError unless each is a whole number from 0 to count - 1."""
    classes = np.asarray(labels)
    if classes.ndim == 1 and classes.dtype.kind in "biuf":
        wrong = np.flatnonzero(classes != np.floor(classes))
    else:
        wrong = [i for i, label in enumerate(labels) if np.ndim(label) > 0 or not isinstance(label, (int, float, np.number))]
    if len(wrong) > 0:
        raise ValueError(f"row {wrong[0]}: found the label {labels[wrong[0]]!r}, expected a whole number from 0 to "
                         f'{count - 1}; numbers to be met are for problem_type="regression"')
    if classes.min() < 0 or classes.max() >= count:
        raise ValueError(f"found labels from {classes.min()} to {classes.max()}, expected whole numbers from 0 to "
                         f"{count - 1}: from_pretrained(…, num_labels=N) says how many there are")
    return classes.astype(np.int32)


def to_dataset(rows, model):
    """A data set for the native code.  ValueError for rows without tokens or with labels that the model
    lacks."""
    rows = list(rows)
    if not rows:
        raise ValueError("found no rows, expected at least one with input_ids")
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
            if matrix.ndim > 2:
                raise ValueError(f"found labels of the shape {list(matrix.shape[1:])}, expected one dimension per row")
            columns = 1 if matrix.ndim == 1 else matrix.shape[1]
            if columns != len(model.labels):
                raise ValueError(f"found {columns} labels per row, expected {len(model.labels)}")
            targets = matrix.ravel()
    return _lathe.Dataset(np.concatenate([ids for ids, _ in tokens]), np.concatenate([t for _, t in tokens]), begins,
                          classes, targets, columns)
