#!/usr/bin/env python3
"""The folder that lathe embed writes gives the same vectors in sentence-transformers as in lathe encode.

Runs in $LATHE_HF_PYTHON, a Python with torch, transformers and sentence-transformers.
"""
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import command_line as cl

cl.need_transformers()
os.environ.update(HF_HUB_OFFLINE="1", CUDA_VISIBLE_DEVICES="")
try:
    import sentence_transformers
except ImportError:
    print("skipped: needs sentence-transformers in LATHE_HF_PYTHON")
    sys.exit(77)

from embed_runs_test import EmbedCase
from encode_test import npy

TEXTS = ["Two women are embracing.", "A man sells donuts to a customer", "a river"]
BASES = cl.GOLDEN.parent / "mlm"


class EmbedFolder(EmbedCase):
    def test_both_read_the_same_vectors_from_the_folder(self):
        file = self.root / "texts.txt"
        file.write_text("".join(text + "\n" for text in TEXTS))
        for base, pooling in (("bert", "mean"), ("bert", "cls"), ("roberta", "max"), ("modernbert", "lasttoken"),
                              ("distilbert", "weightedmean"), ("bert", "cls,mean")):
            with self.subTest(base=base, pooling=pooling):
                out, vectors = self.root / f"{base}_{pooling}", self.root / f"{base}_{pooling}.npy"
                self.works(self.embed(out, "--pooling_mode", pooling, "--matryoshka_dims", "16,8", model=BASES / base))
                self.lathe("encode", out, "--file", file, "--output", vectors, "--device", "cpu")
                theirs = sentence_transformers.SentenceTransformer(str(out), device="cpu").encode(TEXTS).tolist()
                for mine, row in zip(npy(vectors), theirs, strict=True):
                    self.assertLess(max(abs(a - b) for a, b in zip(mine, row)), 1e-6)

    def test_theirs_is_trained_and_read_again(self):
        theirs = self.root / "theirs"
        modules = sentence_transformers.sentence_transformer.modules
        base = modules.Transformer(str(BASES / "bert"))
        sentence_transformers.SentenceTransformer(modules=[
            base, modules.Pooling(base.get_embedding_dimension()), modules.Dense(base.get_embedding_dimension(), 12),
            modules.Normalize()], device="cpu").save(str(theirs))
        out, file = self.root / "out", self.root / "texts.txt"
        file.write_text("".join(text + "\n" for text in TEXTS))
        self.works(self.embed(out, model=theirs))
        self.lathe("encode", out, "--file", file, "--output", self.root / "v.npy", "--device", "cpu")
        found = sentence_transformers.SentenceTransformer(str(out), device="cpu").encode(TEXTS).tolist()
        for mine, row in zip(npy(self.root / "v.npy"), found, strict=True):
            self.assertLess(max(abs(a - b) for a, b in zip(mine, row)), 1e-6)


if __name__ == "__main__":
    cl.main()
