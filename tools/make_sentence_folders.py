#!/usr/bin/env python3
"""Writes tests/golden/sentence_folders: what sentence-transformers saves of tiny models, without their transformer.
Needs sentence-transformers (6.2); the tests do not.

Usage: tools/make_sentence_folders.py     (from the repository root)
"""
import pathlib
import shutil

import torch
from sentence_transformers import CrossEncoder, SentenceTransformer, models

BERT, OUT = "tests/golden/tiny_bert/", pathlib.Path("tests/golden/sentence_folders")
torch.manual_seed(0)
shutil.rmtree(OUT, ignore_errors=True)
several = [models.Transformer(BERT + "classification", max_seq_length=12), models.Pooling(32, pooling_mode=("mean", "max")),
           models.Dense(64, 8), models.Normalize()]
SentenceTransformer(modules=several, prompts={"query": "q: ", "document": ""}, default_prompt_name="query",
                    similarity_fn_name="dot").save(str(OUT / "dense"), create_model_card=False)
SentenceTransformer(modules=[models.Transformer(BERT + "classification"),
                             models.Pooling(32, pooling_mode="lasttoken", include_prompt=False)]).save(
    str(OUT / "last_token"), create_model_card=False)
CrossEncoder(BERT + "regression", num_labels=1, max_length=16).save(str(OUT / "one_score"))
CrossEncoder(BERT + "classification", num_labels=3).save(str(OUT / "classes"))
for path in OUT.rglob("*"):
    if path.name == "README.md" or path.name.startswith("tokenizer") or (path.name == "model.safetensors" and path.parent.parent == OUT):
        path.unlink()
