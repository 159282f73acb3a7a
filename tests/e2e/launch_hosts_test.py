#!/usr/bin/env python3
"""lathe launch --hosts: ranks on several machines through ssh. Here $LATHE_SSH names a script in ssh's place that runs the
line on this machine, in an environment of its own, as sshd does."""
import json
import os
import re
import signal
import subprocess
import time
import unittest

import command_line as cl
from ranks import RanksCase, children_of, free_port, has_saved, variables_of
from resume_test import history

HOSTS = "127.0.0.1,somebody@localhost:1"
# What Lathe and its libraries read in addition to what begins with LATHE_ or HF_.
READ = ("HUGGINGFACE_HUB_CACHE", "PYTORCH_ENABLE_MPS_FALLBACK", "PYTORCH_MPS_HIGH_WATERMARK_RATIO", "SSL_CERT_FILE",
        "TENSORBOARD_LOGGING_DIR", "XDG_CACHE_HOME", "https_proxy")
SSH = """#!/bin/sh
printf '%s\\n' "$*" >>"{log}"
host=$1; shift
case $host in *unknown*) printf 'ssh: Could not resolve hostname\\r\\n' >&2; exit 255 ;; esac
case $host in notices) exit 1 ;; crashes) sleep 0.5; kill -SEGV $$ ;; esac
exec env -i PATH="$PATH" sh -c "$*"
"""


def descendants(pid):
    return [p for child in children_of(pid) for p in [child, *descendants(child)]]


def is_program(pid):
    try:
        return os.readlink(f"/proc/{pid}/exe") == os.path.realpath(cl.program())
    except OSError:
        return False


class LaunchHosts(RanksCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.log = cls.root / "ssh.log"
        ssh = cls.root / "ssh"
        ssh.write_text(SSH.format(log=cls.log))
        ssh.chmod(0o755)
        cls.environment = {**os.environ, "LATHE_SSH": f"{ssh}", "HF_TOKEN": "hf_secret",
                           "LATHE_RUN_SECRET": "g" * 32, "LATHE_RUN_SECRET_FILE": "/not/here", "LATHE_ODD": "a'b \"c\" $d",
                           **{name: str(cls.root / name) for name in READ}}

    def hosts_command(self, name, *more, hosts=HOSTS, ranks=2, flag="--hosts"):
        port = str(free_port())
        return self.command(ranks, name, *more, "--ddp_backend", "ring",
                            launch=lambda _, words: [words[0], "launch", flag, str(hosts), "--master_port", port,
                                                     *words[1:]])

    def start_long(self, name, preexec_fn=None, **hosts):
        """The launcher, and its ranks by number."""
        process = subprocess.Popen(self.hosts_command(name, "--num_train_epochs", "50000", "--save_steps", "10",
                                                      "--save_total_limit", "3", **hosts),
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=self.environment,
                                   preexec_fn=preexec_fn)
        until = time.monotonic() + 120
        while not has_saved(self.root / name):
            self.assertLess(time.monotonic(), until, "no checkpoint came")
            self.assertIsNone(process.poll())
            time.sleep(0.01)
        ranks = {variables_of(pid).get("RANK"): pid for pid in descendants(process.pid) if is_program(pid)}
        return process, ranks

    def check_gone(self, ranks):
        until = time.monotonic() + 30
        while any(is_program(pid) for pid in ranks.values()):
            self.assertLess(time.monotonic(), until, "a rank still runs")
            time.sleep(0.05)

    def test_ranks_on_two_hosts_give_the_losses_of_one_process(self):
        still = ("--learning_rate", "0", "--save_strategy", "no")
        wanted, _ = self.run_ranks(1, "one", *still)
        result = cl.run(self.hosts_command("two", *still, hosts="127.0.0.1:2,localhost:2", ranks=4),
                        env=self.environment)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.check_same(wanted, history(self.root / "two"))
        self.assertEqual(result.stdout.count("***** train metrics *****"), 1, "rank 0 alone prints")

    def test_the_environment_goes_along_but_not_on_the_command_line(self):
        process, ranks = self.start_long("variables", hosts=HOSTS + ",127.0.0.1")
        found, twice = variables_of(ranks["1"]), variables_of(ranks["2"])
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=120)
        self.assertEqual(found["HF_TOKEN"], "hf_secret")
        self.assertEqual(found["LATHE_ODD"], self.environment["LATHE_ODD"])
        for name in READ:
            self.assertEqual(found.get(name), self.environment[name], name)
        self.assertEqual((found["MASTER_ADDR"], found["LOCAL_RANK"], found["WORLD_SIZE"]), ("127.0.0.1", "0", "3"))
        self.assertEqual((twice["LOCAL_RANK"], twice["LOCAL_WORLD_SIZE"]), ("1", "2"), "the second GPU of a host named twice")
        self.assertRegex(found["TORCHELASTIC_RUN_ID"], r"\A[0-9a-f]{8}\Z")
        self.assertEqual(found["TORCHELASTIC_RUN_ID"], twice["TORCHELASTIC_RUN_ID"], "the name of the run")
        self.assertRegex(found["LATHE_RUN_SECRET"], r"\A[0-9a-f]{64}\Z")
        self.assertEqual(found["LATHE_RUN_SECRET"], twice["LATHE_RUN_SECRET"], "the run's own")
        self.assertNotIn("LATHE_RUN_SECRET_FILE", found)
        self.assertNotIn(found["LATHE_RUN_SECRET"], self.log.read_text())
        self.assertNotIn("LATHE_SSH", found)
        self.assertIn("somebody@localhost", self.log.read_text())
        self.assertNotIn("hf_secret", self.log.read_text())

    def host_file(self, content):
        file = self.root / "hosts.json"
        file.write_text(json.dumps(content))
        return file

    def test_a_host_file_of_mlx_names_hosts_and_addresses(self):
        file = self.host_file({"backend": "jaccl", "hosts": [
            {"ssh": "localhost", "ips": ["127.0.0.1"], "rdma": [None, "rdma_en5"]},
            {"ssh": "somebody@localhost", "ips": [], "rdma": ["rdma_en4", None]}]})
        process, ranks = self.start_long("file", hosts=file, flag="--hostfile")
        found = [variables_of(ranks[rank]) for rank in "01"]
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=120)
        for mine in found:
            self.assertEqual((mine["MASTER_ADDR"], mine["WORLD_SIZE"]), ("127.0.0.1", "2"))

    def test_a_host_file_that_does_not_say_enough_is_named_with_the_host(self):
        a, b = {"ssh": "a"}, {"ssh": "b"}
        for content, said in (([a, {"ips": []}], 'host 1: the key "ssh" is missing'), ([], "expected a list of one or more"),
                              ({"hosts": 3}, "expected a list"), ([{"ssh": "user@"}], 'host 0: found "user@" for "ssh"'),
                              ([a, {"ssh": "-x"}], '"-x"')):
            result = cl.run([cl.program(), "launch", "--hostfile", str(self.host_file(content)), "glue"])
            self.assertIn(said, result.stderr)
            self.assertIn("hosts.json", result.stderr)
            self.assertEqual(result.returncode, 1, result.stderr)
        result = cl.run([cl.program(), "launch", "--hostfile", str(self.host_file([a, b])), "--hosts", "a", "glue"])
        self.assertIn("expected one of them", result.stderr)
        self.assertEqual(result.returncode, 2, result.stderr)

    def test_a_rank_that_is_killed_ends_all_with_its_name_and_host(self):
        process, ranks = self.start_long("killed")
        os.kill(ranks["1"], signal.SIGKILL)
        begin = time.monotonic()
        _, stderr = process.communicate(timeout=120)
        self.assertLess(time.monotonic() - begin, 30)
        self.assertEqual(process.returncode, 128 + signal.SIGKILL, stderr)
        self.assertTrue(re.search(r"error: rank 1 ended by signal 9 \(Killed\) on somebody@localhost; "
                                  r"last whole checkpoint: \S+", stderr), stderr)
        self.check_gone(ranks)

    def test_the_rank_that_a_signal_ended_is_named_also_where_another_was_seen_to_end_before_it(self):
        result = cl.run(self.hosts_command("crash", hosts="notices,crashes"), env=self.environment)
        self.assertIn("error: rank 1 ended by signal 11 (Segmentation fault) on crashes", result.stderr)
        self.assertEqual(result.returncode, 128 + signal.SIGSEGV, result.stderr)

    def test_ctrl_c_stops_all_behind_one_checkpoint(self):
        process, ranks = self.start_long("stopped")
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=120)
        self.assertEqual(process.returncode, -signal.SIGINT, stderr)
        self.assertEqual(len(re.findall(r"--resume_from_checkpoint (\S+)", stderr)), 1, stderr)
        self.check_gone(ranks)

    def test_ctrl_z_stops_all_until_the_launcher_goes_on(self):
        process, ranks = self.start_long("paused", preexec_fn=os.setpgrp)  # as a shell with job control starts it
        all_of_it = [process.pid, *ranks.values()]
        for number, states in ((signal.SIGTSTP, "T"), (signal.SIGCONT, "RSD"), (signal.SIGTSTP, "T"), (signal.SIGCONT, "RSD")):
            process.send_signal(number)
            self.await_states(all_of_it, states)
        process.send_signal(signal.SIGTERM)
        _, stderr = process.communicate(timeout=120)
        self.assertEqual(process.returncode, -signal.SIGTERM, stderr)
        self.check_gone(ranks)

    def test_ranks_end_where_the_launcher_is_killed(self):
        process, ranks = self.start_long("orphans")
        process.kill()
        process.communicate(timeout=60)
        self.check_gone(ranks)

    def test_hosts_by_their_ipv6_addresses(self):
        """They reach ssh without brackets, as it needs them, and the others as the first one's address."""
        self.log.write_text("")
        result = cl.run(self.hosts_command("six", "--max_steps", "1", "--ddp_timeout", "1",
                                           hosts="[unknown::1]:2,somebody@[unknown::2]", ranks=3), env=self.environment)
        self.assertRegex(result.stderr, r"on (unknown::1|somebody@unknown::2) \(ssh's own code")  # whichever is seen first
        hosts = sorted(line.split()[0] for line in self.log.read_text().splitlines())
        self.assertEqual(hosts, ["somebody@unknown::2", "unknown::1", "unknown::1"])
        for broken in ("::1", "a,fe80::1:2", "[a", "a]", "[a]b"):
            result = cl.run([cl.program(), "launch", "--hosts", broken, "glue"])
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn(f'--hosts: found "{broken}", expected names as a,b:2 (:2 for two processes), IPv6 addresses as', result.stderr)

    def test_a_host_that_is_not_there_is_named(self):
        result = cl.run(self.hosts_command("unknown", hosts="127.0.0.1,unknown"), env=self.environment)
        self.assertEqual(result.returncode, 255, result.stderr)
        self.assertIn("rank 1 ended with exit code 255 on unknown (ssh's own code", result.stderr)
        self.assertIn("[rank 1] ssh: Could not resolve hostname\n", result.stderr)
        for hosts in ("a,,b", "a:0", "-oProxyCommand=x"):
            result = cl.run([cl.program(), "launch", "--hosts", hosts, "glue"], env=self.environment)
            self.assertEqual(result.returncode, 2, hosts)
            self.assertIn("--hosts", result.stderr)


if __name__ == "__main__":
    unittest.main()
