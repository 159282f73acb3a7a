#!/usr/bin/env python3
"""Several processes with what else a run may ask for: questions, split_batches, batch_rebalance give the losses of one
process; gradients that travel in bf16 change them by no more than bf16 rounds."""
import json
import random
import unittest

import command_line as cl
from ranks import LOSS_ROUNDING, NORM_ROUNDING, ROWS, RanksCase, has_part, lathe_launch
from resume_test import history

BF16_UNIT = 2.0 ** -8  # half the distance of bf16 numbers near 1
STILL = ("--learning_rate", "0", "--save_strategy", "no")


def write_squad(path, rows, seed):
    draw = random.Random(seed)
    paragraphs = []
    for i in range(rows):
        words = [draw.choice(cl.WORDS) for _ in range(draw.randint(6, 40))]
        start = draw.randrange(len(words) - 2)
        answer = " ".join(words[start:start + 2])
        answer = {"text": answer, "answer_start": len(" ".join(words[:start])) + (start > 0)}
        paragraphs.append({"context": " ".join(words), "qas": [{"id": f"q{i}", "question": "who is new", "answers": [answer]}]})
    path.write_text(json.dumps({"version": "1.1", "data": [{"title": "t", "paragraphs": paragraphs}]}))


class RanksOptions(RanksCase):
    def test_questions(self):
        write_squad(self.root / "squad.json", 60, 1)
        write_squad(self.root / "squad_dev.json", 21, 2)
        logs, answers = [], []
        for ranks in (1, 3):
            out = self.root / f"qa{ranks}"
            command = [cl.program(), "qa", "--model_name_or_path", str(self.root / "model"), "--train_file",
                       str(self.root / "squad.json"), "--validation_file", str(self.root / "squad_dev.json"), "--do_train",
                       "--do_eval", "--max_seq_length", "32", "--doc_stride", "8", "--per_device_train_batch_size",
                       str(12 // ranks), "--num_train_epochs", "1", "--logging_steps", "1", "--output_dir", str(out),
                       "--use_cpu", "--seed", "7", "--dataloader_drop_last", *STILL]  # else a last round is filled up
            result = cl.run(command if ranks == 1 else lathe_launch(ranks, command))
            self.assertEqual(result.returncode, 0, result.stderr)
            logs.append(history(out))
            answers.append(json.loads((out / "eval_predictions.json").read_text()))
        self.assertEqual(len(answers[0]), 21)
        for log, answer in zip(logs[1:], answers[1:]):
            self.check_same(logs[0], log)
            self.assertEqual(answer, answers[0])

    def test_split_batches_divides_the_batch_of_one_process(self):
        wanted, _ = self.run_ranks(1, "unsplit", *STILL)
        self.check_same(wanted, self.run_ranks(4, "split", *STILL, "--accelerator_config", '{"split_batches": true}',
                                               "--per_device_train_batch_size", str(ROWS))[0])

    def test_batch_rebalance_gives_each_rank_what_one_process_accumulates(self):
        """The same groups of samples of like length, side by side instead of one after the other."""
        more = (*STILL, "--train_sampling_strategy", "batch_rebalance")
        wanted, _ = self.run_ranks(1, "one_by_one", *more, accumulation=2)
        self.check_same(wanted, self.run_ranks(2, "side_by_side", *more)[0])

    def transports(self):
        return ["ring", "gloo"] if has_part("gloo") else ["ring"]

    def alike(self, name, *more):
        """Two ranks that see the same rows in the same order, without dropout: their gradients have the same bits, and
        so the sum in bf16 is off by the rounding of one of them."""
        rows = (self.root / "train.csv").read_text().splitlines()
        blocks = [rows[i:i + ROWS // 2] for i in range(1, len(rows), ROWS // 2)]
        (self.root / "twice.csv").write_text("\n".join([rows[0], *(row for block in blocks for row in block * 2)]) + "\n")
        command = self.command(2, name, "--train_sampling_strategy", "sequential", "--num_train_epochs", "1",
                               "--save_strategy", "no", "--max_grad_norm", "0", *more)
        command[command.index(str(self.root / "train.csv"))] = str(self.root / "twice.csv")
        command[command.index(str(self.root / "model"))] = str(cl.MODEL)
        result = cl.run(command)
        self.assertEqual(result.returncode, 0, result.stderr)
        return [e for e in history(self.root / name) if "loss" in e]

    def test_gradients_in_bf16_are_off_by_its_rounding(self):
        wanted = self.alike("f32", "--learning_rate", "0")
        for transport in self.transports():
            mine = self.alike("bf16" + transport, "--learning_rate", "0", "--ddp_comm_hook", "bf16", "--ddp_backend",
                              transport)
            self.assertEqual([e["loss"] for e in mine], [e["loss"] for e in wanted], "losses do not travel so")
            self.assertNotEqual([e["grad_norm"] for e in mine], [e["grad_norm"] for e in wanted])
            for a, b in zip(wanted, mine):
                self.assertAlmostEqual(b["grad_norm"], a["grad_norm"],
                                       delta=(BF16_UNIT + NORM_ROUNDING) * a["grad_norm"])

    def test_losses_of_a_run_with_gradients_in_bf16(self):
        """Plain gradient descent: after k updates a weight is off by at most rate · unit · Σ |g_i|, which changes a loss,
        to first order, by that times |g|; as much again for what is of higher order."""
        rate, updates = 0.01, 8
        more = ("--learning_rate", str(rate), "--optim", "sgd", "--lr_scheduler_type", "constant", "--max_steps", str(updates))
        wanted, mine = self.alike("sgd_f32", *more), self.alike("sgd_bf16", *more, "--ddp_comm_hook", "bf16")
        self.assertEqual(len(wanted), updates)
        gone = 0.0
        for a, b in zip(wanted, mine):
            bound = 2 * rate * BF16_UNIT * gone * a["grad_norm"] + LOSS_ROUNDING * a["loss"]
            self.assertAlmostEqual(b["loss"], a["loss"], delta=bound)
            gone += a["grad_norm"]
        self.assertNotEqual([e["loss"] for e in mine], [e["loss"] for e in wanted])

    def test_it_is_no_part_of_what_one_process_does(self):
        wanted, _ = self.run_ranks(1, "alone", *STILL)
        self.assertEqual(self.run_ranks(1, "alone_bf16", *STILL, "--ddp_comm_hook", "bf16")[0], wanted)
        result = cl.run(self.command(1, "power", "--ddp_comm_hook", "power_sgd"))
        self.assertEqual(result.returncode, 2)
        self.assertIn("--ddp_comm_hook", result.stderr)


if __name__ == "__main__":
    unittest.main()
