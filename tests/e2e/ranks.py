"""What the tests of several processes share: data, command lines, and how near two runs' losses must be."""
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest

import command_line as cl
from resume_test import history, model_with_dropout

UNIT = 2.0 ** -24  # half the distance of fp32 numbers near 1
# A loss is a mean of 16 rows, as one sum or as a sum of the ranks' means: at most 16 additions and two divisions in
# either run.  A gradient is a sum over at most 16 · 32 tokens, whose rounding errors grow as the root of their number.
LOSS_ROUNDING = 2 * 18 * UNIT
NORM_ROUNDING = 2 * (16 * 32) ** 0.5 * UNIT
ROWS = 16  # of a global batch
START_S = 20  # in which a launcher has started a rank


def children_of(pid):
    """Processes that it started and that still run, in the order of their ids."""
    found = []
    for status in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[1]) == pid and fields[0] != "Z":
            found.append(int(status.parent.name))
    return sorted(found)


def has_saved(folder, steps=20):
    """A checkpoint of this number of steps, or of more: a run that keeps few may have deleted its first by now."""
    return any(int(path.name.split("-")[1]) >= steps for path in folder.glob("checkpoint-*"))


def is_running(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def variables_of(pid):
    """Its environment as it began; empty if it is gone."""
    try:
        words = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return {}
    return dict(word.decode().split("=", 1) for word in words if b"=" in word)


def has_part(name):
    """Whether liblathe_NAME.so was built."""
    return (pathlib.Path(cl.program()).parent / f"liblathe_{name}.so").exists()


def lathe_launch(ranks, command):
    return [command[0], "launch", "-n", str(ranks), *command[1:]]


def free_port():
    """A port without a listener at this moment."""
    with socket.socket() as probe:
        probe.bind(("", 0))
        return probe.getsockname()[1]


def mpirun(ranks, command):
    """Open MPI's launcher: several ranks to a core, also for root, in a container, and without a network.  It tells
    ranks no MASTER_PORT, and that of other tests' ranks may be the usual one."""
    return ["mpirun", "-n", str(ranks), "--oversubscribe", *(["--allow-run-as-root"] if os.getuid() == 0 else []),
            "-x", f"MASTER_PORT={free_port()}",
            "--mca", "btl", "self,tcp", "--mca", "btl_tcp_if_include", "lo", "--mca", "oob_tcp_if_include", "lo",
            *command, "--ddp_backend", "mpi"]


def start_mpirun(command, **keywords):
    """Popen, and again where mpirun stands still before it has started a rank, as that of Open MPI 4.1.4 did for 300 s
    once: of the files of its session there were those from before it tells its PMIx server of the ranks, and no later ones."""
    for attempts_left in (1, 0):
        run = subprocess.Popen(command, text=True, **keywords)
        begin = time.monotonic()
        while run.poll() is None and not children_of(run.pid) and time.monotonic() - begin < START_S:
            time.sleep(0.02)
        if not attempts_left or run.poll() is not None or children_of(run.pid):
            return run
        print(f"mpirun has started no rank in {START_S} s: once more", file=sys.stderr)
        run.kill()
        run.communicate()


def run_mpirun(command):
    """What cl.run does, through start_mpirun."""
    with start_mpirun(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
        try:
            stdout, stderr = run.communicate(timeout=300)
        except subprocess.TimeoutExpired:
            run.kill()
            raise
    return subprocess.CompletedProcess(command, run.returncode, stdout, stderr)


def without_mpi():
    """Why there are no ranks through MPI here; empty where there are."""
    if not has_part("mpi"):
        return "built without Open MPI (Debian, Ubuntu: libopenmpi-dev)"
    return "" if shutil.which("mpirun") else "mpirun is not here (Debian, Ubuntu: openmpi-bin)"


class RanksCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temp = tempfile.TemporaryDirectory()
        cls.root = pathlib.Path(cls.temp.name)
        model_with_dropout(cls.root / "model")
        cl.write_csv(cls.root / "train.csv", 192, 1)
        cl.write_csv(cls.root / "dev.csv", 45, 2)  # no multiple of any batch

    @classmethod
    def tearDownClass(cls):
        cls.temp.cleanup()

    def command(self, ranks, name, *more, accumulation=1, launch=lathe_launch):
        command = cl.glue_command(
            self.root / name, self.root / "train.csv", self.root / "dev.csv", "--seed", "7", "--logging_steps", "1",
            "--per_device_train_batch_size", str(ROWS // ranks // accumulation), "--gradient_accumulation_steps",
            str(accumulation), *more)
        command[command.index(str(cl.MODEL))] = str(self.root / "model")
        return command if ranks == 1 else launch(ranks, command)

    def run_ranks(self, ranks, name, *more, **keywords):
        command = self.command(ranks, name, *more, **keywords)
        result = (run_mpirun if command[0] == "mpirun" else cl.run)(command)
        self.assertEqual(result.returncode, 0, result.stderr)
        return history(self.root / name), result

    def await_checkpoint(self, name, run):
        """Until that run has saved twenty steps."""
        until = time.monotonic() + 120
        while not has_saved(self.root / name) and run.poll() is None:
            self.assertLess(time.monotonic(), until, "no checkpoint came")
            time.sleep(0.01)

    def await_states(self, pids, wanted):
        """Until each of these processes is in one of the states, as /proc has them."""
        until = time.monotonic() + 10
        while not all(pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] in wanted for pid in pids):
            self.assertLess(time.monotonic(), until, f"they are not all in {wanted}")
            time.sleep(0.01)

    def check_goes_on(self, name):
        """What is left of a run that was broken off is a whole checkpoint."""
        goes_on, result = self.run_ranks(1, name, "--max_steps", "1")  # which has been done: it only reads
        last = re.search(r"going on from (\S+);", result.stderr)
        self.assertTrue(last, result.stderr)
        self.assertTrue((pathlib.Path(last[1]) / "lathe_state.safetensors").exists())
        self.assertGreaterEqual(len(goes_on), 20)

    def check_same(self, wanted, mine):
        self.assertEqual(len(wanted), len(mine))
        for a, b in zip(wanted, mine):
            self.assertEqual(sorted(a), sorted(b))
            for key, value in a.items():
                if key == "grad_norm":
                    self.assertAlmostEqual(b[key], value, delta=NORM_ROUNDING * value, msg=f"step {a['step']}")
                elif "loss" in key:
                    self.assertAlmostEqual(b[key], value, delta=LOSS_ROUNDING * value, msg=f"step {a['step']} {key}")
                else:
                    self.assertEqual(b[key], value, key)
