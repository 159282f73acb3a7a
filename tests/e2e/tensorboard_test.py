#!/usr/bin/env python3
"""--report_to tensorboard: the events of a run, read back by this file's own reader (by
tensorboard's in tests/slow)."""
import glob
import json
import os
import pathlib
import re
import struct
import subprocess
import tempfile
import unittest

import command_line as cl


def events(path):
    """[(step, tag, value)] of the scalars; texts only with their tag.  Wire format of protocol buffers."""
    data, at, out = pathlib.Path(path).read_bytes(), 0, []
    while at < len(data):
        (length,) = struct.unpack("<Q", data[at:at + 8])
        event = dict(fields(data[at + 12:at + 12 + length]))
        at += 16 + length
        if 5 in event:
            value = dict(fields(dict(fields(event[5]))[1]))
            scalar = struct.unpack("<f", value[2])[0] if 2 in value else None
            out.append((event.get(2, 0), value[1].decode(), scalar))
    return out


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7f) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 0x80:
            return value, at


def fields(data):
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        else:
            size, at = {1: (8, at), 5: (4, at)}.get(key & 7) or varint(data, at)
            value, at = data[at:at + size], at + size
        yield key >> 3, value


class Runs(unittest.TestCase):
    def setUp(self):
        self.temp = tempfile.TemporaryDirectory()
        self.addCleanup(self.temp.cleanup)
        self.root = pathlib.Path(self.temp.name)
        cl.write_csv(self.root / "train.csv", 24, 1)
        cl.write_csv(self.root / "dev.csv", 8, 2)

    def run_lathe(self, *more, **keywords):
        out = self.root / "out"
        result = cl.run(cl.glue_command(out, self.root / "train.csv", self.root / "dev.csv", "--logging_steps", "2",
                                        "--eval_strategy", "epoch", "--overwrite_output_dir", *more), **keywords)
        self.assertEqual(result.returncode, 0, result.stderr)
        history = json.loads((out / "trainer_state.json").read_text())["log_history"]
        return out, history, result.stderr


class Events(Runs):
    def check(self, path, history):
        """The log history is what the scalars say, under the Trainer's tags, and comes before the last evaluation."""
        found = events(path)
        self.assertEqual([tag for _, tag, _ in found[:2]], ["args/text_summary", "model_config/text_summary"])
        wanted = [(entry["step"], key.replace("eval_", "eval/", 1) if key.startswith("eval_") else "train/" + key, value)
                  for entry in history for key, value in entry.items() if key != "step"]
        single = lambda x: struct.unpack("<f", struct.pack("<f", x))[0]
        self.assertEqual(sorted(found[2:2 + len(wanted)]), sorted((s, t, single(v)) for s, t, v in wanted))
        for tag in ("train/loss", "train/grad_norm", "train/learning_rate", "train/epoch", "eval/loss", "eval/accuracy",
                    "train/train_runtime"):
            self.assertIn(tag, [t for _, t, _ in found])

    def test_the_log_history_under_the_tags_of_the_trainer(self):
        out, history, _ = self.run_lathe("--report_to", "tensorboard")
        (path,) = glob.glob(f"{out}/runs/*/events.out.tfevents.*")
        self.assertRegex(path, r"/runs/[A-Z][a-z]{2}\d\d_\d\d-\d\d-\d\d_[^/]+/events\.out\.tfevents\.\d+\.[^/]+\.\d+\.0$")
        self.check(path, history)

    def test_what_is_printed_into_closed_streams_is_in_no_file(self):
        out = self.root / "closed"
        command = cl.glue_command(out, self.root / "train.csv", self.root / "dev.csv", "--logging_steps", "1",
                                  "--report_to", "tensorboard")
        self.assertEqual(subprocess.run(["sh", "-c", '"$@" <&- >&- 2>&-', "sh", *command]).returncode, 0)
        (path,) = glob.glob(f"{out}/runs/*/events.out.tfevents.*")
        self.check(path, json.loads((out / "trainer_state.json").read_text())["log_history"])

    def test_the_folder_is_that_of_the_flag_or_the_environment(self):
        for name, more, env in (("flag", ["--logging_dir", str(self.root / "flag")], {}),
                                ("environment", [], {"TENSORBOARD_LOGGING_DIR": str(self.root / "environment")})):
            _, history, _ = self.run_lathe("--report_to", "all", *more, env={**os.environ, **env})
            (path,) = glob.glob(f"{self.root}/{name}/events.out.tfevents.*")
            self.check(path, history)

    def test_nothing_is_written_unless_asked_for_and_an_error_does_not_end_the_run(self):
        out, _, _ = self.run_lathe()
        self.assertFalse((out / "runs").exists())
        (self.root / "file").write_text("")
        _, _, said = self.run_lathe("--report_to", "tensorboard", "--logging_dir", str(self.root / "file"))
        self.assertEqual(len(re.findall("TensorBoard events end here", said)), 1, said)


if __name__ == "__main__":
    unittest.main()
