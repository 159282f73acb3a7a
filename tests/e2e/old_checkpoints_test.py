#!/usr/bin/env python3
"""Checkpoints that an earlier Lathe wrote (tests/golden/old_checkpoints/format_3) go on: the updates after the sixth have
the losses and norms that the earlier Lathe had in a run that was not stopped."""
import json
import pathlib
import tempfile
import unittest

import command_line as cl

SOURCE = pathlib.PurePath("tests/golden/python_checkpoint")  # as the earlier runs named it
STORED = cl.ROOT / "tests" / "golden" / "old_checkpoints" / "format_3"
WAYS = {"plain": [], "frozen": ["--freeze_base_model"], "sgd": ["--optim", "sgd"], "adafactor": ["--optim", "adafactor"],
        "accumulated": ["--gradient_accumulation_steps", "3"]}
# fp32 sums in the order of another instruction set: the bound of docs/models.md for losses, twice that for norms.
BOUNDS = {"loss": 5e-6, "grad_norm": 1e-5}


class OldCheckpoints(unittest.TestCase):
    def test_each_goes_on_with_the_updates_of_a_run_that_was_not_stopped(self):
        self.assertEqual(set(WAYS), {folder.name for folder in STORED.iterdir()})
        for way, flags in WAYS.items():
            with self.subTest(way), tempfile.TemporaryDirectory() as temp:
                out = pathlib.Path(temp) / "out"
                result = cl.run([cl.program(), "glue", "--use_cpu", "--model_name_or_path", SOURCE / "checkpoint-6",
                                 "--train_file", SOURCE / "train.csv", "--do_train",
                                 "--max_steps", "12", "--save_strategy", "steps", "--save_steps", "6", "--logging_steps", "1",
                                 "--per_device_train_batch_size", "4", "--learning_rate", "1e-3",
                                 "--lr_scheduler_type", "constant", "--weight_decay", "0.01", "--max_seq_length", "32",
                                 "--resume_from_checkpoint", STORED / way / "checkpoint-6", "--output_dir", out, *flags], cwd=cl.ROOT)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertNotIn("WARNING", result.stderr)
                state = json.loads((out / "trainer_state.json").read_text())
                found = {entry["step"]: entry for entry in state["log_history"] if "loss" in entry}
                expected = json.loads((STORED / way / "updates.json").read_text())
                self.assertEqual([update["step"] for update in expected], list(range(7, 13)))
                for update in expected:
                    for key, bound in BOUNDS.items():
                        self.assertLessEqual(abs(found[update["step"]][key] / update[key] - 1), bound, (update, key))


if __name__ == "__main__":
    unittest.main()
