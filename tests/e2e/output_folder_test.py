#!/usr/bin/env python3
"""What a run does to the folder that it writes into: it touches only what this program has made, says what it removes, and
does not begin where its files would lie among others."""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

import command_line as cl


def content(folder):
    return {str(p.relative_to(folder)): p.read_bytes() if p.is_file() else None for p in sorted(folder.rglob("*"))}


class OutputFolder(unittest.TestCase):
    def setUp(self):
        temp = tempfile.TemporaryDirectory()
        self.addCleanup(temp.cleanup)
        self.root = pathlib.Path(temp.name).resolve()
        self.data, self.out, self.model = (self.root / name for name in ("data", "out", "model"))
        self.data.mkdir()
        shutil.copytree(cl.MODEL, self.model)
        cl.write_csv(self.data / "train.csv", 24, 1)
        cl.write_csv(self.data / "dev.csv", 9, 2)

    def command(self, *more, out=None, train=True):
        command = cl.glue_command(out or self.out, self.data / "train.csv", self.data / "dev.csv", "--max_steps", "2", *more)
        command[command.index(str(cl.MODEL))] = str(self.model)
        return command if train else [word for word in command if word != "--do_train"]

    def works(self, command, **keywords):
        result = cl.run(command, **keywords)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stderr

    def refused(self, command, *words, **keywords):
        before = content(self.root)
        result = cl.run(command, **keywords)
        self.assertEqual(result.returncode, 2, result.stderr)
        for word in ("error: --output_dir: ", *words):
            self.assertIn(str(word), result.stderr)
        self.assertEqual(content(self.root), before)

    # ---- its content

    def test_what_a_training_did_not_make_stays(self):
        mine = ["photos.replaced/one.jpg", ".tmp-photos/one.jpg", ".tmp-notes", ".tmp-checkpoint-2-999999999-0/one.jpg",
                "checkpoint-9.replaced/one.jpg", "below/.tmp-x-999999999-0/one.jpg", "below/y.replaced/one.jpg",
                "old-checkpoint-2/one.jpg", "checkpoint-0/one.jpg", ".tmp-lathe-999999999", ".tmp-lathe-/one.jpg"]
        for name in mine:
            (self.out / name).parent.mkdir(parents=True, exist_ok=True)
            (self.out / name).write_text("mine")
        for more in (["--overwrite_output_dir"], ["--max_steps", "3"], ["--overwrite_output_dir", "--max_steps", "4"]):
            said = self.works(self.command("--save_steps", "1", "--save_total_limit", "1", *more))
            self.assertEqual({(self.out / name).read_text() for name in mine if name != "checkpoint-0/one.jpg"}, {"mine"})
            self.assertIn(".tmp-checkpoint-2-999999999-0 may be left of a killed run", said)
        found = [path.parent.name for path in self.out.glob("*checkpoint-0*/one.jpg")]
        self.assertEqual(len(found), 1)
        self.assertFalse((self.out / "photos").exists())
        self.assertEqual({p.name for p in self.out.glob(".tmp-lathe-*")}, {".tmp-lathe-999999999", ".tmp-lathe-"})

    def test_what_a_killed_run_leaves_is_removed_and_named(self):
        run = subprocess.Popen(self.command("--max_steps", "100000", "--save_steps", "1", "--save_total_limit", "2"),
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(run.kill)
        until = time.monotonic() + 60
        while not list(self.out.glob("checkpoint-*")) and time.monotonic() < until:
            time.sleep(0.01)
        run.send_signal(signal.SIGKILL)
        run.wait()
        self.assertTrue((self.out / f".tmp-lathe-{run.pid}").exists())
        half, weights = (self.out / f".tmp-{name}-{run.pid}-7" for name in ("checkpoint-500000", "model.safetensors"))
        half.mkdir()
        (half / "model.safetensors").write_text("half")
        weights.write_text("half")
        newest = max(self.out.glob("checkpoint-*"), key=lambda path: int(path.name.split("-")[1]))
        newest.rename(self.out / f"{newest.name}.replaced-{run.pid}-9")  # as where names cannot be swapped
        said = self.works(self.command("--max_steps", str(int(newest.name.split("-")[1]) + 1)))
        removed = re.search(r"removed what a killed run left: (.*)", said)[1]
        for name in (half.name, weights.name, f".tmp-lathe-{run.pid}"):
            self.assertIn(name, removed)
        self.assertIn(f"a run was killed while it replaced {newest.name}: what was there before has its name again", said)
        self.assertIn(f"going on from {newest}", said)
        self.assertEqual(list(self.out.glob(".tmp-*")), [])

    # ---- which it may be

    def test_the_home_folder_is_refused(self):
        (self.root / "link").symlink_to("home")
        home = self.root / "home"
        home.mkdir()
        env = {**os.environ, "HOME": str(home)}
        for train in (True, False):
            for folder in (home, f"{home}/", home / "no" / "..", self.root / "link", "~", "~/.", f"{self.root}/no/../link/"):
                self.refused(self.command("--overwrite_output_dir", out=folder, train=train), "is a home folder", env=env)
            self.refused(self.command("--overwrite_output_dir", out=".", train=train), "is a home folder", env=env, cwd=home)
        self.works(self.command(out="~/out"), env=env)

    def test_the_folders_of_the_model_and_of_the_data_are_refused(self):
        (self.root / "link").symlink_to("model")
        (self.root / "data link").symlink_to("data")
        for folder in (self.model, f"{self.model}/", self.root / "link", self.root / "data" / ".." / "model",
                       self.root / "no" / ".." / "model"):
            self.refused(self.command("--overwrite_output_dir", out=folder), folder, "is the folder of --model_name_or_path")
        for folder in (self.data, f"{self.data}//", self.root / "data link", self.data / "x" / ".."):
            self.refused(self.command("--overwrite_output_dir", out=folder), folder, "where the data lie (--train_file")
        self.refused(self.command("--overwrite_output_dir", out=".") , "where the data lie", cwd=self.data)
        tasks = self.root / "glue"
        (tasks / "MRPC").mkdir(parents=True)
        (tasks / "MRPC" / "train.tsv").write_text("a\tb\n")
        for folder in (tasks, tasks / "MRPC"):
            self.refused([cl.program(), "glue", "--model_name_or_path", str(self.model), "--task_name", "mrpc", "--data_dir",
                          str(tasks), "--do_train", "--output_dir", str(folder), "--overwrite_output_dir"], "--data_dir")
        self.works(self.command(out=self.data / "out"))
        self.works(self.command(out=self.model / "out"))

    def test_an_own_folder_may_be_that_of_the_model(self):
        self.works(self.command("--save_steps", "1"))
        kept = content(self.out)
        self.model = self.out
        self.works(self.command(train=False))
        self.works(self.command(train=False, out=f"{self.out}/"))
        self.assertEqual((self.out / "model.safetensors").read_bytes(), kept["model.safetensors"])
        said = self.works(self.command("--max_steps", "3"))
        self.assertIn("going on from", said)
        said = self.works(self.command("--overwrite_output_dir"))
        self.assertIn("what is trained takes the place of that model", said)
        self.refused(self.command("--overwrite_output_dir", out=self.out / "checkpoint-2"), "is a checkpoint", self.out)

    def test_an_evaluation_beside_the_data_is_warned_of(self):
        said = self.works(self.command(out=self.data, train=False))
        self.assertIn("the files of the run lie among them", said)


if __name__ == "__main__":
    cl.main()
