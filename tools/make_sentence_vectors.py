#!/usr/bin/env python3
"""Writes tests/golden/sentence_vectors: what the modules of sentence-transformers make of the stored batches of the tiny
models, and what encode gives of texts with a whole folder.  Needs sentence-transformers (6.2); the tests do not.

Usage: tools/make_sentence_vectors.py     (from the repository root)
"""
import json
import pathlib
import shutil
import tempfile

import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.models import Pooling
from transformers import AutoModel

GOLDEN = pathlib.Path("tests/golden")
OUT = GOLDEN / "sentence_vectors"
FAMILIES = ["bert", "camembert", "distilbert", "electra", "modernbert", "roberta", "xlm_roberta"]
MODES = ["cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"]
TEXTS = ["the old bridge", "who opened it", "", "the ship was opened by the old man on the bridge at the end of the day",
         "a", "Bridge! Ship? " * 20, "the old bridge"]


def pooled(model, batch, modes, prompt):
    inputs = {key: batch[key] for key in ("input_ids", "attention_mask", "token_type_ids")
              if key != "token_type_ids" or model.config.model_type in ("bert", "electra")}
    features = {"token_embeddings": model(**inputs).last_hidden_state, "attention_mask": batch["attention_mask"]}
    if prompt:
        features["prompt_length"] = prompt
    return Pooling(model.config.hidden_size, pooling_mode=modes, include_prompt=not prompt)(features)["sentence_embedding"]


def family_vectors(family):
    folder = GOLDEN / f"tiny_{family}" / "classification"
    model = AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    batch = load_file(folder / "batch.safetensors")
    out = {}
    for modes in [*MODES, ("mean", "cls", "max"), ("weightedmean", "lasttoken")]:
        name = modes if isinstance(modes, str) else "+".join(modes)
        out[name] = pooled(model, batch, modes, 0)
        out[name + "/prompt"] = pooled(model, batch, modes, 2)
    save_file({name: value.contiguous() for name, value in out.items()}, OUT / f"{family}.safetensors")


def text_vectors():
    """Of the folder sentence_folders/dense and of a plain one."""
    out = {"texts": TEXTS}
    bert = GOLDEN / "tiny_bert" / "classification"
    with tempfile.TemporaryDirectory() as place:
        whole = pathlib.Path(place) / "dense"
        shutil.copytree(GOLDEN / "sentence_folders" / "dense", whole)
        for path in bert.iterdir():
            if path.name in ("config.json", "model.safetensors") or path.name.startswith("token") or path.name == "vocab.txt":
                shutil.copy(path, whole)
        dense, plain = SentenceTransformer(str(whole), device="cpu"), SentenceTransformer(str(bert), device="cpu")
        for name, model, keywords in [("dense", dense, {}), ("no prompt", dense, {"prompt_name": "document"}),
                                      ("prompt", dense, {"prompt": "the ship: "}), ("cut", dense, {"truncate_dim": 3}),
                                      ("cut, length 1", dense, {"truncate_dim": 3, "normalize_embeddings": True}),
                                      ("plain", plain, {}), ("plain, length 1", plain, {"normalize_embeddings": True})]:
            out[name] = [[float(x) for x in row] for row in model.encode(TEXTS, **keywords)]
    (OUT / "texts.json").write_text(json.dumps(out) + "\n")


if __name__ == "__main__":
    OUT.mkdir(exist_ok=True)
    with torch.no_grad():
        for name in FAMILIES:
            family_vectors(name)
        text_vectors()
