#!/usr/bin/env python3
"""A run of Hugging Face's Trainer, stopped at its checkpoint-6, continues in Lathe with the same losses as in Python.
The files are stored (tools/make_traces.py checkpoint); tests/slow/python_relay_test.py does the same with the packages."""
import json
import math
import pathlib
import pickle
import shutil
import tempfile
import unittest
import zipfile

import command_line as cl

GOLDEN = cl.ROOT / "tests" / "golden" / "python_checkpoint"
CHECKPOINT = GOLDEN / "checkpoint-6"
LOSS_BOUND = 5e-6  # of the 50-update trace: tells a right run from a wrong one
NORM_BOUND = 1e-5
# As torch 2.11 writes it after evaluations that were no better than the first.
PLATEAU = {"factor": 0.5, "default_min_lr": 0, "min_lrs": [0, 0], "patience": 1, "cooldown": 0, "eps": 1e-8, "last_epoch": 3,
           "_last_lr": [5e-4, 5e-4], "mode_worse": -math.inf, "mode": "max", "threshold": 1e-4, "threshold_mode": "rel",
           "best": 100.0, "cooldown_counter": 0, "num_bad_epochs": 1}


def write_torch(path, value):
    """What torch.save makes of a value without tensors."""
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(f"{path.stem}/data.pkl", pickle.dumps(value, 2))
        file.writestr(f"{path.stem}/version", "3\n")


def read_torch(path):
    """A value without tensors."""
    with zipfile.ZipFile(path) as file:
        return pickle.loads(file.read(next(name for name in file.namelist() if name.endswith("/data.pkl"))))


class GoesOn(unittest.TestCase):
    def setUp(self):
        self.temp = tempfile.TemporaryDirectory()
        self.addCleanup(self.temp.cleanup)
        self.out = pathlib.Path(self.temp.name) / "out"

    def lathe(self, *more, checkpoint=CHECKPOINT):
        result = cl.run([cl.program(), "glue", "--model_name_or_path", str(CHECKPOINT), "--train_file",
                         str(GOLDEN / "train.csv"), "--do_train", "--max_steps", "14", "--learning_rate", "1e-3",
                         "--weight_decay", "0.01", "--per_device_train_batch_size", "4", "--max_seq_length", "16",
                         "--logging_steps", "1", "--save_steps", "4", "--use_cpu", "--output_dir", str(self.out),
                         "--resume_from_checkpoint", str(checkpoint), *more])
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stderr

    def copy(self):
        copy = pathlib.Path(self.temp.name) / "checkpoint-6"
        shutil.copytree(CHECKPOINT, copy)
        return copy

    def lines(self):
        history = json.loads((self.out / "trainer_state.json").read_text())["log_history"]
        return [entry for entry in history if "grad_norm" in entry]

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

    def test_a_schedule_that_reads_metrics_goes_on(self):
        checkpoint = self.copy()
        write_torch(checkpoint / "scheduler.pt", PLATEAU)
        said = self.lathe("--lr_scheduler_type", "reduce_lr_on_plateau", "--lr_scheduler_kwargs",
                          '{"patience": 1, "factor": 0.5, "mode": "max"}', "--validation_file", str(GOLDEN / "train.csv"),
                          "--do_eval", "--eval_strategy", "steps", "--eval_steps", "2", checkpoint=checkpoint)
        self.assertNotIn("not as the one that was stopped", said)
        # One bad evaluation more halves the rate; two after that, again.
        self.assertEqual([e["learning_rate"] for e in self.lines()[6:]], [5e-4] * 2 + [2.5e-4] * 4 + [1.25e-4] * 2)
        written = read_torch(self.out / "checkpoint-12" / "scheduler.pt")
        self.assertEqual(written, {**PLATEAU, "last_epoch": 6, "_last_lr": [1.25e-4, 1.25e-4], "num_bad_epochs": 0})
        self.assertIn("learning rate by updates there and evaluations here", self.lathe(
            "--lr_scheduler_type", "greedy", "--validation_file", str(GOLDEN / "train.csv"), "--do_eval", "--eval_strategy",
            "steps", "--overwrite_output_dir"))

    def test_every_optimizer_leaves_what_the_trainer_wants(self):
        for optim in ("sgd", "adafactor"):
            self.out = pathlib.Path(self.temp.name) / optim
            result = cl.run([cl.program(), "glue", "--model_name_or_path", str(CHECKPOINT), "--train_file",
                             str(GOLDEN / "train.csv"), "--do_train", "--max_steps", "2", "--learning_rate", "1e-3",
                             "--max_seq_length", "16", "--use_cpu", "--output_dir", str(self.out), "--optim", optim])
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertTrue((self.out / "checkpoint-2" / "optimizer.pt").exists(), optim)
            self.assertEqual(read_torch(self.out / "checkpoint-2" / "scheduler.pt")["last_epoch"], 2)

    def test_the_mean_loss_is_of_the_updates_that_are_known(self):
        checkpoint = self.copy()
        state = json.loads((checkpoint / "trainer_state.json").read_text())
        (checkpoint / "trainer_state.json").write_text(json.dumps({**state, "log_history": []}))
        self.lathe(checkpoint=checkpoint)
        losses = [e["loss"] for e in self.lines()]
        self.assertEqual(len(losses), 8)
        results = json.loads((self.out / "train_results.json").read_text())
        self.assertAlmostEqual(results["train_loss"], sum(losses) / 8, delta=1e-9)

    def test_other_settings_are_said(self):
        said = self.lathe("--learning_rate", "2e-3", "--per_device_train_batch_size", "8", "--adam_beta2", "0.9",
                          "--max_grad_norm", "2", "--seed", "43")
        for words in ("learning rate 0.001 there and 0.002 here", "epoch 0.6 there and 1.2 here", "beta2 0.999 there",
                      # what only training_args.bin knows
                      "max_grad_norm 1.0 there and 2.0 here", "seed 42 there and 43 here"):
            self.assertIn(words, said)


if __name__ == "__main__":
    unittest.main()
