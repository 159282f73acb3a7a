#!/usr/bin/env python3
"""lathe.SentenceTransformer: the vectors of sentence-transformers as numpy arrays, from any thread."""
import concurrent.futures
import pathlib
import shutil
import tempfile
import unittest

import command_line as cl
import python_package  # first: it finds lathe
import numpy as np
from lathe import SentenceTransformer

STORED = cl.read(cl.ROOT / "tests" / "golden" / "sentence_vectors" / "texts.json")
TEXTS = STORED["texts"]


class Sentences(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        temp = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temp.cleanup)
        folder = pathlib.Path(temp.name) / "model"
        shutil.copytree(cl.ROOT / "tests" / "golden" / "sentence_folders" / "dense", folder)
        for name in ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "vocab.txt"):
            shutil.copy(cl.MODEL / name, folder)
        cls.folder = folder
        cls.model = SentenceTransformer(folder, device="cpu")

    def assert_near(self, found, name):
        self.assertEqual((found.dtype, found.shape), (np.float32, np.shape(STORED[name])))
        self.assertLess(np.abs(found - np.array(STORED[name])).max(), 1e-6)

    def test_vectors_are_those_of_the_package(self):
        self.assert_near(self.model.encode(TEXTS), "dense")
        self.assert_near(self.model.encode(TEXTS, "document"), "no prompt")
        self.assert_near(self.model.encode(TEXTS, prompt="the ship: "), "prompt")
        self.assert_near(self.model.encode(TEXTS, truncate_dim=3), "cut")
        self.assert_near(self.model.encode(TEXTS, truncate_dim=3, normalize_embeddings=True), "cut, length 1")
        self.assert_near(SentenceTransformer(cl.MODEL, device="cpu").encode(TEXTS), "plain")

    def test_one_text_and_none(self):
        self.assertEqual(self.model.encode(TEXTS[0]).shape, (8,))
        self.assertEqual(self.model.encode([]).shape, (0,))
        self.assertEqual(self.model.get_embedding_dimension(), 8)
        self.assertEqual(SentenceTransformer(self.folder, device="cpu", truncate_dim=2).encode(TEXTS[0]).shape, (2,))

    def test_threads_share_a_model(self):
        wanted = self.model.encode(TEXTS)
        with concurrent.futures.ThreadPoolExecutor(4) as threads:
            for found in threads.map(lambda _: self.model.encode(TEXTS), range(8)):
                np.testing.assert_array_equal(found, wanted)

    def test_what_it_refuses(self):
        with self.assertRaisesRegex(ValueError, "row 1: found"):
            self.model.encode(["a", "\ud800"])
        with self.assertRaisesRegex(ValueError, "found 3 in row 1, expected a text"):
            self.model.encode(["a", 3])
        with self.assertRaisesRegex(ValueError, "the prompts document, query"):
            self.model.encode("a", "passage")
        with self.assertRaisesRegex(ValueError, "expected 1 to the 8 numbers"):
            self.model.encode("a", truncate_dim=9)
        with self.assertRaisesRegex(ValueError, "precision: found 'int8'"):
            self.model.encode("a", precision="int8")


if __name__ == "__main__":
    cl.main()
