#!/usr/bin/env python3
"""The device on MLX from the command line: a run that is killed and resumed ends in the same bits, the CPU stands in for
missing ops, and a program without the module starts and says what to do."""
import os
import pathlib
import platform
import re
import shutil
import subprocess
import tempfile
import time
import unittest

import command_line as cl
import resume_test as resume
import swag_test
from ranks import LOSS_ROUNDING, NORM_ROUNDING

DEVICE = "mps" if platform.system() == "Darwin" else "mlx"


def doctor(**variables):
    return subprocess.run([cl.program(), "doctor"], capture_output=True, text=True, env={**os.environ, **variables}).stdout


class Mlx(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temp = tempfile.TemporaryDirectory()
        cls.root = pathlib.Path(cls.temp.name)
        resume.model_with_dropout(cls.root / "model")
        cl.write_csv(cls.root / "train.csv", 96, 1)
        cl.write_csv(cls.root / "dev.csv", 30, 2)

    @classmethod
    def tearDownClass(cls):
        cls.temp.cleanup()

    def setUp(self):
        if f"[GOOD] device {DEVICE}:" not in doctor():
            self.skipTest(f"device {DEVICE} is not here (make MLX=1)")

    def command(self, folder, *more):
        command = cl.glue_command(folder, self.root / "train.csv", self.root / "dev.csv", *resume.STEPS, *more)
        command[command.index(str(cl.MODEL))] = str(self.root / "model")
        place = command.index("--use_cpu")
        return command[:place] + ["--device", DEVICE] + command[place + 1:]

    def train(self, name, *more, **variables):
        folder = self.root / name
        result = cl.run(self.command(folder, *more), env={**os.environ, **variables})
        self.assertEqual(result.returncode, 0, result.stderr)
        return folder, result.stderr

    def check_same(self, folder, wanted):
        self.assertEqual((folder / "model.safetensors").read_bytes(), (wanted / "model.safetensors").read_bytes())
        self.assertEqual(resume.history(folder), resume.history(wanted))

    def test_killed_and_resumed_it_ends_in_the_same_bits(self):
        whole, _ = self.train("whole")
        for moment in (10, 20):
            folder = self.root / f"killed{moment}"
            process = subprocess.Popen(self.command(folder), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            while not (folder / f"checkpoint-{moment}").exists() and process.poll() is None:
                time.sleep(0.005)
            process.kill()
            process.wait()
            _, said = self.train(folder.name)
            self.assertIn("going on from", said)
            self.check_same(folder, whole)

    def test_choices_train_as_on_the_cpu_and_go_on(self):
        """Samples of several rows."""
        train, dev = self.root / "choices.csv", self.root / "choices_dev.csv"
        swag_test.write_csv(train, swag_test.rows(48, 1, most=6))
        swag_test.write_csv(dev, swag_test.rows(9, 2, most=6))
        def run(name, device, *more):
            command = [cl.program(), "swag", "--model_name_or_path", str(cl.GOLDEN / "masked_lm"), "--train_file", str(train),
                       "--validation_file", str(dev), "--do_train", "--do_eval", "--per_device_train_batch_size", "8",
                       "--learning_rate", "1e-3", "--num_train_epochs", "2", "--logging_steps", "1", "--save_steps", "5",
                       "--config_overrides", "hidden_dropout_prob=0.1", "--output_dir", str(self.root / name), "--device", device]
            result = cl.run([*command, *more])
            self.assertEqual(result.returncode, 0, result.stderr)
            return self.root / name
        here, there = run("choices_here", DEVICE), run("choices_there", "cpu")
        self.assertEqual(len(resume.history(here)), 12 + 1)
        for found, wanted in zip(resume.history(here), resume.history(there), strict=True):
            for key in ("loss", "grad_norm", "eval_loss"):
                if key in wanted:
                    self.assertAlmostEqual(found[key], wanted[key], delta=1e-4 * wanted[key])
        again = run("choices_again", DEVICE, "--resume_from_checkpoint", str(here / "checkpoint-5"))
        self.check_same(again, here)

    def test_the_loss_is_the_cpus_with_dropout(self):
        here, _ = self.train("here", "--max_steps", "10")
        command = self.command(self.root / "there", "--max_steps", "10")
        command[command.index(DEVICE)] = "cpu"
        self.assertEqual(cl.run(command).returncode, 0)
        for found, wanted in zip(resume.history(here), resume.history(self.root / "there")):
            for key in ("loss", "grad_norm", "eval_loss"):
                if key in wanted:
                    self.assertAlmostEqual(found[key], wanted[key], delta=1e-4 * wanted[key])

    def test_missing_ops_run_on_the_cpu_where_a_switch_allows_it(self):
        _, said = self.train("parted", "--max_steps", "5", LATHE_MLX_MASK="attention,adamw", LATHE_MPS_FALLBACK="1")
        self.assertEqual(said.count("runs on the CPU"), 2, said)
        result = cl.run(self.command(self.root / "refused"), env={**os.environ, "LATHE_MLX_MASK": "attention,adamw"})
        self.assertEqual(result.returncode, 1)
        for part in ("attention(", "adamw(", "LATHE_MPS_FALLBACK=1"):
            self.assertIn(part, result.stderr)

    def test_predict_and_bench_tell_which_ops_run_on_the_cpu(self):
        parted = {**os.environ, "LATHE_MLX_MASK": "attention", "LATHE_MPS_FALLBACK": "1"}
        told = f"device {DEVICE} has no implementation of attention: it runs on the CPU"
        result = cl.run([cl.program(), "predict", str(cl.MODEL), "who", "--device", DEVICE], env=parted)
        self.assertEqual((result.returncode, result.stderr.count(told)), (0, 1), result.stderr)
        result = cl.run([cl.program(), "bench", "infer", "--model", str(cl.MODEL), "--device", DEVICE, "--batch", "1",
                         "--steps", "1", "--dtype", "fp32"], env=parted)
        self.assertEqual((result.returncode, result.stdout.count(told)), (0, 1), result.stdout + result.stderr)

    def test_a_misspelt_choice_of_own_kernels_ends_a_run(self):
        wrong = {**os.environ, "LATHE_MPS_KERNELS": "nome"}
        result = cl.run([cl.program(), "predict", str(cl.MODEL), "who", "--device", DEVICE], env=wrong)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("error: LATHE_MPS_KERNELS: found 'nome', expected all or none", result.stderr)
        self.assertRegex(doctor(**wrong), rf"\[GOOD\] device {DEVICE}: .*no runs: LATHE_MPS_KERNELS: found 'nome'")
        result = cl.run([cl.program(), "doctor", "--self-test", "--device", DEVICE], env=wrong)
        self.assertEqual(result.returncode, 2, result.stderr)

    def test_every_op_runs_on_the_cpu_within_its_bound_over_arrays_of_mlx(self):
        ops = pathlib.Path(cl.program()).parent / "lathe-ops"
        def passed(**variables):
            result = subprocess.run([ops, "test", "-b", DEVICE], capture_output=True, text=True,
                                    env={**os.environ, **variables})
            self.assertEqual(result.returncode, 0, result.stdout)
            return int(re.search(r"(\d+) passed, 0 failed", result.stdout)[1])
        own = passed()
        self.assertGreater(passed(LATHE_MPS_FALLBACK="1"), 1.9 * own)  # all but views and what is fused twice

    def test_a_wrong_share_of_memory_ends_a_run_and_takes_no_other_device(self):
        wrong = {"PYTORCH_MPS_HIGH_WATERMARK_RATIO": "much"}
        result = cl.run(self.command(self.root / "wrong"), env={**os.environ, **wrong})
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("error: PYTORCH_MPS_HIGH_WATERMARK_RATIO: found 'much'", result.stderr)
        said = doctor(**wrong)
        self.assertRegex(said, rf"\[GOOD\] device {DEVICE}: .*no runs: PYTORCH_MPS_HIGH_WATERMARK_RATIO: found 'much'")

    def test_two_and_four_processes_give_the_losses_of_one(self):
        """On the ring, at learning rate 0, so that all updates are compared at the same weights; bounds as there."""
        def run(ranks):
            command = self.command(self.root / f"ranks{ranks}", "--max_steps", "6", "--learning_rate", "0",
                                   "--per_device_train_batch_size", str(16 // ranks), "--save_strategy", "no",
                                   "--logging_steps", "1")
            if ranks > 1:
                command = [command[0], "launch", "-n", str(ranks), *command[1:], "--ddp_backend", "ring"]
            result = cl.run(command)
            self.assertEqual(result.returncode, 0, result.stderr)
            return resume.history(self.root / f"ranks{ranks}")
        wanted = run(1)
        self.assertEqual(len([e for e in wanted if "grad_norm" in e]), 6)
        for ranks in (2, 4):
            for a, b in zip(wanted, run(ranks)):
                self.assertEqual(sorted(a), sorted(b))
                for key in a:
                    bound = NORM_ROUNDING if key == "grad_norm" else LOSS_ROUNDING
                    if key == "grad_norm" or "loss" in key:
                        self.assertAlmostEqual(b[key], a[key], delta=bound * a[key], msg=f"{ranks} ranks, {a}")

    def test_sharded_states_leave_the_bits_as_they_are(self):
        logs, files = [], []
        for stage in ("0", "1"):
            folder = self.root / f"stage{stage}"
            command = self.command(folder, "--max_steps", "6", "--save_steps", "6", "--logging_steps", "1", "--zero_stage",
                                   stage)
            result = cl.run([command[0], "launch", "-n", "3", *command[1:], "--ddp_backend", "ring"])
            self.assertEqual(result.returncode, 0, result.stderr)
            logs.append(resume.history(folder))
            files.append([(folder / "checkpoint-6" / name).read_bytes() for name in ("model.safetensors", "optimizer.pt")])
        self.assertEqual(len([e for e in logs[0] if "grad_norm" in e]), 6)
        self.assertEqual(logs[1], logs[0])
        self.assertTrue(files[1] == files[0], "weights or moments have other bytes")


class WithoutMlx(unittest.TestCase):
    def test_a_program_without_the_module_starts_and_says_what_to_do(self):
        with tempfile.TemporaryDirectory() as folder:
            alone = shutil.copy(cl.program(), pathlib.Path(folder) / "lathe")
            said = subprocess.run([alone, "doctor"], capture_output=True, text=True).stdout
        self.assertIn("make MLX=1", said)
        self.assertIn("[GOOD] device cpu", said)

    def test_a_named_module_that_is_not_there_is_told(self):
        said = doctor(LATHE_MLX_MODULE="/nowhere/lathe_mlx.so")
        self.assertIn("LATHE_MLX_MODULE: found '/nowhere/lathe_mlx.so', which does not exist", said)

    def test_a_module_that_is_none_is_told(self):
        with tempfile.TemporaryDirectory() as folder:
            wrong = pathlib.Path(folder) / "lathe_mlx.so"
            wrong.write_bytes(b"no library")
            self.assertIn("does not load", doctor(LATHE_MLX_MODULE=str(wrong)))

    def test_a_module_of_another_build_is_told_and_not_loaded(self):
        module = pathlib.Path(cl.program()).parent / "lathe_mlx.so"
        if not module.exists():
            self.skipTest("lathe_mlx.so is not built (make MLX=1)")
        mine = module.read_bytes()
        entry = re.search(rb"lathe_mlx_module_([0-9a-f]{16})\0", mine)[1]
        with tempfile.TemporaryDirectory() as folder:
            other = pathlib.Path(folder) / "lathe_mlx.so"
            for bits, wanted in ((mine, "[GOOD] device " + DEVICE), (mine.replace(entry, entry[::-1]), "of another build")):
                other.write_bytes(bits)
                said = doctor(LATHE_MLX_MODULE=str(other))
                self.assertIn(wanted, said)
                self.assertEqual("[GOOD] device " + DEVICE in said, bits == mine)

    @unittest.skipIf(platform.system() == "Darwin", "a changed library is not signed")
    def test_another_version_of_mlx_is_told(self):
        module = pathlib.Path(cl.program()).parent / "lathe_mlx.so"
        if not module.exists():
            self.skipTest("lathe_mlx.so is not built (make MLX=1)")
        needed = subprocess.run(["ldd", module], capture_output=True, text=True).stdout
        libraries = dict(re.findall(r"(\S+) => (/\S+)", needed))
        version = re.search(r"device mlx: MLX (\d+\.\d+\.\d+)", doctor())[1]
        with tempfile.TemporaryDirectory() as folder:
            found = "9" + version[1:]
            (pathlib.Path(folder) / "libmlx.so").write_bytes(
                pathlib.Path(libraries["libmlx.so"]).read_bytes().replace(f"\0{version}\0".encode(), f"\0{found}\0".encode()))
            search = os.pathsep.join([folder, *{os.path.dirname(path) for path in libraries.values()}])
            self.assertIn(f"found MLX {found}, expected {version}", doctor(LD_LIBRARY_PATH=search))
            lacking = pathlib.Path(folder) / "lathe_mlx.so"
            lacking.write_bytes(module.read_bytes().replace(b"_ZN3mlx4core6arange", b"_ZN3mlx4core6brange"))
            said = doctor(LATHE_MLX_MODULE=str(lacking))
            self.assertIn("built for another version of MLX", said)
            self.assertNotIn("glibc", said)

    @unittest.skipIf(platform.system() == "Darwin", "a Mac has mps")
    def test_mps_wants_a_mac(self):
        result = cl.run([cl.program(), "predict", str(cl.MODEL), "who", "--device", "mps"])
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("Mac", result.stderr)


if __name__ == "__main__":
    cl.main()
