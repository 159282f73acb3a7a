"""Rows of texts, from Python's forms into Lathe's, which reads them as it reads a file of them."""
import json

import numpy as np

from . import _lathe


def plain(value):
    """What JSON has for a number of numpy or an array."""
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    raise TypeError(f"found {value!r}")


def row_of(index, row, name):
    if not isinstance(row, dict):
        raise ValueError(f"{name}: row {index}: found {row!r}, expected a dict of columns, as datasets.Dataset gives it")
    try:
        line = json.dumps(row, ensure_ascii=False, default=plain)
        line.encode()
        return line
    except TypeError as error:
        raise ValueError(f"{name}: row {index}: {error}, expected texts and numbers") from None
    except UnicodeEncodeError:
        raise ValueError(f"{name}: row {index}: found half of a surrogate pair, which is no text: "
                         "str.encode(errors='replace').decode() replaces it") from None


def text_rows(rows, name):
    """rows: dicts of texts, and of labels or scores, in a list, a datasets.Dataset or any other sequence, or one dict of
    lists.  Their columns are read as `lathe embed` and `lathe rerank` read those of a file; a message calls the third row
    NAME:3."""
    if isinstance(rows, dict):
        if any(hasattr(value, "column_names") for value in rows.values()):
            raise NotImplementedError(f"{name}: found several data sets, expected one: train on them one after the other, or "
                                      "put those of one form together")
        columns = {key: list(values) for key, values in rows.items()}
        lengths = {key: len(values) for key, values in columns.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"{name}: found columns of {lengths} rows, expected equal lengths")
        rows = [dict(zip(columns, values)) for values in zip(*columns.values())]
    lines = [row_of(index, row, name) for index, row in enumerate(rows)]
    if not lines:
        raise ValueError(f"{name}: found no rows, expected at least one")
    return _lathe.TextRows("\n".join(lines) + "\n", name)
