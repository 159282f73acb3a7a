#!/usr/bin/env python3
"""Runs of lathe swag that go on, that train only a part, and that several processes share: the same bits where other tasks
have them."""
import csv
import subprocess
import time

import command_line as cl
from command_line import GOLDEN, read
from freeze_test import tensors
from ranks import LOSS_ROUNDING, lathe_launch
from resume_test import history
from swag_test import SwagCase, rows, write_csv

DROPOUT = ("--config_overrides", "hidden_dropout_prob=0.1,attention_probs_dropout_prob=0.1,classifier_dropout=0.1")
STEPS = ("--save_steps", "7", "--logging_steps", "3", "--num_train_epochs", "3")


class SwagRuns(SwagCase):
    def setUp(self):
        super().setUp()
        write_csv(self.train, rows(64, 3, most=6))  # batches differ in rows, too
        write_csv(self.dev, rows(21, 4, most=6))

    def check_same(self, folder, wanted):
        self.assertEqual(self.weights(folder), self.weights(wanted))
        self.assertEqual(history(folder), history(wanted))

    def test_killed_and_started_again_it_ends_in_the_same_bits(self):
        for more in ((), ("--group_by_length", "--gradient_accumulation_steps", "2")):
            whole = self.root / f"whole{len(more)}"
            self.works(self.swag(whole, *STEPS, *DROPOUT, *more))
            last = max(int(path.name.split("-")[1]) for path in whole.glob("checkpoint-*"))
            for moment in sorted({7, last - last % 7}):
                folder = self.root / f"killed{moment}of{len(more)}"
                process = subprocess.Popen(self.swag(folder, *STEPS, *DROPOUT, *more), stdout=subprocess.DEVNULL,
                                           stderr=subprocess.DEVNULL)
                while not (folder / f"checkpoint-{moment}").exists() and process.poll() is None:
                    time.sleep(0.005)
                process.kill()
                process.wait()
                self.assertIn("going on from", self.works(self.swag(folder, *STEPS, *DROPOUT, *more)).stderr)
                self.check_same(folder, whole)

    def test_any_number_of_threads_gives_the_same_bits(self):
        for threads in ("1", "3"):
            self.works(self.swag(self.root / threads, *STEPS, *DROPOUT, "--threads", threads))
        self.check_same(self.root / "3", self.root / "1")

    def test_of_a_frozen_base_only_the_classifier_changes(self):
        """The dropout of the base is 0, so its rows are kept from epoch to epoch."""
        command = lambda folder, *more: self.swag(folder, *STEPS, "--freeze_base_model", "--ignore_mismatched_sizes",
                                                  "--config_overrides", "classifier_dropout=0.1", *more,
                                                  model=GOLDEN / "classification")
        result = self.works(command(self.out))
        self.assertNotIn("The base runs every epoch", result.stderr)
        before, after = (tensors(folder / "model.safetensors") for folder in (GOLDEN / "classification", self.out))
        self.assertEqual({name for name in after if before.get(name) != after[name]}, {"classifier.weight", "classifier.bias"})
        again = self.root / "again"
        self.works(command(again, "--resume_from_checkpoint", str(self.out / "checkpoint-7")))
        self.check_same(again, self.out)

    def test_an_adapter_goes_on_and_chooses_the_same_once_it_is_merged(self):
        command = lambda folder, *more: self.swag(folder, *STEPS, "--use_peft", "--lora_r", "4", "--lora_dropout", "0.1",
                                                  "--lora_target_modules", "all-linear", "--ignore_mismatched_sizes",
                                                  "--learning_rate", "2e-2", *more, model=GOLDEN / "classification")
        self.works(command(self.out))
        said = read(self.out / "adapter_config.json")
        self.assertEqual((said["task_type"], said["modules_to_save"]), (None, ["classifier", "score"]))
        again, merged = self.root / "again", self.root / "merged"
        self.works(command(again, "--resume_from_checkpoint", str(self.out / "checkpoint-14")))
        saved = [(folder / "adapter_model.safetensors").read_bytes() for folder in (self.out, again)]
        self.assertEqual(saved[0], saved[1])
        self.lathe("merge", self.out, "--output_dir", merged)
        found, wanted = (self.lathe("predict", folder, "--file", self.dev).stdout for folder in (merged, self.out))
        labels = lambda table: [row["predicted_label"] for row in csv.DictReader(table.splitlines())]
        self.assertEqual(labels(found), labels(wanted))

    def test_two_processes_give_the_losses_of_one(self):
        """At learning rate 0 all updates are compared at the same weights: see resume_test.py."""
        still = (*DROPOUT, "--learning_rate", "0", "--logging_steps", "1", "--save_strategy", "no", "--num_train_epochs", "1")
        self.works(self.swag(self.root / "one", *still))
        two = lathe_launch(2, self.swag(self.root / "two", *still, "--per_device_train_batch_size", "4"))
        self.assertEqual(self.works(two).stdout.count("***** train metrics *****"), 1)
        losses = lambda name: [entry["loss"] for entry in history(self.root / name) if "loss" in entry]
        self.assertEqual(len(losses("one")), 8)
        for mine, theirs in zip(losses("two"), losses("one"), strict=True):
            self.assertAlmostEqual(mine, theirs, delta=LOSS_ROUNDING * theirs)

    def test_two_processes_score_predict_and_go_on_as_one(self):
        command = lambda folder, *more: self.swag(folder, *STEPS, *DROPOUT, "--per_device_train_batch_size", "4", *more)
        trained, again = self.root / "trained", self.root / "again"
        self.works(lathe_launch(2, command(trained)))
        self.works(lathe_launch(2, command(again, "--resume_from_checkpoint", str(trained / "checkpoint-7"))))
        self.check_same(again, trained)
        said = []
        for folder, launch in ((self.root / "one", list), (self.root / "two", lambda words: lathe_launch(2, words))):
            words = self.swag(folder, "--do_predict", "--test_file", str(self.dev), model=trained)
            words.remove("--do_train")
            self.works(launch(words))
            results = {key: value for key, value in read(folder / "all_results.json").items()
                       if not key.endswith(("_runtime", "_per_second"))}
            said.append((results, (folder / "predict_results.txt").read_text()))
        self.assertEqual(said[0], said[1])  # a batch of an evaluation is computed by itself: the same bits
        self.assertEqual(said[0][1].count("\n"), 22)


if __name__ == "__main__":
    cl.main()
