#!/usr/bin/env python3
"""Ranks that are told different things: before anything else is exchanged every one of them ends, and says what differs."""
import json
import os
import pathlib
import subprocess
import unittest

import command_line as cl
from ranks import ROWS, RanksCase, free_port, has_part
from ranks_options_test import write_squad

EVALUATE = ("--do_eval",)
TRAIN = ("--do_train", "--per_device_train_batch_size", str(ROWS // 2), "--max_steps", "2", "--save_strategy", "no")


def has_avx2():
    try:
        return " avx2 " in pathlib.Path("/proc/cpuinfo").read_text()
    except OSError:
        return False


class UnlikeRanks(RanksCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        rows = (cls.root / "train.csv").read_text().splitlines()
        cls.other_file("labels.csv", [rows[0], rows[1].replace("person", "thing"), *rows[2:]])
        cls.other_file("texts.csv", [*rows[:-1], "red " + rows[-1]])
        cls.other_file("same.csv", rows)
        model = cls.root / "other_model"
        model.mkdir()
        for path in (cls.root / "model").iterdir():
            (model / path.name).write_bytes(path.read_bytes())
        weights = bytearray((model / "model.safetensors").read_bytes())
        weights[-4 * 1000] ^= 1
        (model / "model.safetensors").write_bytes(weights)
        config = json.loads((cls.root / "model" / "config.json").read_text())
        (cls.root / "other_config").mkdir()
        (cls.root / "other_config" / "config.json").write_text(json.dumps({**config, "hidden_dropout_prob": 0.2}))
        write_squad(cls.root / "squad.json", 21, 1)
        answers = json.loads((cls.root / "squad.json").read_text())
        answers["data"][0]["paragraphs"][3]["qas"][0]["answers"][0]["text"] = "no such answer"
        (cls.root / "squad_answers.json").write_text(json.dumps(answers))

    @classmethod
    def other_file(cls, name, rows):
        (cls.root / name).write_text("\n".join(rows) + "\n")

    def glue(self, *more):
        return [cl.program(), "glue", "--model_name_or_path", str(self.root / "model"), "--train_file",
                str(self.root / "train.csv"), "--validation_file", str(self.root / "dev.csv"), "--test_file",
                str(self.root / "dev.csv"), "--max_seq_length", "32", "--use_cpu", "--ignore_mismatched_sizes", *more]

    def qa(self, *more):
        return [cl.program(), "qa", "--model_name_or_path", str(self.root / "model"), "--validation_file",
                str(self.root / "squad.json"), "--max_seq_length", "32", "--doc_stride", "8", "--use_cpu", "--do_eval", *more]

    def start(self, *commands):
        """One rank for each; what it says, and its exit code."""
        environment = {**os.environ, "WORLD_SIZE": str(len(commands)), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
        out = ["--output_dir", str(self.root / self.id())]
        ranks = [subprocess.Popen([*words, *out], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                  env={**environment, "RANK": str(rank)}) for rank, words in enumerate(commands)]
        try:
            return [(rank.communicate(timeout=60)[1], rank.returncode) for rank in ranks]
        finally:
            for rank in ranks:
                rank.kill()

    def check(self, command, more, *wanted):
        """The second rank, which gets more words, and the first both end with an error that says all that is wanted."""
        for said, code in self.start(command, [*command, *more]):
            self.assertEqual(code, 2, (more, said))
            self.assertIn("all ranks must do the same run", said)
            for text in wanted:
                self.assertIn(text, said)

    def test_flags_of_training(self):
        train = self.glue(*TRAIN)
        self.check(train, ["--max_seq_length", "16"], "--max_seq_length: rank 0 has 32, rank 1 has 16")
        self.check(train, ["--auto_find_batch_size"], "--auto_find_batch_size: rank 0 has false, rank 1 has true")
        self.check(train, ["--max_grad_norm", "2"], "--max_grad_norm: rank 0 has 1.0, rank 1 has 2.0")
        self.check(train, ["--do_predict"], "--do_predict: rank 0 has false, rank 1 has true")

    def test_flags_without_training(self):
        evaluate = self.glue(*EVALUATE)
        self.check(evaluate, ["--per_device_eval_batch_size", "5"],
                   "--per_device_eval_batch_size: rank 0 has 8, rank 1 has 5")
        self.check(evaluate, ["--max_eval_samples", "3"], "--max_eval_samples: rank 0 has none, rank 1 has 3")
        self.check(evaluate, ["--bf16"], "--bf16: rank 0 has false, rank 1 has true")
        self.check(evaluate, ["--max_seq_length", "16"], "--max_seq_length: rank 0 has 32, rank 1 has 16")
        self.check(evaluate, ["--do_predict"], "--do_predict: rank 0 has false, rank 1 has true")
        self.check(evaluate, ["--device", "auto", "--use_cpu", "false"], "--device: rank 0 has cpu, rank 1 has auto")

    def test_flags_of_questions(self):
        self.check(self.qa(), ["--n_best_size", "1"], "--n_best_size: rank 0 has 20, rank 1 has 1")
        self.check(self.qa(), ["--version_2_with_negative"], "--version_2_with_negative: rank 0 has false, rank 1 has true")

    def test_data(self):
        train = self.glue(*TRAIN)
        for name in ("labels.csv", "texts.csv"):
            self.check(train, ["--train_file", str(self.root / name)], "training data: rank 0 has 192 samples with the checksum",
                       "rank 1 has 192 samples with the checksum")
        file = self.root / "labels.csv"
        for command, flag, data in ((train + ["--do_eval"], "--validation_file", "validation data: rank 0 has 45 samples"),
                                    (self.glue(*EVALUATE), "--validation_file", "validation data: rank 0 has 45 samples"),
                                    (self.glue("--do_predict"), "--test_file", "test data: rank 0 has 45 samples")):
            self.check(command, [flag, str(file)], data, "rank 1 has 192 samples")

    def test_answers(self):
        """They are not part of the tokens, but of the scores that decide how a run continues."""
        self.check(self.qa(), ["--validation_file", str(self.root / "squad_answers.json")],
                   "validation questions: rank 0 has the checksum", "rank 1 has")

    def test_model(self):
        for command in (self.glue(*TRAIN), self.glue(*TRAIN, "--freeze_base_model"), self.glue(*EVALUATE),
                        self.glue("--do_predict")):
            self.check(command, ["--model_name_or_path", str(self.root / "other_model")], "weights: rank 0 has the checksum",
                       "rank 1 has")
            self.check(command, ["--config_name", str(self.root / "other_config")],
                       "config.json, hidden_dropout_prob: rank 0 has 0.1, rank 1 has 0.2")

    @unittest.skipUnless(has_avx2(), "this processor has one level of instructions")
    def test_processors(self):
        """Each rank updates its weights by itself: other roundings would take them apart."""
        for command in (self.glue(*TRAIN), self.glue(*EVALUATE)):
            for said, code in self.start(command, ["env", "LATHE_ISA=portable", *command]):
                self.assertEqual(code, 2, said)
                self.assertRegex(said, r"instructions \(LATHE_ISA=avx2, say, makes them alike\): rank 0 has \w+, rank 1 has portable: all ranks must")

    def test_what_is_a_ranks_own(self):
        """Paths to the same files, and the messages of a rank other than the first, may differ between ranks."""
        for said, code in self.start(self.glue(*TRAIN, "--do_eval"), self.glue(
                *TRAIN, "--do_eval", "--train_file", str(self.root / "same.csv"), "--log_level_replica", "info", "--threads", "1",
                "--disable_tqdm")):
            self.assertEqual(code, 0, said)

    def test_what_ranks_beside_the_first_say(self):
        """What is the same for all is said once, or by all where they are asked for more than warnings."""
        def messages(said):
            return [line for line in said.splitlines() if line.startswith("[")]
        train = self.glue(*TRAIN, "--do_eval", "--threads", "1", "--max_seq_length", "9999", "--overwrite_output_dir")
        for level, all_say in (("warning", False), ("info", True)):
            (first, code), (second, other) = self.start(train, [*train, "--log_level_replica", level])
            self.assertEqual((code, other), (0, 0), first + second)
            for text in ("[WARNING] --max_seq_length", "Running training", "Running Evaluation"):
                self.assertIn(text, first)
            self.assertEqual(messages(second), messages(first) if all_say else [])

    @unittest.skipUnless(has_part("gloo"), "built without Gloo (Debian, Ubuntu: libgloo-dev)")
    def test_transports(self):
        for names in (("ring", "gloo"), ("gloo", "ring"), ("ring", "gloo", "ring"), ("ring", "ring", "gloo")):
            other = 1 if names[1] != names[0] else 2
            for said, code in self.start(*(self.glue(*EVALUATE, "--ddp_backend", name) for name in names)):
                self.assertEqual(code, 2, said)
                self.assertIn(f"--ddp_backend: rank 0 has {names[0]}, rank {other} has {names[other]}", said)

    def test_more_than_two(self):
        for more, wanted in ((["--seed", "3"], "--seed: rank 0 has 42, rank 2 has 3"),
                             (["--train_file", str(self.root / "labels.csv")], "training data: rank 0 has 192 samples")):
            train = self.glue(*TRAIN)
            for said, code in self.start(train, train, [*train, *more], train):
                self.assertEqual(code, 2, said)
                self.assertIn(wanted, said)

    def test_ports_that_are_none(self):
        for port in ("0", "65536", "70000", "-1"):
            result = cl.run(self.glue(*EVALUATE, "--output_dir", str(self.root / "port")),
                            env={**os.environ, "WORLD_SIZE": "2", "RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port})
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn(f"MASTER_PORT: found {port}, expected", result.stderr)


if __name__ == "__main__":
    cl.main()
