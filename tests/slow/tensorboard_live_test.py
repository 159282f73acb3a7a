#!/usr/bin/env python3
"""The events of a run, read back by the real tensorboard.  Runs in $LATHE_HF_PYTHON (tools/setup.sh --full)."""
import glob
import json
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import command_line as cl

cl.need_transformers()
import tensorboard_test
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator


class Live(tensorboard_test.Runs):
    def test_tensorboard_reads_them(self):
        out, history, _ = self.run_lathe("--report_to", "tensorboard")
        reader = EventAccumulator(os.path.dirname(glob.glob(f"{out}/runs/*/events*")[0]))
        reader.Reload()
        losses = [(e["step"], e["loss"]) for e in history if "loss" in e]
        self.assertEqual([s.step for s in reader.Scalars("train/loss")], [step for step, _ in losses])
        for mine, (_, loss) in zip(reader.Scalars("train/loss"), losses):
            self.assertAlmostEqual(mine.value, loss, delta=1e-6)
        self.assertIn("args/text_summary", reader.Tags()["tensors"])
        text = reader.Tensors("args/text_summary")[0].tensor_proto.string_val[0]
        self.assertEqual(json.loads(text)["logging_steps"], 2)


if __name__ == "__main__":
    cl.main()
