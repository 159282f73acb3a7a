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

    def test_only_the_head_changes(self):
        with tempfile.TemporaryDirectory() as temp:
            root = pathlib.Path(temp)
            cl.write_csv(root / "train.csv", 48, 1)
            cl.write_csv(root / "dev.csv", 12, 2)
            command = cl.glue_command(root / "out", root / "train.csv", root / "dev.csv", "--freeze_base_model",
                                      "--save_steps", "5")
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
