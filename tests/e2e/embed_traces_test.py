#!/usr/bin/env python3
"""Twenty updates of SentenceTransformerTrainer by each loss with a tiny random model, fp32, dropout 0: the losses to 5e-6 (of
those above 1, which have as many digits, of their size), gradient norms to 1e-5, what the evaluators find to 2e-5, and
vectors, which have gone through 20 steps of Adam, to 1e-4. $LATHE_TEST_DEVICE names another device than the CPU and MLX.
Golden files: tests/golden/README.md."""
import json
import os
import shutil

import command_line as cl
from command_line import GOLDEN, CommandsCase, read
from resume_test import history

EMBED, MLM = GOLDEN.parent / "embed", GOLDEN.parent / "mlm"
DEVICES = [os.environ["LATHE_TEST_DEVICE"]] if "LATHE_TEST_DEVICE" in os.environ else ["cpu", "mlx"]


class Traces(CommandsCase):
    def model(self, case, trace):
        modules = EMBED / f"{case}_modules"
        if not modules.exists():
            return MLM / trace["family"], trace["flags"]
        folder = self.root / f"{case}_model"
        if not folder.exists():
            shutil.copytree(MLM / trace["family"], folder)
            shutil.copytree(modules, folder, dirs_exist_ok=True)
        return folder, trace["flags"]

    def check(self, case, device):
        trace, out = read(EMBED / f"{case}.json"), self.root / f"{case}_{device}"
        model, flags = self.model(case, trace)
        table = EMBED / f"{trace['table']}_train.csv"
        words = [cl.program(), "embed", "--model_name_or_path", str(model), "--train_file", str(table),
                 "--validation_file", str(table).replace("_train", "_dev"), "--do_train", "--do_eval", "--output_dir", str(out),
                 "--max_steps", "20", "--per_device_train_batch_size", "4", "--per_device_eval_batch_size", "3",
                 "--learning_rate", "1e-3", "--adam_epsilon", "1e-5", "--weight_decay", "0.01", "--logging_steps", "1",
                 "--save_strategy", "no", "--device", device,
                 *(word for name, value in flags.items() for word in (f"--{name}", value))]
        if not (EMBED / f"{case}_modules").exists():
            words += ["--max_seq_length", "20"]
        self.works(words)
        entries = [entry for entry in history(out) if "grad_norm" in entry]
        self.assertEqual(len(entries), 20)
        for step, (entry, loss, norm) in enumerate(zip(entries, trace["losses"], trace["grad_norms"], strict=True)):
            self.assertAlmostEqual(entry["loss"], loss, delta=5e-6 * max(1, loss), msg=f"{case} loss {step}")
            self.assertAlmostEqual(entry["grad_norm"], norm, delta=max(1e-5 * norm, 2e-6), msg=f"{case} norm {step}")
        results = read(out / "eval_results.json")
        for key, value in trace["evaluation"].items():
            self.assertAlmostEqual(results[key], value, delta=2e-5, msg=f"{case} {key}")
        if "prompts" in flags:
            return
        with open(str(table).replace("_train", "_dev")) as file:
            texts = [line.split(",")[0] for line in file.read().splitlines()[1:5]]
        found = self.lathe("encode", out, *texts, "--device", device).stdout.splitlines()
        for mine, theirs in zip(map(json.loads, found), trace["vectors"], strict=True):
            for a, b in zip(mine["embedding"], theirs, strict=True):
                self.assertAlmostEqual(a, b, delta=1e-4, msg=f"{case} vectors")

    def test_losses_norms_evaluations_and_vectors_are_the_trainers(self):
        there = self.works([cl.program(), "doctor"]).stdout
        for device in DEVICES:
            if device == "mlx" and "[GOOD] device mlx" not in there:
                continue
            for path in sorted(EMBED.glob("*.json")):
                with self.subTest(device=device, case=path.stem):
                    self.check(path.stem, device)


if __name__ == "__main__":
    cl.main()
