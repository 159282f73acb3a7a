#!/usr/bin/env python3
"""Compares Lathe's table of arguments with the TrainingArguments of the installed transformers (5.23).

    compare_arguments.py LATHE      the program: `LATHE arguments --json` is read
    compare_arguments.py FILE.json  or its stored output

Every field of transformers has to be in the table with its type, default and choices; every Lathe field that
transformers lacks has to be one of an older version or graded "lathe". Prints what differs; exit code 1 if anything does.
"""
import dataclasses
import enum
import json
import pathlib
import subprocess
import sys
import types
import typing

from transformers import TrainingArguments

# True with transformers; Lathe stops at a loss that is not finite unless the flag is given.
OWN_DEFAULT = {"logging_nan_inf_filter"}
# In versions before 5 only.
OLDER = {"overwrite_output_dir", "warmup_ratio", "logging_dir", "save_safetensors"}
# Hugging Face declares these by other types than the values they take.
KINDS = {"report_to": "list", "include_num_input_tokens_seen": "str", "fsdp": "str", "debug": "str",
         "trackio_static_space_id": "str", "optim_target_modules": "list", "parallelism_config": "dict"}


def kind_of(field, hint):
    if field.name in KINDS:
        return KINDS[field.name]
    union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    parts = [p for p in (typing.get_args(hint) if union else (hint,)) if p is not type(None)]
    names = {getattr(typing.get_origin(p) or p, "__name__", str(p)) for p in parts}
    for kind in ("dict", "list", "bool", "int", "float"):
        if kind in names:
            return kind
    return "str"


def choices_of(field, hint):
    for part in typing.get_args(hint) or (hint,):
        if isinstance(part, type) and issubclass(part, enum.Enum):
            return {str(item.value) for item in part}
    return set(field.metadata.get("choices") or ())


def default_of(field):
    made = field.default_factory is not dataclasses.MISSING
    value = field.default_factory() if made else field.default
    return getattr(value, "value", value)


def differences(table):
    ours = {row["name"]: row for row in table["training"]}
    hints = typing.get_type_hints(TrainingArguments)
    theirs = {field.name: field for field in dataclasses.fields(TrainingArguments)}
    for name, field in theirs.items():
        row = ours.get(name)
        if row is None:
            yield f"{name}: is not in the table"
            continue
        default = default_of(field)
        if row["type"] == "list" and isinstance(default, str):
            default = [default]
        same = row["default"] == default and isinstance(row["default"], bool) == isinstance(default, bool)
        if not same and name not in OWN_DEFAULT:
            yield f"{name}: default {row['default']!r}, transformers has {default!r}"
        if row["type"] != kind_of(field, hints[name]):
            yield f"{name}: type {row['type']}, transformers has {kind_of(field, hints[name])} ({hints[name]})"
        known, choices = set(row["choices"]) | set(row["later"]), choices_of(field, hints[name])
        if choices - known:
            yield f"{name}: does not know {sorted(choices - known)}"
    for name, row in ours.items():
        if name not in theirs and name not in OLDER and row["grade"] != "lathe":
            yield f"{name}: transformers has no such field"
    for row in table["old_names"]:
        if row["name"] in theirs:
            yield f"{row['name']}: is in the table of old names, but transformers has it"


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    source = pathlib.Path(sys.argv[1]).resolve()
    text = source.read_text() if source.suffix == ".json" else subprocess.run(
        [source, "arguments", "--json"], check=True, capture_output=True, text=True).stdout
    found = list(differences(json.loads(text)))
    print("\n".join(found) or "no differences")
    sys.exit(1 if found else 0)


main()
