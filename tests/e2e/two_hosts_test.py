#!/usr/bin/env python3
"""Two machines, as two network namespaces that one cable joins: a rank on each trains as one process; where the cable is
cut both ends stop with the other's name and a whole checkpoint."""
import os
import re
import shutil
import subprocess
import sys
import time
import unittest

from ranks import RanksCase, has_part, has_saved, mpirun, run_mpirun, without_mpi
from resume_test import history

BOUND_S = 30  # from the cut to the end of both ranks
PORTS = {"ring": "29500", "gloo": "29501"}  # nobody else is in the namespaces


def ip(*words):
    return subprocess.run(["ip", *words], capture_output=True, text=True, check=True, timeout=60)


class Hosts:
    """Namespaces and the cable between them; `close` takes all away."""

    def __init__(self):
        self.names = [f"lathe{os.getpid()}{end}" for end in "ab"]
        self.addresses = ["10.77.0.1", "10.77.0.2"]
        self.cables = [f"lt{os.getpid()}{end}" for end in "ab"]  # at most 15 characters
        try:
            for name in self.names:
                ip("netns", "add", name)
            ip("link", "add", self.cables[0], "netns", self.names[0], "type", "veth",
               "peer", "name", self.cables[1], "netns", self.names[1])
            for name, cable, address in zip(self.names, self.cables, self.addresses):
                ip("-n", name, "address", "add", address + "/24", "dev", cable)
                ip("-n", name, "link", "set", cable, "up")
                ip("-n", name, "link", "set", "lo", "up")
        except BaseException:
            self.close()
            raise

    def cut(self):
        ip("-n", self.names[1], "link", "set", self.cables[1], "down")

    def mend(self):
        ip("-n", self.names[1], "link", "set", self.cables[1], "up")

    def close(self):
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, timeout=60)


def why_not():
    """Why there can be no namespaces here; empty where there can."""
    if shutil.which("ip") is None:
        return "ip is not here (Debian, Ubuntu: iproute2)"
    try:
        Hosts().close()
    except (subprocess.CalledProcessError, OSError) as error:
        return f"network namespaces are not permitted here ({getattr(error, 'stderr', error)})".replace("\n", " ")
    return ""


class TwoHosts(RanksCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.addClassCleanup(super().tearDownClass)
        cls.hosts = Hosts()
        cls.addClassCleanup(cls.hosts.close)

    @classmethod
    def tearDownClass(cls):
        pass  # the cleanups, which also run where setUpClass fails

    def start(self, name, transport, *more):
        """A rank on each host; rank 0 is the first."""
        ranks = []
        for rank, host in enumerate(self.hosts.names):
            command = self.command(2, name, *more, "--ddp_backend", transport,
                                   launch=lambda _, words: ["ip", "netns", "exec", host, *words])
            environment = {**os.environ, "RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": "0",
                           "MASTER_ADDR": self.hosts.addresses[0], "MASTER_PORT": PORTS[transport]}
            ranks.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                          env=environment))
            self.addCleanup(self.end, ranks[-1])
        return ranks

    @staticmethod
    def end(process):
        if process.poll() is None:
            process.kill()
            process.communicate()

    def transports(self):
        return ["ring", "gloo"] if has_part("gloo") else ["ring"]

    def test_a_rank_on_each_of_two_hosts_gives_the_losses_of_one_process(self):
        still = ("--learning_rate", "0", "--eval_strategy", "epoch", "--save_strategy", "no")
        wanted, _ = self.run_ranks(1, "one", *still)
        for transport in self.transports():
            for rank, process in enumerate(self.start(transport, transport, *still)):
                _, stderr = process.communicate(timeout=300)
                self.assertEqual(process.returncode, 0, stderr)
                self.assertEqual(stderr.count("warning: the ranks have no secret: whoever reaches 10.77.0.1, port"), 1 - rank,
                                 "rank 0 says it once")
            self.check_same(wanted, history(self.root / transport))

    @unittest.skipIf(without_mpi(), without_mpi())
    def test_ranks_that_mpirun_starts_on_two_hosts_give_the_bits_of_the_ring(self):
        train = ("--save_strategy", "no", "--num_train_epochs", "1")
        for process in self.start("ring_bits", "ring", *train):
            _, stderr = process.communicate(timeout=300)
            self.assertEqual(process.returncode, 0, stderr)
        agent = self.root / "agent"  # mpirun's ssh: HOST COMMAND…, into the other namespace, under its own name
        agent.write_text(f'#!/bin/sh\nshift\nexec ip netns exec {self.hosts.names[1]} unshare --uts '
                         'sh -c "hostname other; $*"\n')
        agent.chmod(0o755)
        command = self.command(2, "mpi_bits", *train, launch=mpirun)
        command = [word if word != "lo" else "10.77.0.0/24" for word in command]
        command[1:1] = ["--host", ",".join(self.hosts.addresses), "--mca", "plm_rsh_agent", str(agent),
                        "-x", f"MASTER_ADDR={self.hosts.addresses[0]}"]
        result = run_mpirun(["ip", "netns", "exec", self.hosts.names[0], *command])
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual((self.root / "mpi_bits" / "model.safetensors").read_bytes(),
                         (self.root / "ring_bits" / "model.safetensors").read_bytes())

    def test_a_cable_that_is_cut_ends_both_ranks_with_a_name(self):
        runs = {transport: self.start("cut" + transport, transport, "--num_train_epochs", "50000", "--save_steps", "10",
                                      "--save_total_limit", "3") for transport in self.transports()}
        until = time.monotonic() + 120
        for transport in runs:
            while not has_saved(self.root / ("cut" + transport)):
                self.assertLess(time.monotonic(), until, "no checkpoint came")
                time.sleep(0.01)
        self.hosts.cut()
        cut = time.monotonic()
        try:
            for transport, ranks in runs.items():
                for rank, process in enumerate(ranks):
                    _, stderr = process.communicate(timeout=120)
                    self.assertLess(time.monotonic() - cut, BOUND_S, f"{transport}: rank {rank}")
                    self.assertNotEqual(process.returncode, 0)
                    self.assertIn(f"rank {1 - rank} is gone", stderr)
        finally:
            self.hosts.mend()
        for transport in runs:
            goes_on, result = self.run_ranks(1, "cut" + transport, "--max_steps", "1")  # done: it only reads
            self.assertTrue(re.search(r"going on from \S+/checkpoint-\d+", result.stderr), result.stderr)
            self.assertGreaterEqual(len(goes_on), 20)


if __name__ == "__main__":
    if reason := why_not():
        print("skipped: " + reason)
        sys.exit(77)
    unittest.main()
