#!/usr/bin/env python3
"""A request to stop a training reaches its end: a checkpoint and run.json, whoever is asked how often, whether or not
somebody still reads what the run says, and a way to go on that works when it is pasted."""
import json
import os
import pty
import re
import resource
import select
import shlex
import signal
import subprocess
import sys
import threading
import time
import unittest

import command_line as cl
from ranks import RanksCase, children_of, lathe_launch


def state_of(folder):
    return json.loads((folder / "run.json").read_text())["state"]


class Signals(RanksCase):
    def endless(self, folder, *more, ranks=1):
        """Of a run that is not at its end when a test asks it to stop: 24 updates an epoch, each said in a line."""
        command = cl.glue_command(folder, self.root / "train.csv", self.root / "dev.csv", "--num_train_epochs", "2000",
                                  "--logging_steps", "1", "--save_strategy", "no", *more)
        command[command.index(str(cl.MODEL))] = str(self.root / "model")
        return command if ranks == 1 else lathe_launch(ranks, command)

    def start(self, command, **keywords):
        """Begun, and after its first update."""
        run = subprocess.Popen(command, stdout=subprocess.PIPE, **{"stderr": subprocess.PIPE, **keywords})
        self.addCleanup(run.kill)
        while b"'loss'" not in (line := run.stdout.readline()):
            self.assertTrue(line, "it has ended before its first update")
        return run

    def check_stopped(self, folder, run, number):
        self.assertEqual(run.returncode, -number)
        self.check_saved(folder)

    def check_saved(self, folder):
        self.assertEqual(state_of(folder), "interrupted")
        self.assertTrue(list(folder.glob("checkpoint-*/lathe_state.safetensors")))
        self.assertFalse([n for n in os.listdir(folder) if n.startswith(".tmp-")])

    def test_a_run_goes_on_where_nobody_reads_and_stops_as_it_is_asked(self):
        for ranks in (1, 2):
            folder = self.root / f"unread{ranks}"
            run = self.start(self.endless(folder, ranks=ranks), stderr=subprocess.STDOUT)
            run.stdout.close()
            with self.assertRaises(subprocess.TimeoutExpired):
                run.wait(timeout=1)  # updates take milliseconds, each writes a line
            run.send_signal(signal.SIGINT)
            run.wait(timeout=60)
            self.check_stopped(folder, run, signal.SIGINT)

    def fill(self, path):
        """A pipe, until it takes nothing more; nobody's descriptor of it is changed."""
        other = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        try:
            while os.write(other, b"." * 4096):
                pass
        except BlockingIOError:
            pass
        os.close(other)

    def stop_with_a_full_pipe(self, folder, stream, ranks):
        """The end of a run whose stream has no reader: it is asked to stop while it waits to write."""
        reading, writing = os.pipe()
        self.addCleanup(os.close, reading)
        self.addCleanup(os.close, writing)
        command = self.endless(folder, "--eval_strategy", "steps", "--eval_steps", "2", ranks=ranks)
        run = self.start(command, **({"stderr": writing} if stream == "stderr" else {"stderr": subprocess.DEVNULL}))
        if stream == "stderr":
            self.fill(f"/proc/self/fd/{writing}")
            threading.Thread(target=lambda: all(iter(lambda: run.stdout.read1(4096), b"")), daemon=True).start()
        else:
            self.fill(f"/proc/self/fd/{run.stdout.fileno()}")
        time.sleep(0.5)
        run.send_signal(signal.SIGTERM)
        run.wait(timeout=60)
        self.addCleanup(run.stdout.close)
        return run

    @unittest.skipUnless(sys.platform == "linux", "opens a pipe anew")
    def test_a_stop_is_heard_while_nobody_drains_the_pipe(self):
        for stream in ("stdout", "stderr"):
            for ranks in (1, 2):
                folder = self.root / f"full_{stream}{ranks}"
                self.check_stopped(folder, self.stop_with_a_full_pipe(folder, stream, ranks), signal.SIGTERM)

    def test_a_stop_leaves_a_checkpoint_where_few_descriptors_are_free(self):
        folder = self.root / "descriptors"
        run = self.start(self.endless(folder), stderr=subprocess.DEVNULL)
        used = len(os.listdir(f"/proc/{run.pid}/fd"))
        resource.prlimit(run.pid, resource.RLIMIT_NOFILE, (used, used))
        run.send_signal(signal.SIGTERM)
        run.communicate(timeout=60)
        self.check_stopped(folder, run, signal.SIGTERM)

    def test_help_that_nobody_reads_to_its_end_is_no_error(self):
        for command in (["glue", "--help"], ["arguments"]):
            reading, writing = os.pipe()
            os.close(reading)
            result = subprocess.run([cl.program(), *command], stdout=writing, stderr=subprocess.PIPE, timeout=60)
            os.close(writing)
            self.assertEqual((result.stderr, result.returncode), (b"", -signal.SIGPIPE))

    def test_signals_that_come_together_are_one_request(self):
        folder = self.root / "together"
        run = self.start(self.endless(folder), stderr=subprocess.DEVNULL)
        run.send_signal(signal.SIGSTOP)
        for number in (signal.SIGINT, signal.SIGTERM):  # two of one kind may become one while they wait
            run.send_signal(number)
        run.send_signal(signal.SIGCONT)
        run.communicate(timeout=60)
        self.assertIn(run.returncode, (-signal.SIGINT, -signal.SIGTERM))
        self.check_stopped(folder, run, -run.returncode)

    def test_a_launcher_and_its_ranks_may_be_asked_together(self):
        for attempt in range(3):
            folder = self.root / f"all_asked{attempt}"
            run = self.start(self.endless(folder, ranks=2))
            for pid in (*children_of(run.pid), run.pid):
                os.kill(pid, signal.SIGTERM)
            _, stderr = run.communicate(timeout=60)
            self.assertNotIn(b"is gone", stderr)
            self.check_stopped(folder, run, signal.SIGTERM)

    def test_a_checkpoint_that_cannot_be_written_is_an_error_of_the_launcher_too(self):
        folder = self.root / "no_room"
        run = self.start(self.endless(folder, ranks=2),  # more than run.json has, less than the model
                         preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (50000, 50000)))
        run.send_signal(signal.SIGTERM)
        _, stderr = run.communicate(timeout=60)
        self.assertIn(b"File too large", stderr)
        self.assertEqual(run.returncode, 1)
        self.assertEqual(list(folder.glob("checkpoint-*")), [])

    def test_a_stop_behind_the_training_leaves_its_results(self):
        cl.write_csv(self.root / "long.csv", 30000, 3)  # in batches of one: seconds
        for ranks, split in ((1, "eval"), (1, "predict"), (2, "eval")):
            folder = self.root / f"behind_{split}{ranks}"
            command = self.endless(folder, "--max_steps", "2", "--per_device_eval_batch_size", "1",
                                   *(["--do_predict", "--test_file", str(self.root / "long.csv")] if split == "predict" else
                                     ["--validation_file", str(self.root / "long.csv")]), ranks=ranks)
            run = self.start(command)
            while f"***** {'train' if split == 'eval' else 'eval'} metrics".encode() not in (line := run.stdout.readline()):
                self.assertTrue(line, "it has ended before its metrics")
            run.send_signal(signal.SIGINT)
            _, stderr = run.communicate(timeout=60)
            self.assertEqual(run.returncode, -signal.SIGINT, stderr)
            self.assertEqual(state_of(folder), "interrupted")
            self.assertIn(f"error: interrupted after the training; its model is in {folder}\n", stderr.decode())
            self.assertNotIn(b"is gone", stderr)
            self.assertIn("train_loss", json.loads((folder / "all_results.json").read_text()))
            self.assertEqual((folder / "eval_results.json").exists(), split == "predict")
            shown = cl.run([cl.program(), "runs", str(folder)])
            self.assertRegex(shown.stdout, r"interrupted +2 +2 ")

    def test_what_the_parent_ignores_is_ignored(self):
        folder = self.root / "background"
        run = self.start(self.endless(folder), stderr=subprocess.DEVNULL,
                         preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
        run.send_signal(signal.SIGINT)
        for _ in range(50):  # it goes on: a stop comes after the current update
            self.assertIn(b"'loss'", run.stdout.readline())
        run.send_signal(signal.SIGTERM)
        run.communicate(timeout=60)
        self.check_stopped(folder, run, signal.SIGTERM)

    def test_ctrl_c_ends_the_loop_of_a_shell(self):
        for ranks in (1, 2):
            command = shlex.join(self.endless(self.root / f"loop{ranks}" / "NAME", ranks=ranks)).replace("NAME", "$name")
            shell = self.start(["bash", "-c", f"for name in one two; do {command}; done"], start_new_session=True)
            os.killpg(shell.pid, signal.SIGINT)
            shell.communicate(timeout=60)
            self.assertEqual(shell.returncode, -signal.SIGINT)
            self.assertEqual(state_of(self.root / f"loop{ranks}" / "one"), "interrupted")
            self.assertEqual(os.listdir(self.root / f"loop{ranks}"), ["one"])

    def in_a_terminal(self, script):
        """A shell with job control, which runs this in a terminal of its own: its id, and the side of the terminal that is kept."""
        pid, controller = pty.fork()
        if pid == 0:
            os.execvp("bash", ["bash", "-m", "-c", script])
        self.addCleanup(os.close, controller)
        self.addCleanup(self.end_of, pid)
        return pid, controller

    def end_of(self, shell):
        """Of a shell and all that it has started, where they still are."""
        for group in {*children_of(shell), shell}:
            for pid in (*children_of(group), group):
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        os.waitpid(shell, 0)

    def read_until(self, controller, words, seconds=60):
        shown, until = b"", time.monotonic() + seconds
        while words not in shown:
            ready, _, _ = select.select([controller], [], [], max(0, until - time.monotonic()))
            self.assertTrue(ready, f"{words} did not come; it said {shown[-2000:]}")
            shown += os.read(controller, 4096)
        return shown

    def test_the_end_of_the_terminal_leaves_a_checkpoint(self):
        for ranks in (1, 2):
            folder = self.root / f"hung_up{ranks}"
            command = self.endless(folder, ranks=ranks)
            pid, controller = pty.fork()
            if pid == 0:
                signal.signal(signal.SIGHUP, signal.SIG_DFL)  # these tests may run under nohup
                os.execv(command[0], command)
            self.read_until(controller, b"'loss'")
            os.close(controller)
            until = time.monotonic() + 60
            while (ended := os.waitpid(pid, os.WNOHANG)) == (0, 0) and time.monotonic() < until:
                time.sleep(0.02)
            if ended == (0, 0):
                self.end_of(pid)
            self.assertEqual(os.waitstatus_to_exitcode(ended[1]), -signal.SIGHUP)
            self.check_saved(folder)

    @unittest.skipUnless(sys.platform == "linux", "reads /proc")
    def test_ctrl_z_stops_the_ranks_too_and_fg_goes_on(self):
        folder = self.root / "paused"
        shell, controller = self.in_a_terminal(
            f"{shlex.join(self.endless(folder, '--disable_tqdm', ranks=2))}; echo code $?; read -r line; fg")
        self.read_until(controller, b"'loss'")
        [launcher] = children_of(shell)
        ranks = children_of(launcher)
        self.assertEqual(len(ranks), 2)
        os.write(controller, b"\x1a")
        self.read_until(controller, f"code {128 + signal.SIGTSTP}".encode())
        self.await_states([launcher, *ranks], "T")
        os.write(controller, b"\n")
        self.read_until(controller, b"'loss'")
        self.await_states([launcher, *ranks], "RSD")
        os.write(controller, b"\x03")
        self.read_until(controller, b"] error: interrupted after step")  # one of the ranks; the other may still write
        until = time.monotonic() + 60
        # The first rank clears up after it has said so.
        while (state_of(folder) == "running" or children_of(shell)) and time.monotonic() < until:
            time.sleep(0.02)
        self.check_saved(folder)

    def test_ranks_write_to_a_terminal_that_stops_who_is_in_the_background(self):
        command = self.endless(self.root / "tostop", "--max_steps", "3", ranks=2)
        _, controller = self.in_a_terminal(f"stty tostop; {shlex.join(command)}; echo code $?")
        self.assertIn(b"eval_accuracy", self.read_until(controller, b"code 0"))

    def test_an_error_behind_a_bar_begins_a_line(self):
        folder = self.root / "bar"
        controller, terminal = os.openpty()
        run = self.start(self.endless(folder), stderr=terminal, env={**os.environ, "TERM": "xterm"})
        os.close(terminal)
        run.send_signal(signal.SIGINT)
        run.stdout.close()
        shown = cl.shown_by(run, controller)
        self.assertIn(b"/48000 [", shown)
        self.assertRegex(shown, rb"\nerror: interrupted")

    def stopped(self, command):
        """The step of the checkpoint that it has left, and how to go on, as it was said."""
        run = self.start(command)
        run.send_signal(signal.SIGINT)
        _, stderr = run.communicate(timeout=60)
        said = re.search(r"error: interrupted after step (\d+); go on with (.*)\n", stderr.decode())
        self.assertTrue(said, stderr)
        return int(said[1]), said[2]

    def check_goes_on(self, command, step):
        run = self.start(command, stderr=subprocess.DEVNULL)
        first = run.stdout.readline()  # of two lines that were read
        run.send_signal(signal.SIGINT)
        run.communicate(timeout=60)
        self.assertAlmostEqual(float(re.search(rb"'epoch': ([\d.]+)", first)[1]), (step + 2) / 24, delta=1e-3)

    def test_the_flag_that_goes_on_can_be_pasted(self):
        command = self.endless(self.root / "with blank" / "$HOME it's", "--overwrite_output_dir")
        step, flag = self.stopped(command)
        self.check_goes_on(["bash", "-c", f"exec {shlex.join(command)} {flag}"], step)

    def test_a_run_of_a_file_goes_on_with_a_setting_in_it(self):
        command = self.endless(self.root / "of a file", "--overwrite_output_dir")
        shown = json.loads(cl.run([*command, "--print_config"]).stdout)
        file = self.root / "settings.json"
        file.write_text(json.dumps({**shown, "print_config": False}))
        command = [cl.program(), "glue", str(file)]
        step, setting = self.stopped(command)
        self.assertTrue(setting.endswith(f" in {file}"), setting)
        file.write_text(json.dumps({**json.loads(file.read_text()), **json.loads("{" + setting.removesuffix(f" in {file}") + "}")}))
        self.check_goes_on(command, step)

    def test_the_demo_does_not_go_on_and_says_so(self):
        folder = self.root / "demo"
        run = self.start([cl.program(), "demo", "--output_dir", str(folder), "--device", "cpu"])
        run.send_signal(signal.SIGINT)
        _, stderr = run.communicate(timeout=60)
        self.assertTrue(stderr.endswith(b"error: interrupted; lathe demo begins anew\n"), stderr)
        self.assertEqual(run.returncode, -signal.SIGINT)
        self.assertFalse(folder.exists())


if __name__ == "__main__":
    cl.main()
