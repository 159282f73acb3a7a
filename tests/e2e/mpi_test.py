#!/usr/bin/env python3
"""--ddp_backend mpi: ranks that mpirun has started train as one process, in the bits of the ring; one that dies is
named and leaves a whole checkpoint."""
import os
import signal
import subprocess
import sys
import time
import unittest

import command_line as cl
from ranks import RanksCase, children_of, is_running, mpirun, run_mpirun, start_mpirun, variables_of, without_mpi

BOUND_S = 30  # from a rank's end to the run's


class Mpi(RanksCase):
    def test_two_and_four_ranks_give_the_losses_of_one_process(self):
        still = ("--learning_rate", "0", "--eval_strategy", "epoch", "--save_strategy", "no")
        wanted, _ = self.run_ranks(1, "one", *still)
        self.assertEqual(len(wanted), 36 + 3 + 1)
        for ranks in (2, 4):
            self.check_same(wanted, self.run_ranks(ranks, f"still{ranks}", *still, launch=mpirun)[0])

    def test_a_run_that_learns_has_the_bits_of_the_ring_each_time(self):
        train = ("--save_strategy", "no", "--num_train_epochs", "1")
        self.run_ranks(3, "ring", *train, "--ddp_backend", "ring")
        wanted = (self.root / "ring" / "model.safetensors").read_bytes()
        for name in ("first", "second"):
            _, result = self.run_ranks(3, name, *train, launch=mpirun)
            self.assertEqual((self.root / name / "model.safetensors").read_bytes(), wanted)
            self.assertEqual(result.stdout.count("***** train metrics *****"), 1, "only rank 0 prints")

    def test_a_rank_that_is_killed_is_named_and_leaves_a_whole_checkpoint(self):
        for victim in (0, 1):
            name = f"killed{victim}"
            run = start_mpirun(self.command(2, name, "--num_train_epochs", "5000", "--save_steps", "10",
                                            "--save_total_limit", "3", launch=mpirun),
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            self.await_checkpoint(name, run)
            ranks, listing = {}, time.monotonic()
            while str(victim) not in ranks:
                if run.poll() is not None:
                    self.fail(f"the run ended by itself: {run.communicate()[1]}")
                self.assertLess(time.monotonic() - listing, BOUND_S, f"rank {victim} is not among {ranks}")
                ranks = {variables_of(pid).get("OMPI_COMM_WORLD_RANK"): pid for pid in children_of(run.pid)}
            os.kill(ranks[str(victim)], signal.SIGKILL)
            begin = time.monotonic()
            _, stderr = run.communicate(timeout=120)
            self.assertLess(time.monotonic() - begin, BOUND_S)
            self.assertNotEqual(run.returncode, 0)
            # mpirun ends the others at once: they may not come to say it, but mpirun does.
            self.assertRegex(stderr, rf"rank {victim} is gone|process rank {victim} with PID .* exited on signal 9")
            while any(is_running(pid) for pid in ranks.values()):  # mpirun does not wait for those that it ends
                self.assertLess(time.monotonic() - begin, BOUND_S, "a rank still runs")
                time.sleep(0.05)
            self.check_goes_on(name)

    def test_without_mpirun_it_says_what_it_wants(self):
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("OMPI_", "PMIX_", "PMI_"))}
        result = cl.run([*self.command(2, "alone"), "--ddp_backend", "mpi"], env=environment)
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("needs processes that mpirun", result.stderr)

    def test_a_rank_that_fails_by_itself_says_why(self):
        """It must not wait in MPI's end for the others, nor they for it."""
        words = self.command(2, "unlike", launch=mpirun)
        shell = ' '.join(f"'{w}'" for w in words[words.index(cl.program()):])
        words[words.index(cl.program()):] = ["sh", "-c", shell + " --learning_rate 1e-$((3 + OMPI_COMM_WORLD_RANK))"]
        begin = time.monotonic()
        result = run_mpirun(words)
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("--learning_rate: rank 0 has 0.001, rank 1 has 0.0001", result.stderr)
        self.assertLess(time.monotonic() - begin, 2 * BOUND_S)


if __name__ == "__main__":
    if without_mpi():
        print("skipped: " + without_mpi())
        sys.exit(77)
    unittest.main()
