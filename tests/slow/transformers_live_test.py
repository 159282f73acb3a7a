#!/usr/bin/env python3
"""The table of arguments and the tokenizer compared with those of the installed transformers, live."""
import os
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import command_line as cl

cl.need_transformers()
DATA = pathlib.Path(os.environ.get("LATHE_DATA_DIR", cl.ROOT / ".." / "shared" / "data"))
PARITY = cl.ROOT / "tests" / "parity"


class Live(unittest.TestCase):
    def agrees(self, *words):
        result = subprocess.run([sys.executable, *map(str, words)], capture_output=True, text=True)
        self.assertEqual(result.returncode, 0, result.stdout[-4000:] + result.stderr[-4000:])
        return result.stdout

    def test_arguments(self):
        self.agrees(PARITY / "compare_arguments.py", cl.program())

    @unittest.skipUnless((DATA / "xquad").is_dir(), "needs LATHE_DATA_DIR")
    def test_tokenizer(self):
        texts = [*sorted((DATA / "xquad").glob("*.json")), DATA / "trec" / "train_5500.label",
                 DATA / "squad" / "dev-v1.1-a.json"]
        said = self.agrees(PARITY / "compare_tokenizers.py", "--lathe", cl.program(), DATA / "all-MiniLM-L6-v2", *texts)
        self.assertRegex(said, r"\b[1-9]\d{5,} tokens, 0 different")


if __name__ == "__main__":
    cl.main()
