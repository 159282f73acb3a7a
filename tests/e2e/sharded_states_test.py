#!/usr/bin/env python3
"""--zero_stage 1: the same bits in logs, weights and checkpoints as without, with any other flag; a run goes
on with it and without it, and with another number of processes; a rank that dies leaves a whole checkpoint."""
import json
import os
import signal
import subprocess
import time
import unittest

import command_line as cl
from ranks import RanksCase, children_of, has_part, without_mpi, mpirun
from resume_test import history

FILES = ("model.safetensors", "optimizer.pt", "scheduler.pt", "lathe_state.safetensors")
SHARDED = ("--zero_stage", "1")


def content_of(path):
    """All bytes, but of what Lathe keeps the digests of other files: they hold times and the arguments."""
    content = path.read_bytes()
    if path.name != "lathe_state.safetensors":
        return content
    metadata = json.loads(content[8:])["__metadata__"]
    return {key: value for key, value in metadata.items() if key not in ("files", "sha256")}


class ShardedStates(RanksCase):
    def outcome(self, name, step=24):
        """The log, and the files of a checkpoint that hold weights and states."""
        folder = self.root / name / f"checkpoint-{step}"
        return history(self.root / name), {f: content_of(folder / f) for f in FILES if (folder / f).exists()}

    def check_alike(self, ranks, name, *more, **keywords):
        more = ("--num_train_epochs", "2", "--save_steps", "12", "--weight_decay", "0.1", "--max_grad_norm", "0.5", *more)
        outcomes = []
        for stage, run in (("0", "plain"), ("1", "sharded")):
            self.run_ranks(ranks, f"{name}_{run}", "--zero_stage", stage, *more, **keywords)
            outcomes.append(self.outcome(f"{name}_{run}"))
        (log, files), (sharded_log, sharded_files) = outcomes
        self.assertEqual(sharded_log, log)
        self.assertGreater(len([e for e in log if "loss" in e]), 20)
        self.check_files(files, sharded_files, name)
        return sharded_files

    def check_files(self, wanted, found, name):
        self.assertEqual(sorted(found), sorted(wanted))
        for file in wanted:
            self.assertTrue(found[file] == wanted[file], f"{name}: {file} has other bytes")

    def test_same_bits_with_any_number_of_processes(self):
        for ranks in (1, 2, 4):
            self.assertIn("optimizer.pt", self.check_alike(ranks, f"ranks{ranks}"))

    def test_same_bits_with_bf16_and_with_fp16(self):
        """Where weights are read from packed copies."""
        self.check_alike(2, "bf16", "--bf16")
        self.check_alike(4, "fp16", "--fp16")

    def test_same_bits_with_accumulation(self):
        self.check_alike(2, "accumulated", "--bf16", accumulation=2)

    def test_same_bits_with_gradient_descent(self):
        self.assertIn("optimizer.pt", self.check_alike(2, "sgd", "--optim", "sgd"))
        self.check_alike(4, "momentum", "--optim", "sgd", "--optim_args", "momentum=0.9", "--learning_rate", "0.01")

    def test_same_bits_of_a_head_alone(self):
        self.check_alike(2, "head", "--freeze_base_model", "true")

    def test_same_bits_over_every_transport(self):
        by_ring = self.check_alike(2, "ring", "--ddp_backend", "ring")
        if has_part("gloo"):
            self.check_alike(2, "gloo", "--ddp_backend", "gloo")
        if not without_mpi():
            self.check_files(by_ring, self.check_alike(2, "mpi", launch=mpirun), "mpi compared with the ring")

    def test_a_run_goes_on_with_it_and_without_it(self):
        options = ("--num_train_epochs", "2", "--save_steps", "12", "--bf16", "--lr_scheduler_type", "constant")
        self.run_ranks(2, "whole", *options)
        _, wanted = self.outcome("whole")
        for first, second in (("0", "1"), ("1", "0"), ("1", "1")):
            name = f"from{first}to{second}"
            self.run_ranks(2, name, "--zero_stage", first, "--max_steps", "12", *options)
            _, result = self.run_ranks(2, name, "--zero_stage", second, *options)
            self.assertIn("going on from", result.stderr)
            self.check_files(wanted, self.outcome(name)[1], name)

    def test_a_run_goes_on_with_another_number_of_processes(self):
        still = ("--learning_rate", "0", "--save_steps", "12", *SHARDED)
        wanted, _ = self.run_ranks(1, "alone", *still)
        for first, second in ((4, 2), (2, 1), (1, 4)):
            name = f"from{first}to{second}"
            self.run_ranks(first, name, "--max_steps", "12", *still)
            mine, result = self.run_ranks(second, name, *still)
            self.assertIn("going on from", result.stderr)
            self.check_same(wanted, mine)

    def test_a_rank_that_is_killed_leaves_a_whole_checkpoint(self):
        for victim in (0, 1):
            name = f"killed{victim}"
            run = subprocess.Popen(self.command(2, name, "--num_train_epochs", "400", "--save_steps", "20",
                                                "--save_total_limit", "3", *SHARDED),
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            self.await_checkpoint(name, run)
            os.kill(children_of(run.pid)[victim], signal.SIGKILL)
            begin = time.monotonic()
            _, stderr = run.communicate(timeout=60)
            self.assertLess(time.monotonic() - begin, 30)
            self.assertIn(f"rank {victim} ended by signal 9 (Killed); last whole checkpoint: ", stderr)
            self.check_goes_on(name)

    def test_a_checkpoint_that_cannot_be_written_ends_all_ranks(self):
        """The others give the first what it writes, and must not wait for it to ask on."""
        command = self.command(2, "full", "--save_steps", "4", *SHARDED)
        weights = (self.root / "model" / "model.safetensors").stat().st_size
        limited = subprocess.run(["bash", "-c", 'ulimit -f "$1"; shift; exec "$@"', "-", str(weights * 3 // 2 // 1024), *command],
                                 capture_output=True, text=True, timeout=100)
        self.assertEqual(limited.returncode, 1, limited.stderr)
        self.assertIn("optimizer.pt", limited.stderr)

    def test_what_it_cannot_do_is_said(self):
        for more, told in ((("--zero_stage", "2"), "--zero_stage"), ((*SHARDED, "--optim", "adafactor"), "adafactor"),
                           (("--deepspeed", "{}"), "--zero_stage 1"), (("--fsdp", "shard_grad_op"), "--zero_stage 1")):
            result = cl.run(self.command(2, "refused", *more))
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn(told, result.stderr)


if __name__ == "__main__":
    unittest.main()
