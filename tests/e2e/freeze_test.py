#!/usr/bin/env python3
"""--freeze_base_model trains only the head: every weight of the base keeps its bits, and the checkpoint resumes."""
import json
import pathlib
import shutil
import struct
import tempfile
import unittest

import command_line as cl


def tensors(path):
    data = pathlib.Path(path).read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    return {k: data[8 + size + v["data_offsets"][0]:8 + size + v["data_offsets"][1]] for k, v in header.items()}


class Freeze(unittest.TestCase):
    def test_a_base_with_dropout_runs_every_epoch_and_says_so(self):
        line = "The base runs every epoch: its dropout is 0.1."
        for dropout, count in ((0.1, 1), (0.0, 0)):
            with self.subTest(dropout=dropout), tempfile.TemporaryDirectory() as temp:
                root = pathlib.Path(temp)
                shutil.copytree(cl.MODEL, root / "model")
                config = json.loads((root / "model" / "config.json").read_text())
                config["hidden_dropout_prob"] = dropout
                (root / "model" / "config.json").write_text(json.dumps(config))
                cl.write_csv(root / "train.csv", 48, 1)
                cl.write_csv(root / "dev.csv", 12, 2)
                result = cl.run(cl.glue_command(root / "out", root / "train.csv", root / "dev.csv",
                                                "--freeze_base_model", "--model_name_or_path", str(root / "model")))
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertEqual((result.stdout + result.stderr).count(line), count, result.stderr)

    def test_a_head_alone_has_a_rate_of_its_own(self):
        with tempfile.TemporaryDirectory() as temp:
            root = pathlib.Path(temp)
            cl.write_csv(root / "train.csv", 16, 1)
            for words, rate, said in ((["--freeze_base_model"], 0.02, 1), ([], 5e-5, 0),
                                      (["--freeze_base_model", "--learning_rate", "5e-5"], 5e-5, 0),
                                      (["--freeze_base_model", "--head_learning_rate", "0.5"], 0.5, 0)):
                result = cl.run([cl.program(), "glue", "--model_name_or_path", str(cl.MODEL), "--train_file",
                                 str(root / "train.csv"), "--do_train", "--lr_scheduler_type", "constant", "--logging_steps",
                                 "1", "--max_steps", "1", "--use_cpu", "--overwrite_output_dir", "--output_dir",
                                 str(root / "out"), *words])
                self.assertEqual(result.returncode, 0, result.stderr)
                state = json.loads((root / "out" / "trainer_state.json").read_text())
                self.assertEqual(state["log_history"][0]["learning_rate"], rate, words)
                self.assertEqual(result.stderr.count("the head learns with a learning rate of 0.02"), said, result.stderr)

    def test_values_of_the_configuration_are_saved_with_the_model(self):
        with tempfile.TemporaryDirectory() as temp:
            root = pathlib.Path(temp)
            cl.write_csv(root / "train.csv", 16, 1)
            command = [cl.program(), "glue", "--model_name_or_path", str(cl.MODEL), "--train_file", str(root / "train.csv"),
                       "--do_train", "--max_steps", "1", "--use_cpu", "--output_dir", str(root / "out"),
                       "--config_overrides"]
            result = cl.run([*command, "hidden_dropout_prob=0.25,classifier_dropout=0"])
            self.assertEqual(result.returncode, 0, result.stderr)
            config = json.loads((root / "out" / "config.json").read_text())
            self.assertEqual((config["hidden_dropout_prob"], config["classifier_dropout"]), (0.25, 0.0))
            wrong = cl.run([*command, "hidden_dropout=0", "--overwrite_output_dir"])
            self.assertEqual(wrong.returncode, 2, wrong.stderr)
            self.assertIn("found 'hidden_dropout', which is no setting of this model; did you mean hidden_dropout_prob?",
                          wrong.stderr)

    def test_only_the_head_changes(self):
        for more in ([], ["--bf16"], ["--fp16", "--load_best_model_at_end", "--eval_strategy", "steps", "--eval_steps", "5"]):
            with self.subTest(more=more):
                self.only_the_head_changes(more)

    def only_the_head_changes(self, more):
        with tempfile.TemporaryDirectory() as temp:
            root = pathlib.Path(temp)
            cl.write_csv(root / "train.csv", 48, 1)
            cl.write_csv(root / "dev.csv", 12, 2)
            command = cl.glue_command(root / "out", root / "train.csv", root / "dev.csv", "--freeze_base_model",
                                      "--save_steps", "5", *more)
            result = cl.run(command)
            self.assertEqual(result.returncode, 0, result.stderr)
            before, after = tensors(cl.MODEL / "model.safetensors"), tensors(root / "out" / "model.safetensors")
            changed = {name for name in before if before[name] != after[name]}
            self.assertEqual(changed, {"classifier.weight", "classifier.bias"})
            resumed = cl.run(command + ["--overwrite_output_dir", "--resume_from_checkpoint",
                                        str(root / "out" / "checkpoint-5")])
            self.assertEqual(resumed.returncode, 0, resumed.stderr)
            self.assertEqual(tensors(root / "out" / "model.safetensors"), after)


if __name__ == "__main__":
    unittest.main()
