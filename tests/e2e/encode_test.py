#!/usr/bin/env python3
"""lathe encode: the vectors of sentence-transformers, in .npy and JSON Lines, and what it says of bad input."""
import csv
import json
import pathlib
import shutil
import subprocess

import command_line as cl
from command_line import GOLDEN, ROOT, CommandsCase, read

FOLDERS = ROOT / "tests" / "golden" / "sentence_folders"
STORED = read(ROOT / "tests" / "golden" / "sentence_vectors" / "texts.json")
TEXTS = STORED["texts"]
PLAIN = GOLDEN / "classification"


def npy(path):
    """Rows of a .npy file, without numpy."""
    import ast
    import struct
    data = pathlib.Path(path).read_bytes()
    assert data[:8] == b"\x93NUMPY\x01\x00", data[:8]
    size = struct.unpack("<H", data[8:10])[0]
    head = ast.literal_eval(data[10:10 + size].decode())
    assert head["descr"] == "<f4" and not head["fortran_order"] and (10 + size) % 64 == 0, head
    rows, width = head["shape"]
    values = struct.unpack(f"<{rows * width}f", data[10 + size:])
    return [values[i * width:(i + 1) * width] for i in range(rows)]


class Encode(CommandsCase):
    def setUp(self):
        super().setUp()
        self.model = self.root / "model"
        shutil.copytree(FOLDERS / "dense", self.model)
        for name in ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "vocab.txt"):
            shutil.copy(PLAIN / name, self.model)
        self.file = self.root / "texts.jsonl"
        self.file.write_text("".join(json.dumps({"id": i, "text": text}) + "\n" for i, text in enumerate(TEXTS)))

    def encode(self, *words, model=None, **keywords):
        return self.lathe("encode", model or self.model, *words, **keywords)

    def vectors(self, *words, model=None):
        out = self.root / "out.npy"
        self.encode("--file", self.file, "--output", out, "--device", "cpu", *words, model=model)
        return npy(out)

    def refused(self, *words, model=None, code=2):
        result = cl.run([cl.program(), "encode", str(model or self.model), *map(str, words)])
        self.assertEqual((result.returncode, result.stdout), (code, ""), result.stderr)
        self.assertEqual([path.name for path in self.root.iterdir() if path.name.startswith(".tmp")], [])
        return result.stderr

    def assert_near(self, found, wanted):
        self.assertEqual([len(row) for row in found], [len(row) for row in wanted])
        for row, (a, b) in enumerate(zip(found, wanted)):
            self.assertLess(max(abs(x - y) for x, y in zip(a, b)), 1e-6, row)

    def test_vectors_are_those_of_the_package(self):
        for name, words in [("dense", []), ("no prompt", ["--prompt_name", "document"]),
                            ("prompt", ["--prompt", "the ship: "]), ("cut", ["--truncate_dim", 3]),
                            ("cut, length 1", ["--truncate_dim", 3, "--normalize_embeddings"])]:
            with self.subTest(name):
                self.assert_near(self.vectors(*words), STORED[name])
        for name, words in [("plain", []), ("plain, length 1", ["--normalize_embeddings"])]:
            with self.subTest(name):
                self.assert_near(self.vectors(*words, model=PLAIN), STORED[name])

    def test_batches_change_nothing_and_threads_no_bit(self):
        wanted = self.vectors()
        self.assertEqual(self.vectors("--threads", 1), wanted)
        self.assert_near(self.vectors("--batch_tokens", 16), wanted)

    def test_a_file_of_many_parts(self):
        lines = [f"{cl.WORDS[i % 10]} the old bridge {'who opened it ' * 500}" for i in range(500)]
        (self.root / "long.txt").write_text("".join(line + "\n" for line in lines))
        result = self.encode("--file", self.root / "long.txt", "--output", self.root / "long.npy", "--device", "cpu")
        self.assertIn("texts that were cut: 500 of 500", result.stderr)
        rows = npy(self.root / "long.npy")
        self.assertEqual(len(rows), 500)
        for i in range(10, 500):
            self.assert_near([rows[i]], [rows[i - 10]])
        self.assertGreater(max(abs(x - y) for x, y in zip(rows[0], rows[1])), 1e-3)

    def test_what_it_says(self):
        table = self.root / "t.csv"
        with open(table, "w", newline="") as out:
            csv.writer(out).writerows([["text"], *([text] for text in TEXTS)])
        result = self.encode("--file", table, "--output", self.root / "v.npy", model=PLAIN)
        self.assertIn("no modules.json; the vectors are the means", result.stderr)
        self.assertIn("cells without text: 1, the first at", result.stderr)
        self.assertIn("texts that were cut: 1 of 7, to 64 tokens", result.stderr)
        self.assertRegex(result.stderr, r"(?m)^7 texts, \d+ tokens in [0-9.]+ s, \d+ texts/s; vectors of 32 numbers in .*v\.npy$")
        self.assertEqual(result.stdout, "")

    def test_every_format_in_and_json_lines_out(self):
        wanted = self.vectors()
        texts = [text for text in TEXTS if text]
        lines, tsv, document = self.root / "t.txt", self.root / "t.tsv", self.root / "t.json"
        lines.write_text("".join(f"{text}\n" for text in texts))
        tsv.write_text("id\tsentence\n" + "".join(f"{i}\t{text}\n" for i, text in enumerate(TEXTS)))
        document.write_text(json.dumps([{"body": text, "n": 1.5} for text in TEXTS]))
        piped = subprocess.run([cl.program(), "encode", str(self.model), "--file", "-", "--format", "lines"],
                               input=lines.read_text(), capture_output=True, text=True, check=True)
        rows = [json.loads(line) for line in piped.stdout.splitlines()]
        self.assertEqual([row["text"] for row in rows], texts)
        self.assert_near([row["embedding"] for row in rows], [row for row, text in zip(wanted, TEXTS) if text])
        self.assertEqual(self.encode("--file", lines).stdout, piped.stdout)
        out = self.root / "o.jsonl"
        self.encode("--file", tsv, "--output", out)
        rows = [json.loads(line) for line in out.read_text().splitlines()]
        self.assertEqual(list(rows[0]), ["id", "sentence", "embedding"])
        self.assert_near([row["embedding"] for row in rows], wanted)
        result = self.encode("--file", document, "--output", out)
        self.assertIn("the texts are taken from 'body'", result.stderr)
        self.assertTrue(out.read_text().startswith('{"body": "the old bridge", "n": 1.5, "embedding": ['))

    def test_words(self):
        rows = [json.loads(line) for line in self.encode(*TEXTS[:2]).stdout.splitlines()]
        self.assertEqual([row["text"] for row in rows], TEXTS[:2])
        self.assert_near([row["embedding"] for row in rows], STORED["dense"][:2])

    def test_bad_input(self):
        out = self.root / "v.npy"
        self.assertIn("has the columns 'id', 'text'", self.refused("--file", self.file, "--text_column_name", "body"))
        self.assertIn("the prompts document, query", self.refused("--prompt_name", "passage", "a"))
        self.assertIn("has no prompts", self.refused("--prompt_name", "query", "a", model=PLAIN))
        self.assertIn("expected 1 to the 8 numbers", self.refused("--truncate_dim", 9, "a"))
        self.assertIn("ends in .npy or .jsonl", self.refused("--file", self.file, "--output", self.root / "v.csv"))
        self.assertIn("which is --file", self.refused("--file", self.file, "--output", self.file))
        self.assertIn("expected texts or --file", self.refused())
        (self.root / "two.csv").write_text("a,b\nx y,z w\n")
        self.assertIn("say which has the texts with --text_column_name", self.refused("--file", self.root / "two.csv"))
        (self.root / "bad.jsonl").write_text('{"text": "a"}\n{"text": 1\n')
        self.assertIn("bad.jsonl:2", self.refused("--file", self.root / "bad.jsonl", "--output", out, code=1))
        self.assertFalse(out.exists())
        predicted = cl.run([cl.program(), "predict", str(self.model), "a"])
        self.assertEqual(predicted.returncode, 1)
        self.assertIn("gives vectors of texts; lathe encode does", predicted.stderr)
        modules = self.model / "modules.json"
        modules.write_text(modules.read_text().replace(".Normalize", ".CNN"))
        self.assertIn("CNN", self.refused("a", code=1))

    def test_vectors_of_zeros_stay_and_are_told(self):
        pooling = self.model / "1_Pooling" / "config.json"
        self.assertTrue(pooling.exists())
        text = self.encode("--truncate_dim", 1, "--normalize_embeddings", "a").stdout
        self.assertEqual([abs(x) for x in json.loads(text)["embedding"]], [1.0])


if __name__ == "__main__":
    cl.main()
