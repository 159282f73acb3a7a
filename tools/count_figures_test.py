"""Docs are words, not measurements: what counts as one, and that they are few."""
import pathlib
import unittest

import count_figures
import wrap_docs

ROOT = pathlib.Path(__file__).resolve().parents[1]


class Counting(unittest.TestCase):
    def test_what_is_a_measurement(self):
        for measured, text in (
                (5, "took 1.5, .5 and 3e-7"),
                (0, "took 1.5 and .5"),
                (0, "`1 2 3` in fp32 on H200"),
                (0, "with transformers 5.23, Python 3.11, CUDA 13, [x](y1.md#2-3)"),
                (5, "some words\n\n| a | b |\n| 1 | 2, 3 |\n\n- one 1\n- two"),
                (4, "- took 1, 2, 3\n- and two plain words"),
                (0, "```\n1 2 3\n```\n")):
            self.assertEqual(count_figures.count(text)[1], measured, text)

    def test_few_words_are_measurements(self):
        self.assertLessEqual(count_figures.share(), 15)


class Lines(unittest.TestCase):
    def test_at_most_120_characters(self):
        """But for tables and code, which cannot be broken, and the page that the program makes."""
        for page in [ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", *count_figures.pages()]:
            text = page.read_text(encoding="utf-8")
            self.assertEqual(wrap_docs.wrapped(text), text, f"run tools/wrap_docs.py {page.relative_to(ROOT)}")

    def test_what_is_wrapped(self):
        long = "word " * 30
        self.assertEqual(wrap_docs.wrapped(f"- {long}`a b`\n\n| {long} |\n"),
                         f"- {' '.join(['word'] * 23)}\n  {' '.join(['word'] * 7)} `a b`\n\n| {long} |\n")
        for text in (f"```\n{long}\n```\n", "short\nlines\n", "# " + long, f"  <img alt='{long}'>\n"):
            self.assertEqual(wrap_docs.wrapped(text), text)


if __name__ == "__main__":
    unittest.main()
