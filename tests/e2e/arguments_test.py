#!/usr/bin/env python3
"""What the Trainer's flags do to a run: schedules that follow a metric, early stopping, optimizers, label smoothing,
samplers, counts of tokens, memory."""
import json
import pathlib
import tempfile
import unittest

import command_line as cl


class Arguments(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temp = tempfile.TemporaryDirectory()
        cls.root = pathlib.Path(cls.temp.name)
        cl.write_csv(cls.root / "train.csv", 96, 1)
        cl.write_csv(cls.root / "dev.csv", 33, 2)

    @classmethod
    def tearDownClass(cls):
        cls.temp.cleanup()

    def train(self, name, *more, code=0):
        folder = self.root / name
        command = cl.glue_command(folder, self.root / "train.csv", self.root / "dev.csv", *more)
        result = cl.run(command)
        self.assertEqual(result.returncode, code, result.stderr)
        if code:
            return result.stderr
        self.said = result.stdout + result.stderr
        return json.loads((folder / "trainer_state.json").read_text())

    def entries(self, state, key):
        return [entry for entry in state["log_history"] if key in entry]

    def test_the_rate_follows_the_metric_and_goes_on_from_a_checkpoint(self):
        """With a learning rate of 0 the loss stands still: every evaluation beyond the patience lowers the rate."""
        more = ["--lr_scheduler_type", "reduce_lr_on_plateau", "--lr_scheduler_kwargs",
                '{"patience": 0, "factor": 0.5, "eps": 0, "threshold": 10, "threshold_mode": "abs"}', "--eval_strategy", "steps",
                "--eval_steps", "6", "--logging_steps", "6", "--save_strategy", "steps", "--save_steps", "18"]
        state = self.train("plateau", *more)
        rates = [entry["learning_rate"] for entry in self.entries(state, "learning_rate")]
        self.assertEqual(rates, [1e-3, 1e-3, 5e-4, 2.5e-4, 1.25e-4, 6.25e-5])
        resumed = self.train("plateau2", *more, "--resume_from_checkpoint", str(self.root / "plateau" / "checkpoint-18"))
        self.assertEqual([e for e in self.entries(resumed, "loss")], self.entries(state, "loss"))

    def test_a_run_stops_early_and_counts_on_after_a_break(self):
        more = ["--eval_strategy", "steps", "--eval_steps", "3", "--save_strategy", "steps", "--save_steps", "3",
                "--early_stopping_patience", "3", "--load_best_model_at_end", "--early_stopping_threshold", "100"]
        state = self.train("early", *more)
        self.assertEqual(state["global_step"], 12)  # the first evaluation is the best, three are not better
        self.assertIn("stopping early after step 12", self.said)
        counter = state["stateful_callbacks"]["EarlyStoppingCallback"]["attributes"]
        self.assertEqual(counter, {"early_stopping_patience_counter": 3})
        steps = self.entries(state, "train_runtime")[-1]
        self.assertAlmostEqual(steps["train_steps_per_second"] * steps["train_runtime"], 12, delta=0.1)
        resumed = self.train("early2", *more, "--resume_from_checkpoint", str(self.root / "early" / "checkpoint-6"))
        self.assertEqual(resumed["global_step"], 12)
        self.assertIn("--early_stopping_patience", self.train("early3", "--early_stopping_patience", "1", code=2))

    def test_save_strategy_best_keeps_what_improved(self):
        state = self.train("best", "--eval_strategy", "epoch", "--save_strategy", "best", "--save_total_limit", "1")
        kept = sorted(p.name for p in (self.root / "best").glob("checkpoint-*"))
        self.assertEqual(kept, [pathlib.Path(state["best_model_checkpoint"]).name])

    def test_every_optimizer_learns_and_goes_on_with_the_same_bits(self):
        for optim, more in (("sgd", ["--learning_rate", "0.2", "--optim_args", "momentum=0.9"]),
                            ("sgd", ["--learning_rate", "0.5", "--gradient_accumulation_steps", "2"]),
                            ("adafactor", ["--learning_rate", "1e-2", "--weight_decay", "0.01"])):
            name = f"{optim}{len(more)}{more[-1]}"
            settings = ["--optim", optim, *more, "--logging_steps", "1", "--save_steps", "5", "--num_train_epochs", "6"]
            state = self.train(name, *settings)
            losses = [entry["loss"] for entry in self.entries(state, "loss")]
            self.assertLess(sum(losses[-5:]) / 5, 0.9 * losses[0], name)
            self.train(name + "again", *settings, "--resume_from_checkpoint", str(self.root / name / "checkpoint-10"))
            self.assertEqual((self.root / name / "model.safetensors").read_bytes(),
                             (self.root / (name + "again") / "model.safetensors").read_bytes())
        error = self.train("other", "--resume_from_checkpoint", str(self.root / name / "checkpoint-10"), code=1)
        self.assertIn("written by the optimizer adafactor, this run's is adamw; resume with the same --optim", error)

    def test_smoothed_labels_raise_the_loss_of_training_and_evaluation(self):
        """Of untrained scores, which are near one another, smoothing changes little; of trained ones much."""
        plain = self.train("plain", "--eval_strategy", "epoch", "--logging_strategy", "epoch", "--num_train_epochs", "8")
        smooth = self.train("smooth", "--eval_strategy", "epoch", "--logging_strategy", "epoch", "--num_train_epochs",
                            "8", "--label_smoothing_factor", "0.3")
        for key in ("loss", "eval_loss"):
            self.assertGreater(self.entries(smooth, key)[-1][key], self.entries(plain, key)[-1][key] + 0.1)

    def test_every_order_of_the_samples_trains(self):
        for strategy in ("random", "sequential", "group_by_length", "batch_rebalance"):
            state = self.train(strategy, "--train_sampling_strategy", strategy, "--gradient_accumulation_steps", "3",
                               "--num_train_epochs", "1")
            self.assertEqual(state["global_step"], 4)

    def test_tokens_are_counted_and_timed(self):
        counts = {}
        for how in ("no", "all", "non_padding"):
            state = self.train(how, "--include_num_input_tokens_seen", how, "--logging_steps", "12", "--num_train_epochs", "1")
            counts[how] = state["num_input_tokens_seen"]
            entry = self.entries(state, "loss")[0]
            self.assertEqual("train_tokens_per_second" in entry, how != "no")
            self.assertEqual(entry.get("num_input_tokens_seen", 0), counts[how])
        self.assertEqual(counts["no"], 0)
        self.assertEqual(counts["all"], 96 * 32)  # --max_seq_length 32, to which every row is padded
        self.assertTrue(96 * 3 < counts["non_padding"] < counts["all"])

    def test_memory_is_measured_when_asked_for(self):
        self.train("memory", "--skip_memory_metrics", "false", "--max_steps", "2")
        results = json.loads((self.root / "memory" / "all_results.json").read_text())
        for key in ("init_mem_cpu_alloc_delta", "train_mem_cpu_alloc_delta", "train_mem_cpu_peaked_delta",
                    "eval_mem_cpu_alloc_delta"):
            self.assertIsInstance(results[key], int)
        self.assertGreater(results["train_mem_cpu_alloc_delta"] + results["train_mem_cpu_peaked_delta"], 0)

    def test_settings_that_this_run_cannot_have(self):
        for more, words in ((["--label_names", "start_positions"], "it reads labels"),
                            (["--threads", "100000"], "found 100000, expected at least 0 and at most 4096"),
                            (["--num_train_epochs", "0"], "leaves out --do_train"),
                            (["--optim", "lion_32bit"], "'lion_32bit' is not there yet"),
                            (["--accelerator_config", '{"split": true}'], "expected split_batches"),
                            (["--per_device_train_batch_size", "1000000000", "--gradient_accumulation_steps", "3"],
                             "samples per update")):
            self.assertIn(words, self.train("wrong", *more, code=2))
        self.train("right", "--label_names", "labels", "--accelerator_config", '{"split_batches": true}',
                   "--dataloader_num_workers", "2", "--dataloader_prefetch_factor", "4", "--max_steps", "2",
                   "--auto_find_batch_size", "--per_device_train_batch_size", "1000000000", "--bf16_full_eval", "--eval_delay", "1")


if __name__ == "__main__":
    cl.main()
