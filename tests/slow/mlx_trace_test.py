#!/usr/bin/env python3
"""The Trainer's first 50 updates of a real model, both traces, on the device on MLX with its fused kernels: minutes on
MLX's build for the CPU, with OpenBLAS in place of the reference BLAS that it brings."""
import os
import pathlib
import platform
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import command_line as cl

TEST = pathlib.Path(cl.program()).parent / "test_parity"
SWITCHES = {"LATHE_TEST_SLOW_DEVICES": "1", "LATHE_MLX_FUSE": "1", "LD_PRELOAD": "libopenblas.so.0"}


@unittest.skipIf(platform.system() == "Darwin", "test_parity has this device among the others on a Mac")
class MlxTrace(unittest.TestCase):
    def test_losses_and_norms_are_the_trainers(self):
        result = subprocess.run([TEST, "--gtest_filter=*MiniLmTrace*/mlx_*"], capture_output=True, text=True,
                                env={**os.environ, **SWITCHES})
        if "cannot be preloaded" in result.stderr:
            self.skipTest("libopenblas0-pthread is not here")
        if "[  SKIPPED ]" in result.stdout:
            self.skipTest(result.stdout)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertIn("[  PASSED  ] 2 tests.", result.stdout)


if __name__ == "__main__":
    cl.main()
