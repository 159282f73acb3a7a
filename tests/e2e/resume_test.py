#!/usr/bin/env python3
"""A run that is killed at any moment and resumed ends in the same bits as one that never was; so do two runs with
different numbers of threads.  SIGTERM writes a checkpoint and says how to go on."""
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

import command_line as cl

# 3 × 24 updates, dropout as in the model.  Each checkpoint but the last stands between two lines of the log.
STEPS = ["--save_steps", "10", "--logging_steps", "9", "--seed", "7"]
MODEL_DROPOUT = 0.1
UNIT = 2.0 ** -24  # half the distance of fp32 numbers near 1
# A row of a packed batch is computed by itself, so its loss has the same bits in any batch; the mean of 8 of them takes 7
# additions and a division, in either run.  A gradient is a sum over at most 8 * 32 tokens, in another order in the other
# run; its rounding errors are of either sign and grow as the root of the number of terms.
LOSS_ROUNDING = 2 * 8 * UNIT
NORM_ROUNDING = 2 * (8 * 32) ** 0.5 * UNIT
RUNTIME_KEYS = ("_runtime", "_per_second")


def model_with_dropout(folder):
    """The golden model with dropout, so that its masks have to be the same after a resume."""
    folder.mkdir()
    for name in os.listdir(cl.MODEL):
        if name.startswith(("config", "model", "tokenizer", "vocab")):
            (folder / name).write_bytes((cl.MODEL / name).read_bytes())
    config = json.loads((folder / "config.json").read_text())
    config["hidden_dropout_prob"] = config["attention_probs_dropout_prob"] = MODEL_DROPOUT
    config["classifier_dropout"] = MODEL_DROPOUT
    (folder / "config.json").write_text(json.dumps(config))


def history(folder):
    entries = json.loads((folder / "trainer_state.json").read_text())["log_history"]
    return [{k: v for k, v in e.items() if not k.endswith(RUNTIME_KEYS)} for e in entries]


class Resume(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temp = tempfile.TemporaryDirectory()
        cls.root = pathlib.Path(cls.temp.name)
        model_with_dropout(cls.root / "model")
        cl.write_csv(cls.root / "train.csv", 192, 1)
        cl.write_csv(cls.root / "dev.csv", 30, 2)
        started = time.monotonic()
        cls.reference = cls.root / "reference"
        result = cl.run(cls.command(cls.reference))
        cls.seconds = time.monotonic() - started
        assert result.returncode == 0, result.stderr
        cls.weights = (cls.reference / "model.safetensors").read_bytes()

    @classmethod
    def tearDownClass(cls):
        cls.temp.cleanup()

    @classmethod
    def command(cls, folder, *more):
        command = cl.glue_command(folder, cls.root / "train.csv", cls.root / "dev.csv", *STEPS, *more)
        command[command.index(str(cl.MODEL))] = str(cls.root / "model")
        return command

    def check_same(self, folder):
        self.assertEqual((folder / "model.safetensors").read_bytes(), self.weights)
        self.assertEqual(history(folder), history(self.reference))

    def test_two_runs_and_any_number_of_threads_give_the_same_bits(self):
        for threads in ("1", "2", "3"):
            folder = self.root / f"threads{threads}"
            result = cl.run(self.command(folder, "--threads", threads))
            self.assertEqual(result.returncode, 0, result.stderr)
            self.check_same(folder)

    def test_killed_at_random_moments_and_resumed_it_ends_in_the_same_bits(self):
        draw = random.Random(3)
        for moment in range(20):
            folder = self.root / f"killed{moment}"
            process = subprocess.Popen(self.command(folder), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(draw.uniform(0.0, self.seconds))
            process.kill()
            process.wait()
            whole = [n for n in os.listdir(folder) if n.startswith("checkpoint-")] if folder.exists() else []
            for name in whole:  # whatever bears the name of a checkpoint is one
                self.assertTrue((folder / name / "lathe_state.safetensors").exists(), name)
            more = [] if whole else ["--overwrite_output_dir"]
            result = cl.run(self.command(folder, *more))
            self.assertEqual(result.returncode, 0, result.stderr)
            if whole:
                self.assertIn("going on from", result.stderr)
            self.check_same(folder)
            self.assertFalse([n for n in os.listdir(folder) if n.startswith(".tmp-")])

    def test_a_second_run_keeps_out_of_a_folder_that_is_trained_into(self):
        folder = self.root / "shared"
        first = subprocess.Popen(self.command(folder), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while not (folder / "run.json").exists():
            self.assertIsNone(first.poll())
            time.sleep(0.005)
        first.send_signal(signal.SIGSTOP)
        for more in ([], ["--overwrite_output_dir"]):
            result = cl.run(self.command(folder, *more))
            self.assertEqual(result.returncode, 2)
            self.assertIn(f"holds {folder} (flock)", result.stderr)
        first.send_signal(signal.SIGCONT)
        self.assertEqual(first.wait(), 0)
        self.check_same(folder)

    def test_a_run_goes_on_from_the_last_checkpoint_that_has_what_it_takes(self):
        folder = self.root / "model_only"
        self.assertEqual(cl.run(self.command(folder)).returncode, 0)
        *others, last = sorted(folder.glob("checkpoint-*"), key=lambda path: int(path.name.split("-")[1]))
        for name in ("lathe_state.safetensors", "optimizer.pt"):  # as --save_only_model leaves them out
            (last / name).unlink()
        result = cl.run(self.command(folder))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(f"going on from {others[-1]}", result.stderr)
        self.assertIn(f"{last}: found no optimizer's state, which --save_only_model leaves out", result.stderr)
        self.check_same(folder)
        for path in folder.glob("checkpoint-*"):
            for name in ("lathe_state.safetensors", "optimizer.pt"):
                (path / name).unlink()
        result = cl.run(self.command(folder))
        self.assertEqual(result.returncode, 2)
        self.assertIn("is not empty; give --overwrite_output_dir", result.stderr)
        for word in ("true", "True"):
            result = cl.run(self.command(folder, "--resume_from_checkpoint", word))
            self.assertEqual(result.returncode, 1)
            self.assertIn(f"{last.name} is of --save_only_model, without the optimizer's state: a new run begins with its "
                          f"weights by --model_name_or_path {last}", result.stderr)

    def test_a_checkpoint_that_is_not_whole_is_refused_and_the_one_before_it_gives_the_same_bits(self):
        folder = self.root / "damaged"
        shutil.copytree(self.reference, folder)
        last, before = folder / "checkpoint-72", folder / "checkpoint-70"
        damaged = bytearray((last / "optimizer.pt").read_bytes())
        damaged[len(damaged) // 2] ^= 4
        (last / "optimizer.pt").write_bytes(damaged)
        result = cl.run(self.command(folder))
        self.assertEqual(result.returncode, 1)
        self.assertIn(f"{last}/optimizer.pt: found other bytes than were written: the checkpoint is damaged, or was edited. The "
                      f"last whole one before it is {before}: --resume_from_checkpoint {before}", result.stderr)
        result = cl.run(self.command(folder, "--resume_from_checkpoint", str(before)))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertNotIn("keeps no digests", result.stderr)
        self.check_same(folder)

    def test_ignoring_the_data_seen_begins_the_epoch_anew(self):
        """With a learning rate of 0 and no dropout a loss is a function only of the samples of its update.  Each epoch
        has 24 batches: four groups of five and a short one of four."""
        still = ["--gradient_accumulation_steps", "5", "--learning_rate", "0", "--logging_steps", "1"]

        def losses(folder, *more):
            command = self.command(folder, *still, *more)
            command[command.index(str(self.root / "model"))] = str(cl.MODEL)
            result = cl.run(command)
            self.assertEqual(result.returncode, 0, result.stderr)
            return [{k: e[k] for k in ("loss", "epoch")} for e in history(folder) if "grad_norm" in e]

        whole = losses(self.root / "still", "--save_steps", "7")
        self.assertEqual(len(whole), 15)
        again = losses(self.root / "again", "--ignore_data_skip", "--resume_from_checkpoint",
                       str(self.root / "still" / "checkpoint-7"))
        # update 8 is the first of the second epoch again, as in transformers' Trainer
        self.assertEqual(again, whole[:7] + whole[5:13])

    def test_a_found_batch_size_is_that_of_the_checkpoint_from_the_banner_on(self):
        result = cl.run(self.command(self.root / "found", "--save_strategy", "no", "--auto_find_batch_size",
                                     "--per_device_train_batch_size", "4", "--gradient_accumulation_steps", "2",
                                     "--resume_from_checkpoint", str(self.reference / "checkpoint-60")))
        self.assertEqual(result.returncode, 0, result.stderr)
        for line in ("takes 8, accumulated 1 times", "Instantaneous batch size per device = 8",
                     "Gradient Accumulation steps = 1"):
            self.assertIn(line, result.stderr)
        self.assertEqual(history(self.root / "found"), history(self.reference))

    def test_resuming_another_run_says_what_differs(self):
        checkpoint = self.reference / "checkpoint-60"
        for more, words in ((["--seed", "8"], ["  data seed 7 there and 8 here", "  seed 7 there and 8 here", "dropout"]),
                            (["--seed", "8", "--data_seed", "7"], ["  seed 7 there and 8 here", "dropout"]),
                            (["--data_seed", "9"], ["  data seed 7 there and 9 here (another order"]),
                            (["--per_device_train_batch_size", "16"], ["updates per epoch 24 there and 12 here"]),
                            ([], [])):
            result = cl.run(self.command(self.root / "other", "--overwrite_output_dir", "--save_strategy", "no",
                                         "--resume_from_checkpoint", str(checkpoint), *more))
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual("not as the one that was stopped" in result.stderr, bool(more), result.stderr)
            for word in words:
                self.assertIn(word, result.stderr)

    def test_resuming_with_other_data_says_so(self):
        rows = (self.root / "train.csv").read_text().splitlines()
        other = self.root / "other.csv"
        other.write_text("\n".join([*rows[:-2], rows[-1], rows[-2]]) + "\n")
        result = cl.run(self.command(self.root / "other", "--overwrite_output_dir", "--train_file", str(other), "--save_strategy",
                                     "no", "--resume_from_checkpoint", str(self.reference / "checkpoint-60")))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stderr, r"training data: found .*train.csv\b.* \(192 samples with the checksum [0-9a-f]{16}\), "
                                        r"this run has .*other.csv\b.* \(192 samples .*\) \(it goes on with other samples")

    def test_what_a_kill_leaves_is_never_taken_for_a_model_or_a_checkpoint(self):
        folder = self.root / "leftovers"
        self.assertEqual(cl.run(self.command(folder)).returncode, 0)

        def outputs():
            predicted = cl.run([cl.program(), "predict", str(folder), "who is in the ship", "what turns"])
            evaluate = self.command(folder, "--overwrite_output_dir")
            evaluate.remove("--do_train")
            evaluate[evaluate.index(str(self.root / "model"))] = str(folder)
            evaluated = cl.run(evaluate)
            for result in (predicted, evaluated):
                self.assertEqual(result.returncode, 0, result.stderr)
            results = json.loads((folder / "eval_results.json").read_text())
            return predicted.stdout, {k: v for k, v in results.items() if not k.endswith(RUNTIME_KEYS)}

        wanted = outputs()
        gone = subprocess.Popen([cl.program(), "--version"], stdout=subprocess.DEVNULL)
        gone.wait()
        names = (f".tmp-checkpoint-90-{gone.pid}-0", ".tmp-checkpoint-90", "checkpoint-90.tmp")
        for name in names:  # half of a checkpoint under a name of a later step
            (folder / name).mkdir()
            (folder / name / "config.json").write_text("{")
            (folder / name / "model.safetensors").write_bytes(self.weights[:1000])
        (folder / f".tmp-lathe-{gone.pid}").write_text("")  # it was killed before its note was whole
        for name in (f".tmp-{n}-{gone.pid}-1" for n in ("model.safetensors", "config.json", "tokenizer.json")):
            (folder / name).write_bytes(self.weights[:100])
        self.assertEqual(outputs(), wanted)
        result = cl.run(self.command(folder, "--resume_from_checkpoint", "true", "--overwrite_output_dir"))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.check_same(folder)
        mine = {".tmp-checkpoint-90", "checkpoint-90.tmp"}  # of no process
        self.assertEqual({n for n in os.listdir(folder) if ".tmp" in n}, mine)

    def test_sigterm_writes_a_checkpoint_and_says_how_to_go_on(self):
        folder = self.root / "stopped"
        process = subprocess.Popen(self.command(folder, "--num_train_epochs", "2000"), stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE, text=True)
        while not (folder / "checkpoint-10").exists():
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        _, stderr = process.communicate(timeout=60)
        self.assertEqual(process.returncode, -signal.SIGTERM)
        self.assertIn("--resume_from_checkpoint", stderr)
        checkpoint = pathlib.Path(stderr.rsplit("--resume_from_checkpoint ", 1)[1].split()[0])
        self.assertTrue((checkpoint / "lathe_state.safetensors").exists())

    def test_accumulation_of_four_times_two_equals_eight(self):
        """Same samples and dropout masks: only the order of fp32 sums differs.  The learning rate is 0, so that all 72
        updates are compared at the same weights: AdamW divides by the gradient's size and would make of a difference in
        the last bit of a tiny gradient one of the size of the learning rate."""
        logs = []
        for name, batch, accumulation in (("whole", "8", "1"), ("accumulated", "2", "4")):
            result = cl.run(self.command(self.root / name, "--per_device_train_batch_size", batch, "--logging_steps", "1",
                                         "--gradient_accumulation_steps", accumulation, "--learning_rate", "0"))
            self.assertEqual(result.returncode, 0, result.stderr)
            logs.append([e for e in history(self.root / name) if "grad_norm" in e])
        self.assertEqual([len(log) for log in logs], [72, 72])
        for wanted, mine in zip(*logs):
            self.assertEqual(mine["epoch"], wanted["epoch"])
            self.assertAlmostEqual(mine["loss"], wanted["loss"], delta=LOSS_ROUNDING * wanted["loss"])
            self.assertAlmostEqual(mine["grad_norm"], wanted["grad_norm"], delta=NORM_ROUNDING * wanted["grad_norm"])


if __name__ == "__main__":
    unittest.main()
