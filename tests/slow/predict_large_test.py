#!/usr/bin/env python3
"""lathe predict holds a part of a table, not the table: ten times the rows need no more memory."""
import csv
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import command_line as cl  # noqa: E402

SMALL = 20_000_000
LARGE = 10 * SMALL
SLACK = 40_000_000  # bytes: what malloc keeps; a table of LARGE bytes held whole would need LARGE more


def write_table(path, size):
    """Rows of half a kilobyte, with commas, quotes and line ends in some."""
    with open(path, "w", newline="", encoding="utf-8") as out:
        rows = csv.writer(out)
        rows.writerow(["id", "text", "note"])
        row = 0
        while out.tell() < size if row % 1000 == 0 else True:
            words = " ".join(cl.WORDS[(row + i) % len(cl.WORDS)] for i in range(8))
            rows.writerow([row, words, ("a \"note\", of\nthe row " if row % 7 == 0 else "a note of the row ") * 20])
            row += 1
    return row


class Large(unittest.TestCase):
    def predict(self, folder, name, ending):
        """Peak memory of predicting it, in bytes."""
        out = folder / f"out.{ending}"
        run = subprocess.Popen([cl.program(), "predict", str(cl.MODEL), "--file", str(folder / name), "--output", str(out)],
                               stderr=subprocess.PIPE, text=True)
        said = run.stderr.read()
        run.stderr.close()
        _, status, usage = os.wait4(run.pid, 0)
        run.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(run.returncode, 0, said)
        print(name, said.splitlines()[-1], f"peak {usage.ru_maxrss // 1024} MiB", flush=True)
        return usage.ru_maxrss * 1024

    def test_memory_does_not_grow_with_the_table(self):
        with tempfile.TemporaryDirectory() as temp:
            folder = pathlib.Path(temp)
            write_table(folder / "small.csv", SMALL)
            rows = write_table(folder / "large.csv", LARGE)
            small, large = self.predict(folder, "small.csv", "csv"), self.predict(folder, "large.csv", "csv")
            self.assertLess(large, small + SLACK)
            with open(folder / "out.csv", newline="", encoding="utf-8") as out, \
                    open(folder / "large.csv", newline="", encoding="utf-8") as given:
                count = 0
                for before, after in zip(csv.reader(given), csv.reader(out), strict=True):
                    self.assertEqual(after[:3], before)
                    count += 1
            self.assertEqual(count, rows + 1)


if __name__ == "__main__":
    cl.main()
