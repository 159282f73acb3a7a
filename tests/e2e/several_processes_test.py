#!/usr/bin/env python3
"""Several processes train as one: the same losses and metrics; one that dies ends the run with its name and a whole
checkpoint; a run continues with another number of processes; Ctrl-C stops all of them after one checkpoint."""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import unittest

import command_line as cl
from ranks import RanksCase, children_of, has_part, lathe_launch
from resume_test import history, model_with_dropout


class SeveralProcesses(RanksCase):
    def test_two_and_four_processes_give_the_losses_of_one(self):
        """At learning rate 0 all updates are compared at the same weights: see resume_test.py."""
        still = ("--learning_rate", "0", "--eval_strategy", "epoch", "--save_strategy", "no")
        wanted, _ = self.run_ranks(1, "one", *still)
        self.assertEqual(len(wanted), 36 + 3 + 1)
        for ranks in (2, 4):
            self.check_same(wanted, self.run_ranks(ranks, f"still{ranks}", *still)[0])
        self.check_same(wanted, self.run_ranks(4, "ring", *still, "--ddp_backend", "ring")[0])
        self.check_same(wanted, self.run_ranks(2, "buckets", *still, "--ddp_bucket_cap_mb", "1")[0])
        self.check_same(wanted, self.run_ranks(2, "accumulated", *still, accumulation=4)[0])

    def test_every_family(self):
        """The golden models of the other families, with BERT's tokenizer, dropout, and word embeddings of its vocabulary."""
        still = ("--learning_rate", "0", "--save_strategy", "no", "--max_seq_length", "20", "--num_train_epochs", "1")
        for family in ("roberta", "xlm_roberta", "distilbert", "electra", "modernbert"):
            with self.subTest(family):
                folder = self.root / family
                model_with_dropout(folder)
                source = cl.ROOT / "tests" / "golden" / f"tiny_{family}" / "classification"
                config = json.loads((source / "config.json").read_text())
                config.update({key: 0.1 for key in config if "dropout" in key}, vocab_size=115)
                (folder / "config.json").write_text(json.dumps(config))
                (folder / "model.safetensors").write_bytes((source / "model.safetensors").read_bytes())
                runs = []
                for ranks in (1, 2):
                    command = self.command(ranks, f"{family}{ranks}", *still)
                    command[command.index(str(self.root / "model"))] = str(folder)
                    result = cl.run(command)
                    self.assertEqual(result.returncode, 0, result.stderr)
                    runs.append(history(self.root / f"{family}{ranks}"))
                self.check_same(*runs)

    def test_training_goes_as_with_one_process(self):
        """Losses of a run that learns: rounding differences grow through AdamW, but not to 1e-4 in 36 updates."""
        losses = []
        for ranks in (1, 2, 4):
            log, result = self.run_ranks(ranks, f"trained{ranks}", "--save_strategy", "no")
            losses.append([e["loss"] for e in log if "loss" in e])
            self.assertEqual(result.stdout.count("'eval_accuracy'"), 1, "rank 0 alone prints")
            self.assertEqual(result.stdout.count("***** train metrics *****"), 1)
        for mine in losses[1:]:
            for a, b in zip(losses[0][:3], mine[:3]):
                self.assertAlmostEqual(a, b, delta=1e-6)
            for a, b in zip(losses[0], mine):
                self.assertAlmostEqual(a, b, delta=1e-4)

    def test_evaluation_and_prediction_are_those_of_one_process(self):
        outputs = []
        for ranks in (1, 2, 4):
            name = f"predicted{ranks}"
            command = self.command(ranks, name, "--do_predict", "--test_file", str(self.root / "dev.csv"),
                                   "--save_strategy", "no")
            command.remove("--do_train")
            result = cl.run(command)
            self.assertEqual(result.returncode, 0, result.stderr)
            results = json.loads((self.root / name / "eval_results.json").read_text())
            steps = results["eval_steps_per_second"] / results["eval_samples_per_second"] * 45  # of 8 texts for each process
            self.assertAlmostEqual(steps, -(-45 // (8 * ranks)), delta=0.1)
            predictions = (self.root / name / "predict_results_None.txt").read_text()
            outputs.append(({k: v for k, v in results.items() if not k.endswith(("_runtime", "_per_second"))},
                            predictions))
        self.assertEqual(outputs[0][1].count("\n"), 46)
        self.assertEqual(outputs[1], outputs[0])  # a batch of an evaluation is computed by itself: the same bits
        self.assertEqual(outputs[2], outputs[0])

    def test_the_report_counts_the_tokens_of_all(self):
        self.run_ranks(2, "reported", "--report_to", "html", "--logging_steps", "36", "--save_strategy", "no",
                       "--include_num_input_tokens_seen", "non_padding")
        page = (self.root / "reported" / "report.html").read_text()
        log = json.loads((self.root / "reported" / "trainer_state.json").read_text())["log_history"]
        tick = re.search(r'aria-label="tokens per second.*?<text[^>]*>([\d.]+)(k?)<', page, re.DOTALL)
        self.assertAlmostEqual(float(tick[1]) * (1000 if tick[2] else 1) / log[0]["train_tokens_per_second"], 1, delta=0.25)

    def start_long(self, name, *more, ranks=2):
        process = subprocess.Popen(self.command(ranks, name, "--num_train_epochs", "5000", "--save_steps", "10",
                                                "--save_total_limit", "3", *more),
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.await_checkpoint(name, process)
        return process

    def test_a_rank_that_is_killed_ends_the_run_with_its_name_and_a_whole_checkpoint(self):
        for victim, transport in ((0, "gloo"), (1, "gloo"), (2, "gloo"), (2, "ring")):
            name = f"killed{victim}{transport}"
            process = self.start_long(name, "--ddp_backend", transport, ranks=max(2, victim + 1))
            ranks = children_of(process.pid)
            os.kill(ranks[victim], signal.SIGKILL)
            begin = time.monotonic()
            _, stderr = process.communicate(timeout=60)
            self.assertLess(time.monotonic() - begin, 30)
            self.assertEqual(process.returncode, 128 + signal.SIGKILL, stderr)
            last = re.search(rf"error: rank {victim} ended by signal 9 \(Killed\); last whole checkpoint: (\S+)", stderr)
            self.assertTrue(last, stderr)
            self.assertIn(f"rank {victim} is gone", stderr)
            for rank in ranks:
                self.assertFalse(pathlib.Path(f"/proc/{rank}").exists(), f"process {rank} still runs")
            self.assertTrue((pathlib.Path(last[1]) / "lathe_state.safetensors").exists())
            step = int(last[1].rsplit("-", 1)[1])
            goes_on, result = self.run_ranks(1, name, "--max_steps", str(step + 2))
            self.assertIn(f"going on from {last[1]}", result.stderr)
            self.assertEqual([e["step"] for e in goes_on if "loss" in e][-1], step + 2)

    def test_a_run_goes_on_with_another_number_of_processes(self):
        still = ("--learning_rate", "0", "--save_steps", "12", "--save_total_limit", "9")
        wanted, _ = self.run_ranks(1, "whole", *still)
        for first, second in ((2, 1), (1, 4), (4, 2)):
            name = f"from{first}to{second}"
            self.run_ranks(first, name, *still)
            for step in (24, 36):  # as if it had been stopped after update 12
                for path in sorted((self.root / name / f"checkpoint-{step}").iterdir()):
                    path.unlink()
                (self.root / name / f"checkpoint-{step}").rmdir()
            mine, result = self.run_ranks(second, name, *still)
            self.assertIn("going on from", result.stderr)
            self.assertNotIn("not as the one that was stopped", result.stderr)
            self.check_same(wanted, mine)

    def test_ctrl_c_stops_all_behind_one_checkpoint(self):
        for send in (signal.SIGINT, signal.SIGTERM):
            process = self.start_long(f"stopped{send}")
            process.send_signal(send)
            _, stderr = process.communicate(timeout=60)
            self.assertEqual(process.returncode, -send, stderr)
            self.assertNotIn("is gone", stderr)
            self.assertNotIn("ended", stderr)
            folders = re.findall(r"(?:--resume_from_checkpoint|its checkpoint is) (\S+)", stderr)
            self.assertEqual((len(folders), len(set(folders))), (2, 1), stderr)  # every rank names the same one
            self.assertTrue((pathlib.Path(folders[0]) / "lathe_state.safetensors").exists())

    def test_a_signal_to_one_rank_stops_all(self):
        process = self.start_long("one_asked")
        os.kill(children_of(process.pid)[1], signal.SIGTERM)
        _, stderr = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 128 + signal.SIGTERM, stderr)
        self.assertIn("error: rank 1 ended by signal 15 (Terminated); last whole checkpoint: ", stderr)
        self.assertEqual(len(re.findall(r"interrupted after step \d+", stderr)), 2, stderr)
        self.assertEqual(len(set(re.findall(r"interrupted after step \d+", stderr))), 1, stderr)

    def test_ranks_that_do_another_run_say_so(self):
        environment = {**os.environ, "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29871"}
        processes = [subprocess.Popen(self.command(1, "unlike", "--learning_rate", rate), stdout=subprocess.DEVNULL,
                                      stderr=subprocess.PIPE, text=True, env={**environment, "RANK": rank})
                     for rank, rate in (("0", "1e-3"), ("1", "2e-3"))]
        for process in processes:
            _, stderr = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 2, stderr)
            self.assertIn("--learning_rate: rank 0 has 0.001, rank 1 has 0.002", stderr)

    def test_what_is_the_same_for_all_is_said_once(self):
        train = self.root / "gaps.csv"
        train.write_text((self.root / "train.csv").read_text() + ",person\n")
        command = self.command(2, "gaps", "--max_seq_length", "4000", "--train_file", str(train), "--max_steps", "2",
                               "--logging_strategy", "no", "--ignore_mismatched_sizes")
        result = cl.run(command)
        self.assertEqual(result.returncode, 0, result.stderr)
        for words in ("cells without text: 1", "--max_seq_length 4000 is more than the model takes"):
            self.assertEqual(result.stderr.count(words), 1, result.stderr)
        self.assertNotIn("[rank 1]", result.stderr)
        result = cl.run([*command, "--max_steps", "3", "--seed", "8"])  # continues from another run's checkpoint
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stderr.count("not as the one that was stopped"), 1, result.stderr)
        self.assertNotIn("[rank 1]", result.stderr)

    def test_a_run_that_only_evaluates_has_no_checkpoint_to_tell_of(self):
        command = self.command(2, "only")
        command.remove("--do_train")
        command[command.index(str(self.root / "dev.csv"))] = "none.csv"
        result = cl.run(command)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertRegex(result.stderr, r"error: rank \d ended with exit code 1\n")

    def test_what_only_shows_something_starts_nothing(self):
        for flag in ("--help", "--print_config"):
            command = self.command(1, "shown", flag)
            alone, several = cl.run(command), cl.run(lathe_launch(2, command))
            self.assertEqual((several.stdout, several.stderr, several.returncode), (alone.stdout, alone.stderr, 0))
            self.assertTrue(several.stdout)
        self.assertFalse((self.root / "shown").exists())

    def test_the_launcher_says_what_it_wants(self):
        for words, text in ((["launch"], "expected -n, --hosts or --hostfile and a command"), (["launch", "-n", "2", "info"], "expected one of glue, classify, qa"),
                            (["launch", "-n", "0", "glue"], "at least 1"), (["launch", "-m", "2"], "-m: unknown flag"),
                            (["launch", "-"], "-: unknown flag"),
                            (["launch", "-n", "2000000000", "glue"], "expected at most 4096"),
                            (["launch", "-n", "2", "--master_port", "65536", "glue"], "--master_port: found 65536, expected at least 1 and at most 65535"),
                            (["launch", "--hosts", "a:2000000000,b:2000000000", "glue"], "expected at most 4096")):
            result = cl.run([cl.program(), *words])
            self.assertEqual(result.returncode, 2, words)
            self.assertIn(text, result.stderr)


if __name__ == "__main__":
    if not has_part("gloo"):
        print("skipped: built without Gloo (Debian, Ubuntu: libgloo-dev)")
        sys.exit(77)
    unittest.main()
