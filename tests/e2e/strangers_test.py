#!/usr/bin/env python3
"""Who else knocks at the ports of a run: strangers change no bit of it, ranks of one machine listen on its loopback only, and
the run's secret stands nowhere but in its ranks' environment."""
import os
import pathlib
import re
import signal
import socket
import struct
import subprocess
import threading
import time
import unittest

import command_line as cl
from ranks import RanksCase, children_of, free_port, variables_of

LISTENS = "0A"  # a state in /proc/net/tcp
HELLO = 0x4c544831  # the first word of what ranks say
NOISES = [b"", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"x" * 5000,
          struct.pack("=3I", HELLO, 0, 1 << 30), struct.pack("=3I", HELLO, 0, 24) + b"\0\2\1\0" + struct.pack("=2I", 1, 2),
          struct.pack("=3I", HELLO, 1, 4) + b"12 xy"]  # the last one as a rank of an older Lathe
CROWD = 100


def listening_addresses(pid):
    """Where a process takes connections, as /proc/net/tcp has the addresses."""
    sockets = set()
    for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        try:
            sockets.add(re.sub(r"\D", "", os.readlink(fd)) if "socket" in os.readlink(fd) else None)
        except OSError:
            continue
    found = set()
    for table in ("tcp", "tcp6"):
        for line in pathlib.Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == LISTENS and fields[9] in sockets:
                found.add(fields[1].split(":")[0])
    return found


class Crowd(threading.Thread):
    """Comes to a port again and again until it is sent home; the last hundred stay there as long as they are let."""

    def __init__(self, port):
        super().__init__()
        self.port, self.came, self.home = port, 0, threading.Event()

    def run(self):
        held = []
        while not self.home.is_set():
            try:
                held.append(socket.create_connection(("127.0.0.1", self.port), timeout=1))
                held[-1].sendall(NOISES[self.came % len(NOISES)])
                self.came += 1
            except OSError:
                self.home.wait(0.001)  # nobody listens yet, or it was sent away while it spoke
            if len(held) > CROWD:
                held.pop(0).close()
        for one in held:
            one.close()


class Strangers(RanksCase):
    def launch_at(self, port, name, *more):
        return self.command(2, name, *more, launch=lambda ranks, words: [
            words[0], "launch", "-n", str(ranks), "--master_port", str(port), *words[1:]])

    def test_a_crowd_at_the_port_changes_no_bit(self):
        once = ("--num_train_epochs", "8", "--save_strategy", "no", "--ddp_backend", "ring")
        self.run_ranks(2, "alone", *once)
        port = free_port()
        crowd = Crowd(port)
        crowd.start()
        try:
            result = cl.run(self.launch_at(port, "crowded", *once))
        finally:
            crowd.home.set()
            crowd.join()
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertGreater(crowd.came, CROWD)
        self.assertEqual((self.root / "crowded" / "model.safetensors").read_bytes(),
                         (self.root / "alone" / "model.safetensors").read_bytes())

    @staticmethod
    def end(process):
        if process.poll() is None:
            process.kill()
            process.communicate()

    def test_no_more_than_sixteen_strangers_are_held(self):
        port = free_port()
        process = subprocess.Popen(self.launch_at(port, "held", "--num_train_epochs", "50000", "--save_steps", "10",
                                                  "--save_total_limit", "3", "--ddp_backend", "ring"),
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.end, process)
        self.await_checkpoint("held", process)
        descriptors = pathlib.Path(f"/proc/{children_of(process.pid)[0]}/fd")

        def connections():
            count = 0
            for path in descriptors.iterdir():
                try:
                    count += os.readlink(path).startswith("socket")
                except OSError:
                    pass
            return count

        before = connections()
        silent = [socket.create_connection(("127.0.0.1", port), timeout=5) for _ in range(60)]
        most, until = 0, time.monotonic() + 60
        while most < 10:
            self.assertLess(time.monotonic(), until, "they are not heard")
            most = max(most, connections() - before)
        for _ in range(500):
            most = max(most, connections() - before)
        self.assertLessEqual(most, 17, "one more while it takes another's place")
        for one in silent:
            one.close()
        process.send_signal(signal.SIGTERM)
        _, stderr = process.communicate(timeout=60)
        self.assertEqual(process.returncode, -signal.SIGTERM, stderr)

    def test_ranks_of_one_machine_listen_on_loopback_and_keep_their_secret(self):
        """Also where the environment that they come from has a secret, and another address: the run has its own."""
        given = "given" * 10
        environment = {**os.environ, "LATHE_RUN_SECRET": given, "MASTER_ADDR": "192.0.2.1"}
        process = subprocess.Popen(self.launch_at(free_port(), "long", "--num_train_epochs", "50000", "--save_steps", "10",
                                                  "--save_total_limit", "3"),
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
        self.addCleanup(self.end, process)
        self.await_checkpoint("long", process)
        ranks = children_of(process.pid)
        addresses = [listening_addresses(rank) for rank in ranks]
        secrets = {variables_of(rank)["LATHE_RUN_SECRET"] for rank in ranks}
        lines = [pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().decode() for pid in [process.pid, *ranks]]
        process.send_signal(signal.SIGTERM)
        said = "".join(process.communicate(timeout=60))
        self.assertTrue(addresses[0], "rank 0 keeps the store")
        self.assertLessEqual(set().union(*addresses), {"0100007F"})
        self.assertEqual(len(secrets), 1, "one for all ranks")
        secret = secrets.pop()
        self.assertRegex(secret, r"\A[0-9a-f]{64}\Z")
        self.assertNotIn("no secret", said)
        written = [path for path in (self.root / "long").rglob("*") if path.is_file()]
        self.assertIn("run.json", [path.name for path in written])
        for hidden in (secret, given):
            self.assertNotIn(hidden, said + "".join(lines))
            for path in written:
                self.assertNotIn(hidden.encode(), path.read_bytes(), path.name)

    def test_a_rank_without_the_secret_is_told_so_and_rank_0_says_who_came(self):
        port, more = str(free_port()), {"LATHE_RUN_SECRET": "s" * 32}
        ranks = []
        for rank, secret in enumerate((more, {})):
            environment = {**os.environ, "RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2",
                           "MASTER_PORT": port, "TORCHELASTIC_RUN_ID": "x", **secret}
            ranks.append(subprocess.Popen(self.command(2, "unlike", launch=lambda _, words: words), text=True,
                                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment))
            self.addCleanup(self.end, ranks[-1])
        _, stderr = ranks[1].communicate(timeout=60)
        self.assertEqual(ranks[1].returncode, 2, stderr)
        self.assertIn("the run has a secret, this rank none: give all ranks of the run one secret (LATHE_RUN_SECRET", stderr)
        self.assertIsNone(ranks[0].poll(), "whoever came, the run goes on")
        ranks[0].kill()
        _, stderr = ranks[0].communicate(timeout=60)
        self.assertIn("warning: a process that says it is rank 1 was sent away: this run has a secret, it none", stderr)

    def test_a_secret_that_is_none_is_refused_without_showing_it(self):
        file = self.root / "secret"
        file.write_text("hush" * 10 + "\n")
        file.chmod(0o644)
        for variables, said in (({"LATHE_RUN_SECRET": "hush"}, "LATHE_RUN_SECRET: found a secret of 4 characters, expected 32"),
                                ({"LATHE_RUN_SECRET_FILE": str(file)}, "found mode 644, expected 600"),
                                ({"LATHE_RUN_SECRET_FILE": "/not/here"}, "LATHE_RUN_SECRET_FILE /not/here: No such file")):
            environment = {**os.environ, "RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", **variables}
            result = cl.run(self.command(2, "none", launch=lambda _, words: words), env=environment)
            self.assertNotEqual(result.returncode, 0)
            self.assertIn(said, result.stderr)
            self.assertNotIn("hush", result.stderr)


if __name__ == "__main__":
    unittest.main()
