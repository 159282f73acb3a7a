#!/usr/bin/env python3
"""A run of 1,000 updates with dropout learns, and ends in the same bits whatever the number of threads, and when it is
killed on the way and resumed."""
import json
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import command_line as cl
from resume_test import history, model_with_dropout

STEPS, KILLED_AFTER = 1000, 600


class ThousandSteps(unittest.TestCase):
    def setUp(self):
        self.temp = tempfile.TemporaryDirectory()
        self.addCleanup(self.temp.cleanup)
        self.root = pathlib.Path(self.temp.name)
        model_with_dropout(self.root / "model")
        cl.write_csv(self.root / "train.csv", 600, 1)
        cl.write_csv(self.root / "dev.csv", 60, 2)

    def command(self, folder, *more):
        command = cl.glue_command(folder, self.root / "train.csv", self.root / "dev.csv", "--max_steps", str(STEPS),
                                  "--learning_rate", "3e-4", "--save_steps", "100", "--logging_steps", "10", *more)
        command[command.index(str(cl.MODEL))] = str(self.root / "model")
        return command

    def finish(self, folder, *more):
        result = cl.run(self.command(folder, *more))
        self.assertEqual(result.returncode, 0, result.stderr)
        return result

    def test_it_learns_and_always_ends_in_the_same_bits(self):
        one, two, killed = (self.root / name for name in ("one", "two", "killed"))
        self.finish(one, "--threads", "1")
        losses = [entry["loss"] for entry in history(one) if "loss" in entry]
        self.assertEqual(len(losses), STEPS // 10)
        fifths = [sum(losses[at:at + 20]) / 20 for at in range(0, 100, 20)]
        self.assertEqual(fifths, sorted(fifths, reverse=True))
        self.assertLess(fifths[-1], 0.5 * fifths[0])

        self.finish(two, "--threads", "2")

        process = subprocess.Popen(self.command(killed, "--threads", "2"), stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        while not (killed / f"checkpoint-{KILLED_AFTER}").exists():
            self.assertIsNone(process.poll(), "ended before it could be killed")
            time.sleep(0.002)
        process.kill()
        process.wait()
        self.assertFalse((killed / f"checkpoint-{STEPS}").exists())
        self.assertIn("going on from", self.finish(killed, "--threads", "1").stderr)

        for folder in (two, killed):
            self.assertEqual((folder / "model.safetensors").read_bytes(), (one / "model.safetensors").read_bytes())
            self.assertEqual(history(folder), history(one))
            self.assertEqual(json.loads((folder / "trainer_state.json").read_text())["global_step"], STEPS)


if __name__ == "__main__":
    cl.main()
