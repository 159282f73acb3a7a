"""Figures are data: each row is whole and agrees with itself, and what is made from the rows is up to date."""
import datetime
import pathlib
import re
import unittest

import make_results

ROOT = pathlib.Path(__file__).resolve().parents[1]
SUBJECTS = {"against": {"opponent"}, "alone": set(), "right": set(), "scores": {"opponent"}}


class Rows(unittest.TestCase):
    def setUp(self):
        self.machines, self.rows = make_results.load(ROOT)

    def test_each_is_whole(self):
        for row in self.rows:
            with self.subTest(row["place"]):
                needed = {"subject", "case", "machine", "commit", "date", "command"} | SUBJECTS[row["subject"]]
                self.assertLessEqual(needed, set(row))
                self.assertIn(row["machine"], self.machines)
                self.assertRegex(row["commit"], r"^[0-9a-f]{7,40}$")
                datetime.date.fromisoformat(row["date"])
                self.assertNotRegex(row.get("note", "."), r"[.;] .*[.;] |[^.]$", "one sentence")

    def test_both_sides_agree_with_the_ratio(self):
        """A median of ratios is not quite the ratio of medians."""
        for row in self.rows:
            sides = make_results.both_sides(row)
            with self.subTest(row["place"]):
                if sides and "share_of_torch" in row:
                    self.assertAlmostEqual(sides[1] / sides[2], row["share_of_torch"], delta=0.01)
                elif sides:
                    faster = sides[1] / sides[2] if sides[0] == "per_s" else sides[2] / sides[1]
                    low, high = (row.get(key, row.get("ratio")) for key in ("ratio_low", "ratio_high"))
                    self.assertTrue(low * 0.85 <= faster <= high * 1.15, f"{faster} is not {low} to {high}")

    def test_a_bar_can_be_held_against_its_row(self):
        for row in self.rows:
            with self.subTest(row["place"]):
                self.assertEqual(make_results.met(row) is not None, any(key.startswith("bar_") for key in row))


class Made(unittest.TestCase):
    def test_files_are_up_to_date(self):
        for path, text in make_results.made(ROOT).items():
            self.assertEqual(path.read_text(encoding="utf-8"), text, f"run tools/make_results.py: {path.name}")

    def test_the_page_is_short_and_decimals_have_a_leading_zero(self):
        text = (ROOT / "docs" / "RESULTS.md").read_text(encoding="utf-8")
        self.assertLessEqual(text.count("\n"), 93)
        self.assertEqual(re.findall(r"(?<![\w.])\.\d", text), [])

    def test_a_row_below_its_bar_is_told_so(self):
        row = {"case": "c", "machine": "m", "variant": "v", "lathe_ms": 3, "torch_ms": 4, "ratio": 1.33}
        self.assertIsNone(make_results.met(row))
        self.assertFalse(make_results.met(dict(row, bar_ratio=1.4)))
        self.assertTrue(make_results.met(dict(row, bar_share=0.75)))
        self.assertFalse(make_results.met(dict(row, bar_share=0.74)))
        self.assertFalse(make_results.met({"value_low": 0.8, "value_high": 1, "bar_min": 0.9}))
        self.assertEqual(make_results.verdict([dict(row, bar_ratio=1.4), dict(row, variant="w", bar_ratio=1)]), "no: v")


if __name__ == "__main__":
    unittest.main()
