#!/usr/bin/env python3
"""Ranks that Slurm's own srun starts, on one node and on two: a cluster of this test's, all of it on this machine, gone when
it ends.  Needs root and Debian's slurm-wlm and munge."""
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import command_line as cl
from ranks import RanksCase, variables_of

BOUND_S = 30  # from a rank's end to the run's
DAEMONS = ("munged", "slurmctld", "slurmd")
NODES = (socket.gethostname(), socket.gethostname() + "-too")  # the first one by name is asked for by that name
CONFIGURATION = """
ClusterName=test
SlurmctldHost=localhost
SlurmctldPort={port}
AuthType=auth/munge
AuthInfo=socket={root}/munge/socket
CredType=cred/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SlurmUser=root
SlurmdUser=root
StateSaveLocation={root}/state
SlurmdSpoolDir={root}/spool-%n
SlurmctldPidFile={root}/slurmctld.pid
SlurmdPidFile={root}/slurmd-%n.pid
SlurmctldLogFile={root}/slurmctld.log
SlurmdLogFile={root}/slurmd-%n.log
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
NodeName={host},{host}-too NodeHostname=localhost NodeAddr=127.0.0.1 Port=[{first}-{last}] CPUs={cores} State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP
"""


def why_not():
    missing = [name for name in (*DAEMONS, "srun") if not shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin")]
    if missing:
        return f"{', '.join(missing)} not here (Debian, Ubuntu: slurm-wlm munge)"
    return "" if os.getuid() == 0 else "needs root: slurmd starts jobs as others"


def free_ports(count):
    """That many in a row."""
    while True:
        sockets = [socket.create_server(("127.0.0.1", 0))]
        first = sockets[0].getsockname()[1]
        try:
            sockets += [socket.create_server(("127.0.0.1", first + i)) for i in range(1, count)]
            return range(first, first + count)
        except OSError:
            pass
        finally:
            for s in sockets:
                s.close()


def srun(nodes):
    return lambda ranks, command: ["srun", "-N", str(nodes), "-n", str(ranks), "--overcommit", *command]


def ranks_of(folder):
    """The processes that train into it, by rank."""
    found = {}
    for line in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = line.read_bytes().split(b"\0")
            if words[0] == cl.program().encode() and str(folder).encode() in words:
                found[variables_of(line.parent.name).get("SLURM_PROCID")] = int(line.parent.name)
        except OSError:
            pass
    return found


@unittest.skipIf(why_not(), why_not())
class Slurm(RanksCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.daemons = []
        cls.addClassCleanup(cls.stop)
        root = cls.root
        for name in ("munge", "state", *(f"spool-{node}" for node in NODES)):
            (root / name).mkdir()
        port, first, last = free_ports(3)
        (root / "slurm.conf").write_text(CONFIGURATION.format(root=root, port=port, first=first, last=last,
                                                              host=NODES[0], cores=os.cpu_count()))
        os.environ["SLURM_CONF"] = str(root / "slurm.conf")
        (root / "munge" / "key").write_bytes(os.urandom(128))
        (root / "munge" / "key").chmod(0o600)
        root.chmod(0o755)
        cls.start("munged", "--foreground", "--key-file", root / "munge/key", "--socket", root / "munge/socket", "--pid-file",
                  root / "munge/pid", "--log-file", root / "munge/log", "--seed-file", root / "munge/seed", "--force")
        cls.start("slurmctld", "-D")
        for node in NODES:
            cls.start("slurmd", "-D", "-N", node)
        until = time.monotonic() + 60
        while cl.run(["sinfo", "-h", "-t", "idle", "-o", "%D"]).stdout.strip() != "2":
            assert time.monotonic() < until, cl.run(["sinfo", "-R"]).stdout + (root / "slurmctld.log").read_text()
            time.sleep(0.2)

    @classmethod
    def start(cls, name, *words):
        program = shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin")
        cls.daemons.append(subprocess.Popen([program, *map(str, words)], stdout=subprocess.DEVNULL,
                                            stderr=subprocess.DEVNULL))

    @classmethod
    def stop(cls):
        for daemon in reversed(cls.daemons):
            daemon.terminate()
        for daemon in cls.daemons:
            daemon.wait(30)

    def test_ranks_on_one_node_and_on_two_give_the_losses_of_one_process(self):
        still = ("--learning_rate", "0", "--eval_strategy", "epoch", "--save_strategy", "no")
        wanted, _ = self.run_ranks(1, "one", *still)
        for nodes in (1, 2):
            mine, result = self.run_ranks(2, f"nodes{nodes}", *still, launch=srun(nodes))
            self.check_same(wanted, mine)
            self.assertEqual(result.stdout.count("***** train metrics *****"), 1, "only rank 0 prints")

    def test_a_rank_that_is_killed_is_named_and_leaves_a_whole_checkpoint(self):
        run = subprocess.Popen(self.command(2, "killed", "--num_train_epochs", "5000", "--save_steps", "10",
                                            "--save_total_limit", "3", launch=srun(2)),
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.await_checkpoint("killed", run)
        os.kill(ranks_of(self.root / "killed")["1"], signal.SIGKILL)
        begin = time.monotonic()
        _, stderr = run.communicate(timeout=120)
        self.assertLess(time.monotonic() - begin, BOUND_S)
        self.assertNotEqual(run.returncode, 0)
        self.assertRegex(stderr, "rank 1 is gone|task 1: Killed")
        self.check_goes_on("killed")


if __name__ == "__main__":
    cl.on_one_core()
    cl.main()
