#!/usr/bin/env python3
"""Small files that ask for much, and files that have no end: each is refused by a message that names the file and the limit,
before it costs memory."""
import gzip
import io
import os
import re
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
import zipfile

import command_line as cl

MEBI = 1 << 20
MOST = 400 * MEBI   # of memory, at the peak; the program by itself has 50


class Limits(unittest.TestCase):
    def setUp(self):
        temp = tempfile.TemporaryDirectory()
        self.addCleanup(temp.cleanup)
        self.root = pathlib.Path(temp.name)
        self.model = self.root / "model"
        shutil.copytree(cl.MODEL, self.model)

    def lathe(self, *words, **keywords):
        """With the peak of its memory in self.peak, in bytes."""
        peak = self.root / "peak"
        code = ("import resource, subprocess, sys\n"
                "run = subprocess.run(sys.argv[2:])\n"
                "open(sys.argv[1], 'w').write(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss))\n"
                "sys.exit(run.returncode)")
        result = cl.run([sys.executable, "-c", code, str(peak), cl.program(), *map(str, words)], **keywords)
        self.peak = int(peak.read_text()) * (1 if os.uname().sysname == "Darwin" else 1024)
        return result

    def refused(self, *words, says, most=MOST, **keywords):
        result = self.lathe(*words, **keywords)
        self.assertIn(result.returncode, (1, 2), result.stderr)
        for word in says:
            self.assertIn(word, result.stderr)
        self.assertLess(self.peak, most, result.stderr)

    def bomb(self, path, mebibytes, one=b"a"):
        with gzip.open(path, "wb", 9) as out:
            for _ in range(mebibytes):
                out.write(one * MEBI)

    def test_gzip(self):
        path = self.root / "train.csv.gz"
        self.bomb(path, 1200)
        self.refused("predict", self.model, "--file", path, says=[str(path), "bytes of gzip data unpack to more than the limit"])
        self.refused("glue", "--model_name_or_path", self.model, "--train_file", path, "--validation_file", path, "--do_eval",
                     "--output_dir", self.root / "out", says=[str(path), "gzip -d"])
        config = self.model / "config.json"
        config.unlink()
        self.bomb(config, 100, b" ")
        self.refused("info", self.model, says=[str(config), "the limit of 67108864"])

    def test_parquet(self):
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError:
            self.skipTest("needs pyarrow")
        path = self.root / "train.parquet"   # a text of 200 kB, five thousand times
        text = pyarrow.DictionaryArray.from_arrays(pyarrow.array([0] * 5000, pyarrow.int32()), pyarrow.array(["w " * 100_000]))
        pyarrow.parquet.write_table(pyarrow.table({"sentence1": text, "label": [1] * 5000}), path)
        self.assertLess(path.stat().st_size, 100_000)
        result = self.lathe("glue", "--model_name_or_path", self.model, "--train_file", path, "--do_train", "--output_dir",
                            self.root / "out")
        if "reading Parquet needs the part" in result.stderr:
            self.skipTest("needs the part that reads Parquet")
        self.assertIn(f"{path}: its rows are more than 67108864 bytes as text", result.stderr)
        self.assertLess(self.peak, 3 * MOST)   # a batch of rows is whole in memory

    def test_devices(self):
        for device in ("/dev/zero", "/dev/urandom"):
            self.refused("predict", self.model, "--file", device, says=[device, "a device has no end"])
            self.refused("glue", "--train_file", device, "--model_name_or_path", self.model, "--do_train",
                         "--output_dir", self.root / "out", says=[device])
            settings = self.root / "settings.json"
            settings.unlink(missing_ok=True)
            settings.symlink_to(device)
            self.refused("glue", settings, says=[str(settings), "a device has no end"])
            self.refused("glue", "--lr_scheduler_kwargs", device, "--model_name_or_path", self.model,
                         "--output_dir", self.root / "out", says=[device, "a device has no end"])
        for name in ("config.json", "tokenizer.json", "vocab.txt", "tokenizer_config.json", "model.safetensors"):
            path = self.model / name
            kept = path.read_bytes() if path.exists() else None
            path.unlink(missing_ok=True)
            path.symlink_to("/dev/zero")
            self.refused("info", self.model, says=[str(path), "a device"])
            path.unlink()
            if kept is not None:
                path.write_bytes(kept)

    def test_a_pipe_without_an_end(self):
        pipe = self.root / "train.csv"   # a training holds its data; `predict` takes a pipe of any length
        os.mkfifo(pipe)
        writer = subprocess.Popen(["sh", "-c", f"exec yes {'a' * 4000} > '{pipe}'"], stderr=subprocess.DEVNULL)
        self.refused("glue", "--model_name_or_path", self.model, "--train_file", pipe, "--do_train", "--output_dir",
                     self.root / "out", most=4 << 30, says=[str(pipe), "a pipe that goes on, expected at most 1073741824"])
        writer.wait(10)

    def test_predictions_of_a_pipe_without_an_end(self):
        writer = subprocess.Popen(["yes", "the old bridge"], stdout=subprocess.PIPE)
        command = [cl.program(), "predict", self.model, "--file", "-"]
        reader = subprocess.Popen(command, stdin=writer.stdout, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        for _ in range(200_000):
            self.assertTrue(reader.stdout.readline())
        with open(f"/proc/{reader.pid}/status", encoding="ascii") as status:
            peak = int(re.search(r"VmHWM:\s+(\d+)", status.read())[1]) << 10
        self.assertLess(peak, 256 << 20)
        for process in (reader, writer):
            process.kill()
            process.wait(10)
            process.stdout.close()

    def test_pipes_with_an_end(self):
        text = "the old bridge\nwho opened it\n"
        result = self.lathe("predict", self.model, "--file", "/dev/stdin", input=text)
        self.assertEqual(result.stdout.count("\n"), 2, result.stderr)
        shell = f"'{cl.program()}' predict '{self.model}' --file <(sleep 0.2; printf 'the old bridge\\n')"
        self.assertEqual(cl.run(["bash", "-c", shell]).stdout.count("\n"), 1)
        settings = f"'{cl.program()}' glue --model_name_or_path '{self.model}' --lr_scheduler_kwargs <(echo '{{}}') --print_config"
        self.assertEqual(cl.run(["bash", "-c", settings + f" --output_dir '{self.root}/out'"]).returncode, 0)

    def test_named_pipes_that_nobody_writes_to(self):
        weights = self.model / "model.safetensors"
        weights.unlink()
        os.mkfifo(weights)
        self.refused("info", self.model, says=[str(weights), "expected a file"])
        parquet = self.root / "train.parquet"
        os.mkfifo(parquet)
        self.refused("glue", "--model_name_or_path", self.model, "--train_file", parquet, "--do_train", "--output_dir",
                     self.root / "out", says=[str(parquet)])

    def test_folders(self):
        for name in ("config.json", "tokenizer.json", "model.safetensors"):
            model = self.root / name
            shutil.copytree(self.model, model)
            (model / name).unlink()
            (model / name).mkdir()
            self.refused("info", model, says=[str(model / name), "name a file"])
        self.refused("predict", self.model, "--file", self.root, says=[str(self.root), "name a file"])

    def test_tensor_names(self):
        header = "{" + ",".join(f'"{i}":{{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}' for i in range(400_000)) + "}"
        weights = self.model / "model.safetensors"
        weights.write_bytes(struct.pack("<Q", len(header)) + header.encode())
        self.refused("info", self.model, says=[str(weights), "more than 200000 tensors"])

    def pickled(self, body):
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as archive:
            archive.writestr("a/data.pkl", b"\x80\x02" + body + b".")
        return out.getvalue()

    def test_pickles(self):
        """A few hundred bytes of references to references, which JSON has no way to share."""
        def reference(slot):
            return b"h" + bytes([slot])
        levels = b"X\x10\x00\x00\x00" + b"x" * 16 + b"q\x01"
        for level in range(2, 9):
            levels += b"0](" + reference(level - 1) * 9 + b"eq" + bytes([level])
        key = b"X\x0d\x00\x00\x00learning_rate"
        body = b"ctransformers.training_args\nTrainingArguments\n)\x81}" + key + levels + b"sb"
        run = self.root / "run"
        run.mkdir()
        shutil.copy(cl.ROOT / "tests/golden/python_checkpoint/checkpoint-6/trainer_state.json", run)
        arguments = run / "training_args.bin"
        arguments.write_bytes(self.pickled(body))
        self.assertLess(arguments.stat().st_size, 600)
        result = self.lathe("runs", run, "--json")   # its arguments are not known, then
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertLess(self.peak, MOST)


if __name__ == "__main__":
    unittest.main()
