#!/usr/bin/env python3
"""Own Metal kernels, as far as a machine without Metal can tell: their texts, as MLX writes them, parse with Metal's address
spaces; run as fibers they are within the bounds of their ops, in both adversarial orders and under ThreadSanitizer."""
import pathlib
import re
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "metal"))
import kernel_library as kernels

CASES = 177  # of all kernels, in three dtypes


def is_f32(name):
    return "__float_" in name or "sum_parts" in name


WHY_NOT = kernels.missing()
if WHY_NOT:
    print("skipped:", WHY_NOT)
    sys.exit(77)


class MetalKernels(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temp = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.temp.name)
        cls.names = kernels.write_texts(cls.folder)

    @classmethod
    def tearDownClass(cls):
        cls.temp.cleanup()

    def library(self, sanitize=False):
        library = self.folder / ("sanitized.so" if sanitize else "plain.so")
        names = [name for name in self.names if is_f32(name)] if sanitize else self.names
        if not library.exists():
            self.assertEqual(kernels.build(self.folder, names, library, sanitize), "")
        return library

    def check(self, order, sanitize=False, dtype=""):
        passed, output = kernels.test(self.library(sanitize), order, dtype, sanitize=sanitize)
        self.assertTrue(passed, output)
        self.assertIn(CASES // 3 if dtype else CASES, [int(n) for n in re.findall(r"(\d+) passed", output)])

    def test_texts_parse_with_metals_address_spaces(self):
        for name in self.names:
            self.assertEqual(kernels.parse(self.folder / f"{name}.metal"), "", name)

    def test_what_mixes_address_spaces_or_takes_double_does_not_parse(self):
        for wrong in ("device float* p = words;", "double d = 0;", "words[0] = 1;"):
            text = self.folder / "wrong.cl"
            text.write_text(f"[[kernel]] void f(const constant float* words [[buffer(0)]]) {{\n{wrong}\n}}\n")
            self.assertNotEqual(kernels.parse(text), "", wrong)

    def test_first_lanes_first(self):
        self.check(0)

    # Which lane touches what, and when, is the same in every dtype.

    def test_last_lanes_first(self):
        self.check(1, dtype="f32")

    def test_no_lane_races_another(self):
        self.check(0, sanitize=True, dtype="f32")

    def test_a_barrier_that_is_missing_is_seen_by_the_sanitizer(self):
        broken = self.folder / "broken"
        broken.mkdir()
        names = [name for name in self.names if "layer_norm_dropout_bwd" in name and is_f32(name) or "sum_parts" in name]
        for name in names:
            text = (self.folder / f"{name}.metal").read_text()
            (broken / f"{name}.metal").write_text(text.replace("threadgroup_barrier(mem_flags::mem_threadgroup);", ""))
        self.assertEqual(kernels.build(broken, names, broken / "broken.so", sanitize=True), "")
        passed, output = kernels.test(broken / "broken.so", 0, "f32", "layer_norm_dropout_bwd", sanitize=True)
        self.assertFalse(passed)
        self.assertIn("data race", output)

    def test_a_text_that_is_not_there_is_an_error(self):
        library = self.folder / "one.so"
        self.assertEqual(kernels.build(self.folder, self.names[:1], library), "")
        passed, output = kernels.test(library)
        self.assertFalse(passed)
        self.assertIn("no such kernel", output)


if __name__ == "__main__":
    unittest.main()
