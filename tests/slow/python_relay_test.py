#!/usr/bin/env python3
"""One run handed from Hugging Face's Trainer to Lathe, back and again, compared with one that stays in Python.

Runs in $LATHE_HF_PYTHON, a Python with torch, transformers and accelerate (tools/setup.sh --full makes one).  Dropout 0,
fp32, CPU: the losses of a right run are those of the Trainer within LOSS_BOUND, the bound of the 50-update trace.
"""
import json
import os
import pathlib
import random
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import command_line as cl

cl.need_transformers()
os.environ.update(HF_HUB_OFFLINE="1", CUDA_VISIBLE_DEVICES="")
import numpy as np
import torch
import transformers

transformers.utils.logging.disable_progress_bar()
LOSS_BOUND = 5e-6
UPDATES, LEG = 24, 6
COSINE = {"warmup_steps": 3, "lr_scheduler_type": "cosine"}
BY_METRIC = {"eval_strategy": "steps", "eval_steps": 2, "metric_for_best_model": "loss"}
PLATEAU = {"lr_scheduler_type": "reduce_lr_on_plateau",  # "max" of a loss that falls: it never improves
           "lr_scheduler_kwargs": {"patience": 1, "factor": 0.5, "mode": "max"}, **BY_METRIC}
GREEDY = {"lr_scheduler_type": "greedy", **BY_METRIC,
          "lr_scheduler_kwargs": {"patience": 1, "factor": 0.8, "min_lr": 1e-6, "smooth": True, "window_size": 3}}
SGD = {"optim": "sgd", "optim_args": "momentum=0.9,nesterov=true", **COSINE}
ADAFACTOR = {"optim": "adafactor", **COSINE}
LABELS = ["person", "place", "thing"]

TRAIN_WITH = """
import dataclasses, json, sys, torch, transformers
checkpoint, root = sys.argv[1:]
args = torch.load(checkpoint + "/training_args.bin", weights_only=False)
args = CHANGE
args.output_dir, args.max_steps = root + "/third", 1
model = transformers.AutoModelForSequenceClassification.from_pretrained(checkpoint)
rows = torch.load(root + "/rows.bin", weights_only=False)
trainer = transformers.Trainer(model=model, args=args, train_dataset=rows, eval_dataset=rows)
print(json.dumps([trainer.train().global_step, args.learning_rate]))
"""


class StopAt(transformers.TrainerCallback):
    """Ends the run early without max_steps, so that the schedule stays that of the whole run."""

    def __init__(self, step):
        self.step = step

    def on_step_end(self, args, state, control, **kwargs):
        control.should_training_stop = state.global_step >= self.step


class Relay(unittest.TestCase):
    def setUp(self):
        temp = tempfile.TemporaryDirectory()
        self.addCleanup(temp.cleanup)
        self.root = pathlib.Path(temp.name)
        cl.write_csv(self.root / "train.csv", 50, 1)  # 13 batches of 4 an epoch, the last of 2

    def rows(self, tokenizer):
        for line in (self.root / "train.csv").read_text(encoding="utf-8").splitlines()[1:]:
            text, label = line.rsplit(",", 1)
            yield {**tokenizer(text, padding="max_length", max_length=32), "label": LABELS.index(label)}

    def python(self, name, resume=None, stop=UPDATES, accumulation=1, **more):
        """The Trainer's run; its checkpoint at `stop`."""
        model = transformers.AutoModelForSequenceClassification.from_pretrained(cl.MODEL)
        tokenizer = transformers.AutoTokenizer.from_pretrained(cl.MODEL)
        args = transformers.TrainingArguments(
            output_dir=str(self.root / name), use_cpu=True, max_steps=UPDATES, learning_rate=1e-3, weight_decay=0.01,
            per_device_train_batch_size=4, gradient_accumulation_steps=accumulation, logging_steps=1, save_steps=LEG,
            report_to=[], disable_tqdm=True, **(more or COSINE))
        rows = list(self.rows(tokenizer))
        trainer = transformers.Trainer(model=model, args=args, train_dataset=rows, eval_dataset=rows,
                                       processing_class=tokenizer, callbacks=[StopAt(stop)])
        trainer.train(resume_from_checkpoint=None if resume is None else str(resume))
        return self.root / name / f"checkpoint-{stop}"

    def lathe(self, name, resume, accumulation=1, **more):
        """Lathe's run, to its end."""
        more = more or COSINE
        result = cl.run([cl.program(), "glue", "--model_name_or_path", str(cl.MODEL), "--train_file",
                         str(self.root / "train.csv"), "--do_train", "--max_steps", str(UPDATES), "--learning_rate",
                         "1e-3", "--weight_decay", "0.01", "--per_device_train_batch_size", "4",
                         "--gradient_accumulation_steps", str(accumulation), "--max_seq_length", "32",
                         "--logging_steps", "1", "--save_steps", str(LEG), "--use_cpu", "--validation_file",
                         str(self.root / "train.csv"), "--do_eval", "--output_dir", str(self.root / name),
                         "--resume_from_checkpoint", str(resume),
                         *(word for key, value in more.items()
                           for word in (f"--{key}", value if isinstance(value, str) else json.dumps(value))),
                         # transformers 5 scales the loss of a BERT classifier so under accumulation (#47688)
                         *(["--hf_compat_loss_scale"] if accumulation > 1 else [])])
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("written by Hugging Face's Trainer", result.stderr)
        self.assertNotIn("not as the one that was stopped", result.stderr)
        self.assertNotIn("not known (", result.stderr)  # training_args.bin of the Trainer was read
        self.check_arguments(self.root / name / f"checkpoint-{UPDATES}", more["lr_scheduler_type"])
        return self.root / name

    def check_arguments(self, checkpoint, schedule):
        args = torch.load(checkpoint / "training_args.bin", weights_only=False)
        self.assertIsInstance(args, transformers.TrainingArguments)
        self.assertEqual((args.learning_rate, args.max_steps, args.lr_scheduler_type),
                         (1e-3, UPDATES, transformers.SchedulerType(schedule)))
        self.assertEqual(json.loads(args.to_json_string())["weight_decay"], 0.01)
        self.assertEqual(args.device.type, "cpu")

    def test_a_trainer_takes_the_arguments(self):
        """In a process of its own: state that other arguments leave in this one would hide a fault."""
        checkpoint = self.lathe("second", self.python("first", stop=LEG)) / f"checkpoint-{UPDATES}"
        rows = list(self.rows(transformers.AutoTokenizer.from_pretrained(checkpoint)))
        torch.save(rows, self.root / "rows.bin")
        for change in ("args", "dataclasses.replace(args)"):
            with self.subTest(change):
                result = cl.run([sys.executable, "-c", TRAIN_WITH.replace("CHANGE", change), str(checkpoint),
                                 str(self.root)])
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertEqual(json.loads(result.stdout.splitlines()[-1]), [1, 1e-3])

    def log(self, checkpoint):
        history = json.loads((checkpoint / "trainer_state.json").read_text())["log_history"]
        return [entry for entry in history if "grad_norm" in entry]

    def check_same(self, mine, wanted):
        self.assertEqual([e["step"] for e in mine], [e["step"] for e in wanted])
        worst = 0.0
        for a, b in zip(mine, wanted):
            self.assertAlmostEqual(a["epoch"], b["epoch"], delta=1e-12)
            self.assertAlmostEqual(a["learning_rate"], b["learning_rate"], delta=1e-15)
            worst = max(worst, abs(a["loss"] / b["loss"] - 1))
        print(f"largest relative difference of a loss: {worst:.1e}", file=sys.stderr)
        self.assertLessEqual(worst, LOSS_BOUND)

    def load(self, path):
        return torch.load(path, weights_only=True)

    def check_state(self, mine, wanted):
        """Two files of an optimizer: the same settings, counts and shapes; the losses tell whether the moments are right."""
        mine, wanted = self.load(mine / "optimizer.pt"), self.load(wanted / "optimizer.pt")
        self.assertEqual([list(g) for g in mine["param_groups"]], [list(g) for g in wanted["param_groups"]])
        self.assertEqual(mine["param_groups"], wanted["param_groups"])
        self.assertEqual(list(mine["state"]), list(wanted["state"]))
        for number, state in wanted["state"].items():
            self.assertEqual(list(mine["state"][number]), list(state))
            self.assertEqual(mine["state"][number].get("step"), state.get("step"))
            for key in state.keys() - {"step", "RMS"}:
                a, b = mine["state"][number][key], state[key]
                self.assertEqual((a.shape, a.dtype), (b.shape, b.dtype))

    def test_python_lathe_python_lathe(self):
        for accumulation in (1, 2):
            name = f"{accumulation}-"
            whole = self.python(name + "whole", accumulation=accumulation)
            first = self.python(name + "first", stop=LEG, accumulation=accumulation)
            second = self.lathe(name + "second", first, accumulation) / f"checkpoint-{2 * LEG}"
            self.check_state(second, self.root / f"{name}whole" / f"checkpoint-{2 * LEG}")
            third = self.python(name + "third", second, 3 * LEG, accumulation)
            last = self.lathe(name + "last", third, accumulation)
            self.check_same(self.log(last), self.log(whole))
            self.assertEqual(self.load(second / "scheduler.pt"),
                             self.load(self.root / f"{name}whole" / f"checkpoint-{2 * LEG}" / "scheduler.pt"))

    def test_every_optimizer_and_schedule(self):
        for name, more in (("sgd", SGD), ("adafactor", ADAFACTOR), ("plateau", PLATEAU), ("greedy", GREEDY)):
            with self.subTest(name):
                whole = self.python(name + "-whole", **more)
                first = self.root / f"{name}-whole" / f"checkpoint-{LEG}"
                second = self.lathe(name + "-second", first, **more) / f"checkpoint-{2 * LEG}"
                wanted = self.root / f"{name}-whole" / f"checkpoint-{2 * LEG}"
                self.check_state(second, wanted)
                self.check_schedule(self.load(second / "scheduler.pt"), self.load(wanted / "scheduler.pt"))
                third = self.python(name + "-third", second, 3 * LEG, **more)
                self.check_same(self.log(third), self.log(whole)[:3 * LEG])
                last = self.lathe(name + "-last", third, **more)
                self.check_same(self.log(last), self.log(whole))

    def check_schedule(self, mine, wanted):
        self.assertEqual(mine.keys() | {"verbose"}, wanted.keys() | {"verbose"})  # Python's keeps its own where there is none
        for key in mine.keys() - {"best", "_streaming_avg"}:  # metrics, which differ in their last digits
            self.assertEqual(mine[key], wanted[key], key)

    def test_what_torch_loads_and_saves_unchanged_is_what_lathe_wrote(self):
        """An optimizer of torch that took Lathe's state gives it back with the same bits."""
        first = self.python("first", stop=LEG)
        written = self.load(self.lathe("second", first) / "checkpoint-12" / "optimizer.pt")
        model = transformers.AutoModelForSequenceClassification.from_pretrained(cl.MODEL)
        decayed = transformers.Trainer.get_decay_parameter_names(None, model)
        groups = [[p for n, p in model.named_parameters() if (n in decayed) == decay] for decay in (True, False)]
        optimizer = torch.optim.AdamW([{"params": g} for g in groups])
        optimizer.load_state_dict(written)
        again = optimizer.state_dict()
        self.assertEqual(again["param_groups"], written["param_groups"])
        for number, state in written["state"].items():
            for key, tensor in state.items():
                self.assertTrue(torch.equal(again["state"][number][key], tensor), (number, key))
        for number, p in enumerate(groups[0] + groups[1]):  # each with the parameter that it belongs to
            self.assertEqual(written["state"][number]["exp_avg"].shape, p.shape)

    def test_the_generators_of_python_begin_from_what_lathe_wrote(self):
        first = self.python("first", stop=LEG)
        state = self.load(self.lathe("second", first) / "checkpoint-12" / "rng_state.pth")
        torch.set_rng_state(state["cpu"])
        np.random.set_state(state["numpy"])
        random.setstate(state["python"])
        drawn = random.getrandbits(32)
        self.assertEqual(int(np.random.randint(2 ** 32, dtype=np.uint32)), drawn)
        self.assertEqual(len(state["cuda"]), 16)
        seed = int.from_bytes(bytes(state["cpu"][:8].tolist()), "little")
        self.assertEqual(torch.Generator().manual_seed(seed).get_state().tolist(), state["cpu"].tolist())


if __name__ == "__main__":
    cl.main()
