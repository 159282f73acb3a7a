#!/usr/bin/env python3
"""A run of Hugging Face's Trainer, stopped at its checkpoint-6, goes on in Lathe with the losses that it had in Python.
The files are stored (tools/make_traces.py checkpoint); tests/slow/python_relay_test.py does the same with the packages."""
import json
import pathlib
import tempfile
import unittest

import command_line as cl

GOLDEN = cl.ROOT / "tests" / "golden" / "python_checkpoint"
CHECKPOINT = GOLDEN / "checkpoint-6"
LOSS_BOUND = 5e-6  # of the 50-update trace: tells a right run from a wrong one
NORM_BOUND = 1e-5


class GoesOn(unittest.TestCase):
    def setUp(self):
        self.temp = tempfile.TemporaryDirectory()
        self.addCleanup(self.temp.cleanup)
        self.out = pathlib.Path(self.temp.name) / "out"

    def lathe(self, *more):
        result = cl.run([cl.program(), "glue", "--model_name_or_path", str(CHECKPOINT), "--train_file",
                         str(GOLDEN / "train.csv"), "--do_train", "--max_steps", "14", "--learning_rate", "1e-3",
                         "--weight_decay", "0.01", "--per_device_train_batch_size", "4", "--max_seq_length", "16",
                         "--logging_steps", "1", "--save_steps", "4", "--use_cpu", "--output_dir", str(self.out),
                         "--resume_from_checkpoint", str(CHECKPOINT), *more])
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stderr

    def test_with_the_losses_that_it_had_in_python(self):
        said = self.lathe()
        self.assertIn("written by Hugging Face's Trainer", said)
        self.assertNotIn("not as the one that was stopped", said)
        trace = json.loads((GOLDEN / "trace.json").read_text())
        log = [e for e in json.loads((self.out / "trainer_state.json").read_text())["log_history"] if "grad_norm" in e]
        self.assertEqual([e["step"] for e in log], list(range(1, 15)))
        for key, name, bound in (("losses", "loss", LOSS_BOUND), ("grad_norms", "grad_norm", NORM_BOUND),
                                 ("learning_rates", "learning_rate", 1e-12)):
            for step, (wanted, entry) in enumerate(zip(trace[key], log), 1):
                self.assertAlmostEqual(entry[name], wanted, delta=bound * abs(wanted), msg=f"{name} of step {step}")
        results = json.loads((self.out / "train_results.json").read_text())
        self.assertAlmostEqual(results["train_loss"], sum(trace["losses"]) / 14, delta=LOSS_BOUND)
        for name in ("optimizer.pt", "scheduler.pt", "trainer_state.json", "model.safetensors"):
            self.assertTrue((self.out / "checkpoint-12" / name).exists(), name)

    def test_other_settings_are_said(self):
        said = self.lathe("--learning_rate", "2e-3", "--per_device_train_batch_size", "8", "--adam_beta2", "0.9",
                          "--max_grad_norm", "2", "--seed", "43")
        for words in ("learning rate 0.001 there and 0.002 here", "epoch 0.6 there and 1.2 here", "beta2 0.999 there",
                      # what training_args.bin alone knows
                      "max_grad_norm 1.0 there and 2.0 here", "seed 42 there and 43 here"):
            self.assertIn(words, said)


if __name__ == "__main__":
    unittest.main()
