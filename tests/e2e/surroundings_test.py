#!/usr/bin/env python3
"""What disks, permissions and a missing /proc do to a run."""
import hashlib
import os
import pathlib
import shutil
import tempfile
import unittest

import command_line as cl

NOBODY = 65534


class Surroundings(unittest.TestCase):
    def setUp(self):
        self.temp = tempfile.TemporaryDirectory()
        self.addCleanup(self.temp.cleanup)
        self.root = pathlib.Path(self.temp.name)
        cl.write_csv(self.root / "train.csv", 24, 1)
        cl.write_csv(self.root / "dev.csv", 9, 2)
        self.out = self.root / "out"

    def command(self, *more):
        return cl.glue_command(self.out, self.root / "train.csv", self.root / "dev.csv", "--threads", "1", *more)

    def works(self, command, **keywords):
        result = cl.run(command, **keywords)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result

    def fails(self, command, *words, code=1, **keywords):
        result = cl.run(command, **keywords)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        for word in words:
            self.assertIn(str(word), result.stderr)
        return result

    def mount(self, name, kind, options):
        """A folder with such a file system mounted for the duration of the test."""
        folder = self.root / name
        folder.mkdir(exist_ok=True)
        mount = ["mount", "-t", kind, "-o", options, kind, str(folder)]
        if shutil.which("mount") is None or cl.run(mount).returncode != 0:
            self.skipTest(f"needs the right to mount a {kind}")
        self.addCleanup(cl.run, ["umount", str(folder)])
        return folder

    def weights(self, folder):
        return hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()

    def test_folders_in_the_lower_layer_of_an_overlay_are_set_aside_and_deleted(self):
        """As where the image of a container holds the output of an earlier run."""
        image = self.root / "image"
        saves = ["--save_steps", "3", "--save_total_limit", "2"]
        self.out = image / "out"
        self.works(self.command(*saves))
        checkpoints = sorted(path.name for path in self.out.glob("checkpoint-*"))
        self.assertEqual(checkpoints, ["checkpoint-6", "checkpoint-9"])
        for i, (more, wanted) in enumerate((
                (["--num_train_epochs", "4"], ["checkpoint-12", "checkpoint-9"]),
                (["--overwrite_output_dir"], [*checkpoints, "old-checkpoint-6", "old-checkpoint-9"]),
                (["--resume_from_checkpoint", "checkpoint-6"], [*checkpoints, "old-checkpoint-9"]))):
            over = self.mount(f"over{i}", "tmpfs", "size=64m")  # what lies on an overlay may be no upper layer
            for name in ("upper", "work"):
                (over / name).mkdir()
            layers = f"lowerdir={image},upperdir={over / 'upper'},workdir={over / 'work'},redirect_dir=off"
            self.out = self.mount(f"merged{i}", "overlay", layers) / "out"
            more = [str(self.out / word) if word.startswith("checkpoint-") else word for word in more]
            self.works(self.command(*saves, *more))
            self.assertEqual(sorted(path.name for path in self.out.glob("*checkpoint-*")), wanted)
            self.assertEqual([path for path in self.out.iterdir() if path.name.startswith(".tmp-")], [])
            for path in self.out.glob("old-*"):
                self.assertEqual(self.weights(path), self.weights(image / "out" / path.name.removeprefix("old-")))
                self.assertTrue((path / "lathe_state.safetensors").exists())

    def test_a_disk_without_room_for_the_last_checkpoint_takes_the_model(self):
        self.works(self.command())
        wanted = self.weights(self.out)
        bytes_of = sum(path.stat().st_size for path in self.out.iterdir() if path.is_file())
        self.out = self.mount("small", "tmpfs", f"size={bytes_of + (256 << 10)}") / "out"
        result = self.fails(self.command(), f"{self.out}/checkpoint-9: found ", "only the trained model is in")
        self.assertIn("1 checkpoint and the model take ", result.stderr)
        self.assertEqual(self.weights(self.out), wanted)

    def test_a_disk_without_room_for_more_files_is_told_from_a_full_one(self):
        self.out = self.mount("small", "tmpfs", "nr_inodes=12,size=64m") / "out"
        self.fails(self.command(), "No space left on device; no more files fit on that disk (df -i)")

    def test_without_proc_ranks_and_parts_are_found(self):
        """As in a chroot."""
        script = 'mount -t tmpfs none /proc && exec "$@"'
        without_proc = ["unshare", "-m", "sh", "-c", script, "sh"]
        if shutil.which("unshare") is None or cl.run([*without_proc, "true"]).returncode != 0:
            self.skipTest("needs the right to hide /proc")
        self.works([*without_proc, cl.program(), "launch", "-n", "2", *self.command("--max_steps", "1")[1:]])
        # Found on the path, and by a link in another folder.
        (self.root / "bin").mkdir()
        (self.root / "bin" / "lathe").symlink_to(cl.program())
        path = {**os.environ, "PATH": f"{self.root / 'bin'}:{os.environ['PATH']}"}
        doctor = [cl.run([*start, "lathe", "doctor"], env=path).stdout for start in ([], without_proc)]
        parts = [[line for line in text.splitlines() if "Parquet" in line or "gloo" in line] for text in doctor]
        self.assertEqual(parts[0], parts[1])

    def test_what_may_not_be_read_is_not_called_absent(self):
        if os.geteuid() == 0 and shutil.which("setpriv") is None:
            self.skipTest("needs a user whom permissions bind, or setpriv")
        user = [] if os.geteuid() else ["setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups"]
        self.root.chmod(0o777)
        tried = ([cl.program(), "version"], ["test", "-x", str(self.root)])
        if any(cl.run([*user, *command]).returncode != 0 for command in tried):
            self.skipTest("needs a build and a folder of tests that others may enter")
        snapshot = self.root / "home" / "hub" / "models--some--model" / "snapshots" / ("0" * 40)
        shutil.copytree(cl.MODEL, snapshot)
        (snapshot.parents[1] / "refs").mkdir()
        (snapshot.parents[1] / "refs" / "main").write_text("0" * 40)
        shutil.copytree(cl.MODEL, self.root / "model")
        self.works(self.command("--save_steps", "3"))
        checkpoint = self.out / "checkpoint-9"
        environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(self.root / "home")}
        for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
            environment.pop(name, None)
        denied = "Permission denied; check the permissions"

        def closed(folder, command, *words, code=1, modes=(0o700, 0o744)):
            for mode in modes if os.geteuid() == 0 else (0o000,):
                before = folder.stat().st_mode
                folder.chmod(mode)
                try:
                    result = self.fails([*user, *command], *words, code=code, env=environment)
                finally:
                    folder.chmod(before)
            return result

        lathe, other = cl.program(), str(self.root / "other")
        for model in (str(self.root / "model"), str(self.root / "model" / "..")):
            closed(self.root / "model", [lathe, "info", model], model, denied)
        closed(self.root / "model", [lathe, "predict", str(self.root / "model"), "text"],
               "config.json: cannot open: " + denied)
        closed(checkpoint, [*self.command("--resume_from_checkpoint", str(checkpoint)), "--output_dir", other],
               f"{checkpoint}/lathe_state.safetensors: cannot open: " + denied)
        for folder in (self.root / "home", snapshot.parent):
            closed(folder, [lathe, "info", "some/model"], f"{snapshot.parent}/", denied)
        doctor = closed(self.root / "home", [lathe, "doctor"], code=0)
        self.assertIn(f"[BAD]  Hugging Face cache {self.root}/home/hub can be neither read nor made", doctor.stdout)
        runs = closed(self.out, [lathe, "runs", str(self.root)], "for want of permission: " + str(self.out), code=0)
        self.assertIn("0 runs", runs.stdout)

    def test_doctor_names_a_cache_that_cannot_be_made_and_a_working_folder_that_is_gone(self):
        file = self.root / "file"
        file.write_text("")
        environment = {**os.environ, "HF_HOME": str(file)}
        for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
            environment.pop(name, None)
        said = cl.run([cl.program(), "doctor"], env=environment).stdout
        self.assertIn(f"[BAD]  Hugging Face cache {file}/hub can be neither read nor made: ", said)
        gone = self.root / "gone"
        gone.mkdir()
        said = cl.run(["sh", "-c", 'cd "$1" && rmdir "$1" && exec "$2" doctor', "sh", str(gone), cl.program()]).stdout
        self.assertIn("[BAD]  working folder: it is not there any more", said)


if __name__ == "__main__":
    cl.main()
