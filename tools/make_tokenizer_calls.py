#!/usr/bin/env python3
"""Writes tests/golden/python/tokenizer_calls.json: what transformers' tokenizer makes of padding, truncation and max_length.
Needs only transformers."""
import itertools
import json
import pathlib
import warnings

import tokenizers
import transformers

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "tests" / "golden"
TEXTS = ["the old bridge is small who opened it turns what runs in engine of new red ship", "where bank a metal"]
PAIRS = {"none": None, "short": ["a red ship", "the old bridge"], "long": ["what runs in engine of new red ship where", "it"]}
PADDING = [False, True, "longest", "max_length", "do_not_pad"]
TRUNCATION = [None, False, True, "do_not_truncate", "longest_first", "only_first", "only_second"]
MAX_LENGTH = [None, 8, 24, 70]


def call(tokenizer, pair, **settings):
    """For each text: tokens, those of them of the second text, and columns.  None where it refuses."""
    try:
        rows = tokenizer(TEXTS, PAIRS[pair], **settings)
    except Exception:  # the class is that of the tokenizers crate
        return None
    return [[sum(mask), sum(types), len(ids)]
            for ids, types, mask in zip(rows["input_ids"], rows["token_type_ids"], rows["attention_mask"])]


def main():
    warnings.simplefilter("ignore")
    limited = transformers.AutoTokenizer.from_pretrained(GOLDEN / "tiny_bert" / "classification")
    endless = transformers.AutoTokenizer.from_pretrained(GOLDEN / "tiny_bert" / "classification")
    endless.model_max_length = transformers.tokenization_utils_base.VERY_LARGE_INTEGER
    calls = [[name, pair, padding, truncation, length,
              call(tokenizer, pair, padding=padding, truncation=truncation, max_length=length)]
             for (name, tokenizer), pair, padding, truncation, length in itertools.product(
                 {"limited": limited, "endless": endless}.items(), PAIRS, PADDING, TRUNCATION, MAX_LENGTH)]
    folder = GOLDEN / "python"
    folder.mkdir(exist_ok=True)
    lines = ",\n  ".join(json.dumps(item) for item in calls)
    head = {"versions": {"transformers": transformers.__version__, "tokenizers": tokenizers.__version__},
            "texts": TEXTS, "pairs": PAIRS, "columns": ["tokenizer", "pair", "padding", "truncation", "max_length", "rows"]}
    (folder / "tokenizer_calls.json").write_text(json.dumps(head, indent=1)[:-2] + f',\n "calls": [\n  {lines}\n ]\n}}\n')


if __name__ == "__main__":
    main()
