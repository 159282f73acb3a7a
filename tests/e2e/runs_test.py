#!/usr/bin/env python3
"""What a run leaves to be looked at: report.html, run.json, training_args.bin, pytorch_model.bin, and `lathe runs`."""
import html.parser
import json
import os
import pathlib
import pickle
import shutil
import subprocess
import sys
import tempfile
import types
import unittest
import zipfile

import command_line as cl


class Loads(html.parser.HTMLParser):
    """Every tag that must be closed is, and what a page would fetch."""

    def __init__(self, text):
        super().__init__()
        self.open, self.fetched, self.text = [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.fetched += [value for key, value in attributes if key in ("src", "href", "data")]
        if tag not in ("meta", "link", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, tag

    def handle_data(self, data):
        self.text.append(data)


class Stand(pickle.Unpickler):
    """The classes of the Trainer only by name, as it is not installed; they keep what they are made of."""

    def find_class(self, module, name):
        assert module.split(".")[0] in ("transformers", "accelerate", "torch"), module

        class Made(types.SimpleNamespace):
            def __init__(self, *arguments):
                self.arguments = arguments
        Made.__name__, Made.__module__ = name, module
        return Made


class Runs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        temp = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temp.cleanup)
        cls.root = pathlib.Path(temp.name)
        cl.write_csv(cls.root / "train.csv", 24, 1)
        cl.write_csv(cls.root / "dev.csv", 9, 2)
        cls.a = cls.train("a", "--report_to", "html", "--run_name", "the <first>", "--save_strategy", "epoch")
        cls.b = cls.train("b", "--learning_rate", "5e-4", "--save_safetensors", "false")

    @classmethod
    def train(cls, name, *more, code=0):
        out = cls.root / "all" / name
        result = cl.run(cl.glue_command(out, cls.root / "train.csv", cls.root / "dev.csv", "--logging_steps", "1",
                                        "--eval_strategy", "epoch", *more))
        assert result.returncode == code, result.stderr
        cls.said = result.stderr
        return out

    def lathe(self, *words, code=0):
        result = cl.run([cl.program(), *map(str, words)], cwd=self.root)
        self.assertEqual(result.returncode, code, result.stderr)
        return result.stdout if code == 0 else result.stderr

    def test_the_report_holds_the_run_and_needs_nothing_else(self):
        text = (self.a / "report.html").read_text(encoding="utf-8")
        page = Loads(text)
        self.assertEqual((page.open, page.fetched), ([], []))
        self.assertNotIn("<script", text)
        self.assertNotIn("http", text)
        shown = "".join(page.text)
        for part in ("the <first>", "finished: step 9 of 9", "loss", "learning rate", "gradient norm", "eval_accuracy",
                     "tokens per second", "memory of the process", "Confusion matrix", "person", "Worst examples",
                     "Class balance", "Scores by label", "Calibration: of the", "label / predicted",
                     "--run_name 'the <first>'", "per_device_train_batch_size", "device"):
            self.assertIn(part, shown)
        self.assertFalse((self.b / "report.html").exists())

    def test_a_resumed_run_goes_on_with_the_page(self):
        out = self.root / "all" / "resumed"
        shutil.copytree(self.a / "checkpoint-3", out / "checkpoint-3")
        self.train("resumed", "--report_to", "all", "--learning_rate", "2e-3")
        self.assertRegex(self.said, r"checkpoint-3: arguments that are not those of this run:\n\S* +learning_rate 0.001 there and "
                                    r"0.002 here \(counts from the next update on; those made stay as they are\)\n")
        rows = (out / "report.html").read_text().split("<h2>Evaluations</h2>")[1].split("</table>")[0].count("<tr>")
        self.assertEqual(rows, 1 + 3)  # titles, three epochs; what is evaluated once more at the end shows no other row
        self.assertTrue(list(out.glob("runs/*/events*")))
        shutil.rmtree(out)

    def test_the_loss_of_every_update_is_seen_whatever_logging_steps_says_and_goes_on_after_a_stop(self):
        def losses(folder):
            lines = (folder / "losses.csv").read_text().splitlines()
            self.assertEqual(lines[0], "step,loss")
            return lines[1:]
        logged = [f"{entry['step']},{entry['loss']:.7g}" for entry in cl.read(self.a / "trainer_state.json")["log_history"]
                  if "loss" in entry]
        self.assertEqual((losses(self.a), len(logged)), (logged, 9))
        out = self.root / "silent"
        result = cl.run(cl.glue_command(out, self.root / "train.csv", self.root / "dev.csv", "--report_to", "html",
                                        "--save_strategy", "epoch"))  # 9 steps, and a log line after 500
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertFalse([entry for entry in cl.read(out / "trainer_state.json")["log_history"] if "loss" in entry])
        self.assertEqual(losses(out), logged)
        self.assertIn('aria-label="loss"', (out / "report.html").read_text())
        self.assertRegex(self.lathe("runs", "plot", "silent"), r"^  loss\n  \S silent\n")
        again = self.root / "again"
        shutil.copytree(out / "checkpoint-3", again / "checkpoint-3")
        result = cl.run(cl.glue_command(again, self.root / "train.csv", self.root / "dev.csv", "--save_strategy", "epoch"))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("going on from", result.stderr)
        self.assertNotIn("newly initialised", result.stderr)  # the checkpoint has them
        self.assertEqual(losses(again), logged)
        (again / "losses.csv").write_text("step,loss\n1,x\n")
        self.assertIn("losses.csv:2: expected a step", self.lathe("runs", "plot", "again", code=1))
        for folder in (out, again):
            shutil.rmtree(folder)

    def test_the_end_says_where_all_is_and_what_comes_next(self):
        out = self.root / "the end"
        result = cl.run(cl.glue_command(out, self.root / "train.csv", self.root / "dev.csv", "--report_to", "html",
                                        "--do_predict", "--test_file", str(self.root / "dev.csv")))
        self.assertEqual(result.returncode, 0, result.stderr)
        said = dict(line[7:].split(": ", 1) for line in result.stderr.splitlines()[-5:])
        self.assertEqual(list(said), ["model", "metrics", "predictions", "report", "next"])
        for name in list(said)[:4]:
            self.assertTrue(pathlib.Path(said[name]).exists(), said)
        pasted = subprocess.run(["bash", "-c", said["next"]], capture_output=True, text=True,
                                env={**os.environ, "PATH": f"{os.path.dirname(cl.program())}:{os.environ['PATH']}"})
        self.assertEqual(pasted.returncode, 0, pasted.stderr)
        self.assertRegex(pasted.stdout, r"^(person|thing|place)\t0\.\d+\t")
        shutil.rmtree(out)

    def test_an_evaluation_alone_has_a_page_beside_that_of_the_training(self):
        out = self.root / "all" / "evaluated"
        shutil.copytree(self.a, out)
        kept = {name: (out / name).read_bytes() for name in ("report.html", "run.json")}
        result = cl.run([cl.program(), "glue", "--model_name_or_path", str(out), "--do_eval", "--validation_file",
                         str(self.root / "dev.csv"), "--output_dir", str(out), "--report_to", "all"])
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("eval_report.html", result.stderr)
        shown = "".join(Loads((out / "eval_report.html").read_text(encoding="utf-8")).text)
        for part in ("finished", "eval_accuracy", "Confusion matrix", "Worst examples", "--do_eval"):
            self.assertIn(part, shown)
        self.assertEqual({name: (out / name).read_bytes() for name in kept}, kept)
        self.assertTrue(any(b"eval/accuracy" in path.read_bytes() for path in out.glob("runs/*/events*")))
        shutil.rmtree(out)

    def test_the_run_file_says_what_was_asked(self):
        run = json.loads((self.a / "run.json").read_text())
        self.assertEqual((run["state"], run["command"][:2]), ("finished", ["lathe", "glue"]))
        self.assertEqual(run["settings"]["run_name"], "the <first>")
        self.assertRegex(run["started"], r"^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ$")

    def test_runs_are_listed_compared_and_plotted(self):
        rows = [json.loads(line) for line in self.lathe("runs", "--json").splitlines()]
        self.assertEqual([(r["run"], r["state"], r["step"], r["steps"], r["task"]) for r in rows],
                         [(f"all/{name}", "finished", 9, 9, "train.csv") for name in "ab"])
        self.assertRegex(rows[0]["metric"], r"^accuracy ")
        self.assertIn("2 runs", self.lathe("runs", "all"))
        compared = self.lathe("runs", "compare", "all/a", "all/b")
        self.assertRegex(compared, r"learning_rate +0\.001 +0\.0005\n")
        self.assertRegex(compared, r"eval_accuracy +\d\S* +\d")
        self.assertNotIn("weight_decay", compared)
        plotted = self.lathe("runs", "plot", "all/a", "all/b", "--metric", "eval_loss")
        self.assertRegex(plotted, r"^  eval_loss\n  \S all/a\n  \S all/b\n")
        self.assertIn("eval_accuracy", self.lathe("runs", "plot", "all/a", "--metric", "nothing", code=2))
        self.assertIn("no run", self.lathe("runs", "compare", "all/a", ".", code=1))
        self.assertIn("expected at least 2", self.lathe("runs", "compare", "all/a", code=2))

    def test_an_evaluation_after_the_log_is_seen(self):
        for name, rate in (("x", "1e-3"), ("y", "2e-3")):
            command = cl.glue_command(self.root / "late" / name, self.root / "train.csv", self.root / "dev.csv",
                                      "--learning_rate", rate)
            self.assertEqual(cl.run(command).returncode, 0)
        wanted = json.loads((self.root / "late" / "x" / "eval_results.json").read_text())["eval_accuracy"]
        rows = [json.loads(line) for line in self.lathe("runs", "late", "--json").splitlines()]
        self.assertEqual(rows[0]["metric"], f"accuracy {wanted:.4g}")
        self.assertRegex(self.lathe("runs", "compare", "late/x", "late/y"), rf"eval_accuracy +{wanted:.6g} +\d")
        shutil.rmtree(self.root / "late")

    def test_a_killed_run_and_pythons_runs_are_seen(self):
        killed = self.root / "other" / "killed"
        shutil.copytree(self.a / "checkpoint-3", killed / "checkpoint-3")
        (row,) = [json.loads(line) for line in self.lathe("runs", "other", "--json").splitlines()]
        self.assertEqual((row["run"], row["state"], row["step"]), ("other/killed", "unfinished", 3))
        # Its log lines have the runtime where tokens are counted; only the last one has the mean loss.
        log = [{"step": 4, "loss": 1.0, "train_runtime": 2.5}, {"step": 4, "train_loss": 1.0, "train_runtime": 3.5}]
        for count, state, seconds in ((1, "unfinished", None), (2, "finished", 3.5)):
            (killed / "trainer_state.json").write_text(json.dumps({"global_step": 4, "log_history": log[:count]}))
            (row,) = [json.loads(line) for line in self.lathe("runs", "other", "--json").splitlines()]
            self.assertEqual((row["state"], row["seconds"]), (state, seconds))
        (killed / "trainer_state.json").write_text("{")  # damaged: said, and no other run is hidden
        self.assertEqual(self.lathe("runs", "other", "--json"), "")
        for history, told in (('"x"', "a list"), ("[5]", "an object"), ('[{"step": "x", "loss": 1}]', "a number")):
            (killed / "trainer_state.json").write_text('{"global_step": 4, "log_history": %s}' % history)
            said = self.lathe("runs", "plot", "other/killed", code=1)
            self.assertIn("log_history", said)
            self.assertIn(told, said)
        shutil.rmtree(self.root / "other")

    def test_what_is_no_file_is_not_read_and_links_lead_nowhere(self):
        folder = self.root / "odd"
        for name in ("pipe", "device", "large", "good"):
            (folder / name).mkdir(parents=True)
        os.mkfifo(folder / "pipe" / "run.json")
        (folder / "device" / "trainer_state.json").symlink_to("/dev/zero")
        with open(folder / "large" / "trainer_state.json", "w") as large:
            large.truncate(1 << 40)
        (folder / "good" / "trainer_state.json").write_text('{"global_step": 4, "log_history": []}')
        (folder / "good").rename(folder / "good run")
        (folder / "again").symlink_to(".")
        (folder / "out").symlink_to("/")
        result = cl.run([cl.program(), "runs", str(folder), "--json"])
        self.assertEqual([json.loads(line)["run"] for line in result.stdout.splitlines()], [f"{folder}/good run"])
        for name, told in (("pipe/run.json", "a device or a pipe"), ("device/trainer_state.json", "a device or a pipe"),
                           ("large/trainer_state.json", "1099511627776 bytes")):
            self.assertRegex(result.stderr, rf"\[WARNING\] {folder}/{name}: found .*{told}")
            self.assertIn(told, self.lathe("runs", "plot", folder / name.split("/")[0], code=1))
        shutil.rmtree(folder)

    @unittest.skipUnless(sys.platform == "linux", "needs Linux's file systems")
    def test_what_the_kernel_shows_as_files_is_not_searched(self):
        for folder in ("/proc", "/proc/self", "/proc/self/", "/proc/self/task", "/sys", "/sys/kernel"):
            result = subprocess.run([cl.program(), "runs", folder], capture_output=True, text=True, timeout=20)
            self.assertEqual(result.returncode, 1)
            self.assertIn(f"error: {folder}: what lies there is shown by the kernel", result.stderr)
        for folder in ("/dev", "/"):
            result = subprocess.run([cl.program(), "runs", folder], capture_output=True, text=True, timeout=60)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertNotIn("/proc/", result.stdout)

    def test_weights_as_pytorch_has_them(self):
        self.assertTrue((self.b / "pytorch_model.bin").exists())
        self.assertFalse((self.b / "model.safetensors").exists())
        one = self.lathe("predict", self.b, "who opened the bridge", "--json")
        self.assertIn("label", json.loads(one))
        out = self.root / "all" / "c"
        for more, left in ((["--save_safetensors", "false"], "pytorch_model.bin"), ([], "model.safetensors")):
            self.train("c", "--overwrite_output_dir", "--learning_rate", "5e-4", *more)
            self.assertEqual({p.name for p in out.iterdir()} & {"model.safetensors", "pytorch_model.bin"}, {left})
            self.assertEqual(self.lathe("predict", out, "who opened the bridge", "--json"), one)
        shutil.rmtree(out)

    def test_arguments_as_a_pickle_of_the_trainers(self):
        for folder in (self.a, self.a / "checkpoint-3"):
            with zipfile.ZipFile(folder / "training_args.bin") as archive:
                with archive.open("training_args/data.pkl") as stream:
                    args = Stand(stream).load()
            self.assertEqual((type(args).__module__, type(args).__name__), ("transformers.training_args", "TrainingArguments"))
            self.assertEqual((args.learning_rate, args.run_name, args.num_train_epochs), (1e-3, "the <first>", 3.0))
            self.assertEqual(type(args.save_strategy).__name__, "SaveStrategy")
            self.assertEqual(args.save_strategy.arguments, ("epoch",))
            self.assertFalse(args.accelerator_config.split_batches)
            self.assertEqual((type(args._setup_devices).__name__, args._setup_devices.arguments), ("device", ("cpu",)))
            self.assertEqual(args.report_to, [])  # html is Lathe's own
            self.assertFalse(hasattr(args, "threads"))


if __name__ == "__main__":
    unittest.main()
