#!/usr/bin/env python3
"""The same --output_dir once more: a run that is another one is refused, one that has ended keeps what it wrote, and one that
goes on with other arguments says what they change."""
import json
import shutil
import struct

import command_line as cl
from ranks import lathe_launch

GOLDEN_QA = cl.MODEL.parent / "question_answering"


def content(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def other_weights(folder):
    """The golden model with one weight changed."""
    shutil.copytree(cl.MODEL, folder)
    path = folder / "model.safetensors"
    weights = bytearray(path.read_bytes())
    weights[-4:] = struct.pack("<f", 0.125)
    path.write_bytes(weights)
    return folder


class Again(cl.CommandsCase):
    def setUp(self):
        super().setUp()
        self.moved = self.root / "moved"
        shutil.copytree(cl.MODEL, self.moved)
        other_weights(self.root / "other_model")
        rows = self.train.read_text().splitlines()
        self.other = {"text": self.root / "text.csv", "labels": self.root / "labels.csv", "swapped": self.root / "swapped.csv"}
        self.other["text"].write_text("\n".join([*rows[:-1], rows[-1].replace("where", "who", 1)]) + "\n")
        names = {"person": "ham", "thing": "spam", "place": "eggs"}
        self.other["labels"].write_text("\n".join(self.renamed(rows, names)) + "\n")
        swap = {"person": "thing", "thing": "person", "place": "place"}  # the same names, of other rows
        self.other["swapped"].write_text("\n".join(self.renamed(rows, swap)) + "\n")
        self.copy = self.root / "data" / "copy.csv"
        self.copy.parent.mkdir()
        shutil.copy(self.train, self.copy)

    @staticmethod
    def renamed(rows, names):
        return [rows[0], *(f"{text},{names[label]}" for text, label in (row.rsplit(",", 1) for row in rows[1:]))]

    def run_glue(self, *more, model=None):
        command = self.command(*more)
        if model:
            command[command.index(str(cl.MODEL))] = str(model)
        return cl.run(command)

    def refused(self, words, *more, code=2, **keywords):
        before = content(self.out)
        result = self.run_glue(*more, **keywords)
        self.assertEqual(result.returncode, code, result.stderr)
        for word in ("--overwrite_output_dir", "another --output_dir", *words):
            self.assertIn(word, result.stderr)
        self.assertEqual(content(self.out), before)
        return result.stderr

    def goes_on(self, *more, **keywords):
        result = self.run_glue(*more, **keywords)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stderr

    def first_run(self, *more, stopped=False):
        """Six updates, checkpoints at 4 and 6; stopped: as if it had been after the fourth."""
        self.goes_on("--save_steps", "4", "--max_seq_length", "16", *more)
        if stopped:
            for path in sorted(self.out.iterdir()):
                if path.name != "checkpoint-4":
                    shutil.rmtree(path) if path.is_dir() else path.unlink()

    def another_run(self):
        """What is another run, and what the message names."""
        labels = ["--train_file", str(self.other["labels"]), "--validation_file", str(self.other["labels"])]
        return [
            (["--train_file", str(self.other["text"])], ["training data: found ", "train.csv, texts in sentence1",
                                                         f"this run has {self.other['text']}"]),
            (["--train_file", str(self.other["swapped"])], [f"this run has {self.other['swapped']}"]),
            (["--max_train_samples", "47"], ["48 samples with the checksum", "the first 47 rows (47 samples with"]),
            (["--max_seq_length", "8"], ["16 tokens at most", "8 tokens at most"]),
            (labels, ['labels: found ["person","place","thing"], this run has ["eggs","ham","spam"]; training data: found ']),
        ]

    # ---- another run

    def test_another_run_is_refused(self):
        for stopped in (False, True):
            with self.subTest(stopped=stopped):
                shutil.rmtree(self.out, ignore_errors=True)
                self.first_run(stopped=stopped)
                for more, words in self.another_run():
                    for resume in ([], ["--resume_from_checkpoint", "true"]):
                        said = self.refused(words, "--save_steps", "4", "--max_seq_length", "16", *more, *resume)
                        self.assertIn(f"--output_dir: {self.out} holds another run (checkpoint-", said)
                        self.assertEqual(stopped and "labels" not in words[0], "to go on from there with these data" in said)
                self.refused(["model: found ", str(cl.MODEL), "other_model"], "--save_steps", "4", "--max_seq_length", "16",
                             model=self.root / "other_model")
                self.goes_on("--save_steps", "4", "--max_seq_length", "16", "--train_file", str(self.copy), model=self.moved)

    def test_both_ways_out(self):
        self.first_run()
        other = ["--train_file", str(self.other["swapped"]), "--max_seq_length", "16"]
        first = (self.out / "model.safetensors").read_bytes()
        self.goes_on(*other, "--output_dir", str(self.root / "second"))
        second = (self.root / "second" / "model.safetensors").read_bytes()
        self.assertNotEqual(first, second)
        self.goes_on(*other, "--overwrite_output_dir")
        self.assertEqual((self.out / "model.safetensors").read_bytes(), second)

    def test_a_named_checkpoint_goes_on_with_other_data_but_not_with_another_model(self):
        self.first_run()
        last, before = (str(self.out / f"checkpoint-{step}") for step in (6, 4))
        resume = ["--max_seq_length", "16", "--output_dir", str(self.root / "second"), "--resume_from_checkpoint"]
        said = self.goes_on(*resume, before, "--train_file", str(self.other["swapped"]))
        self.assertRegex(said, r"training data: found \S+train.csv\b.* \(48 samples with the checksum \w{16}\), this run has "
                               r"\S+swapped.csv\b.* \(48 samples with the checksum \w{16}\) \(it goes on with other samples\)")
        # from then on these are its data
        self.assertIn("already finished at step 6", self.goes_on(*resume[:4], "--train_file", str(self.other["swapped"])))
        for words, more, model in (
                (["other_model", "goes on with the model that it is of"], [], self.root / "other_model"),
                (['"id2label"'], ["--train_file", str(self.other["labels"]), "--validation_file", str(self.other["labels"])],
                 None)):
            for checkpoint in (last, before):
                self.refused(words, *resume, checkpoint, *more, code=1, model=model)
        self.refused(["6 of 6 updates are made, none is left to make with these data"], *resume, last, "--train_file",
                     str(self.other["swapped"]), code=1)

    def test_another_task_is_refused(self):
        self.first_run()
        squad = {"data": [{"title": "t", "paragraphs": [{"context": "the old bridge is small", "qas": [
            {"id": str(i), "question": f"what is {i}", "answers": [{"text": "old bridge", "answer_start": 4}]}
            for i in range(8)]}]}]}
        path = self.root / "squad.json"
        path.write_text(json.dumps(squad))
        before = content(self.out)

        def qa(out, *more):
            return cl.run([cl.program(), "qa", "--model_name_or_path", str(GOLDEN_QA), "--train_file", str(path), "--do_train",
                           "--max_steps", "2", "--save_steps", "1", "--max_seq_length", "32", "--doc_stride", "8", "--use_cpu",
                           "--output_dir", str(out), *more])

        result = qa(self.out)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn('task: found ["BertForSequenceClassification"], this run has ["BertForQuestionAnswering"]', result.stderr)
        self.assertEqual(content(self.out), before)
        # and lathe qa by itself
        out = self.root / "qa"
        self.assertEqual(qa(out).returncode, 0)
        before = content(out)
        result = qa(out)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("already finished at step 2; nothing to train", result.stderr)
        self.assertEqual(content(out), before)
        squad["data"][0]["paragraphs"][0]["qas"][0]["answers"][0] = {"text": "small", "answer_start": 18}
        path.write_text(json.dumps(squad))
        result = qa(out)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("training data: found ", result.stderr)
        self.assertEqual(content(out), before)

    def test_several_processes(self):
        self.first_run()
        before = content(self.out)

        def launch(*more):
            command = self.command("--save_steps", "4", "--max_seq_length", "16", "--per_device_train_batch_size", "4", *more)
            return cl.run(lathe_launch(2, command))

        result = launch()
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stderr.count("already finished at step 6; nothing to train"), 1, result.stderr)
        changed = {name for name, data in content(self.out).items() if before.get(name) != data}
        self.assertEqual(changed, {"eval_results.json", "all_results.json"})
        before = content(self.out)
        result = launch("--train_file", str(self.other["swapped"]))
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("holds another run", result.stderr)
        self.assertEqual(content(self.out), before)

    # ---- a run that has ended

    def test_a_finished_run_keeps_its_results(self):
        test = self.root / "test.csv"
        test.write_text("sentence1\n" + "".join(f"{row.split(',')[0]}\n" for row in self.dev.read_text().splitlines()[1:]))
        for best in ([], ["--load_best_model_at_end", "--eval_strategy", "steps", "--eval_steps", "4", "--save_total_limit", "1",
                          "--metric_for_best_model", "accuracy"]):
            with self.subTest(best=best):
                shutil.rmtree(self.out, ignore_errors=True)
                self.first_run("--report_to", "html", *best)
                before = content(self.out)
                again = ["--save_steps", "4", "--max_seq_length", "16", "--report_to", "html", *best]
                said = self.goes_on(*again, "--do_predict", "--test_file", str(test), "--learning_rate", "0.5")
                self.assertIn(f"{self.out}: already finished at step 6; nothing to train", said)
                self.assertIn("learning_rate 0.001 there and 0.5 here (changes nothing: there is no update left to make)", said)
                self.assertNotIn("Running training", said)
                after = content(self.out)
                changed = {name for name, data in after.items() if before.get(name) != data}
                self.assertEqual(changed, {"eval_results.json", "all_results.json", "eval_report.html",
                                           "predict_results_None.txt"})
                results, wanted = (json.loads(c["all_results.json"]) for c in (after, before))
                self.assertEqual(set(results), set(wanted))
                for key, value in wanted.items():
                    if not key.startswith("eval_") or not key.endswith(("_runtime", "_per_second")):
                        self.assertEqual(results[key], value, key)
                for name in ("eval_report.html", "all_results.json", "predict_results_None.txt"):
                    self.assertIn(str(self.out / name), said)
                if not best:  # which evaluates anyway
                    command = self.command(*again)
                    command.remove("--do_eval")
                    self.assertIn(f"report: {self.out}/report.html", self.works(command).stderr)
                    self.assertEqual(content(self.out), after)
                predicted = self.lathe("glue", "--model_name_or_path", self.out, "--do_predict", "--test_file", test,
                                       "--output_dir", self.root / "predicted")
                self.assertEqual((self.root / "predicted" / "predict_results_None.txt").read_bytes(),
                                 after["predict_results_None.txt"], predicted.stderr)

    def test_what_was_not_written_yet_is_written(self):
        """As of a run that was killed between its last checkpoint and its end, or in its evaluation."""
        self.first_run("--report_to", "html")
        again = ["--save_steps", "4", "--max_seq_length", "16", "--report_to", "html"]
        wanted = content(self.out)
        (self.out / "model.safetensors").unlink()
        (self.out / "trainer_state.json").unlink()
        self.goes_on(*again)
        self.assertEqual((self.out / "model.safetensors").read_bytes(), wanted["model.safetensors"])
        for name in ("README.md", "report.html", "eval_results.json"):
            (self.out / name).unlink()
        run = json.loads((self.out / "run.json").read_text())
        (self.out / "run.json").write_text(json.dumps({**run, "state": "interrupted"}))
        self.assertIn("already finished at step 6", self.goes_on(*again))
        for name in ("README.md", "report.html", "eval_results.json"):
            self.assertTrue((self.out / name).exists(), name)
        self.assertEqual((self.out / "losses.csv").read_bytes(), wanted["losses.csv"])
        self.assertEqual(json.loads((self.out / "run.json").read_text())["state"], "finished")

    # ---- other arguments

    def test_a_card_of_an_earlier_run_is_not_kept(self):
        self.first_run()
        card = (self.out / "README.md").read_bytes()
        run = (self.out / "run.json").read_text()
        (self.out / "run.json").write_text(run.replace('"state": "finished"', '"state": "interrupted"'))
        (self.out / "README.md").write_text("of an earlier run")   # which stopped before it wrote its own
        self.assertIn("already finished", self.goes_on("--save_steps", "4", "--max_seq_length", "16"))
        self.assertEqual((self.out / "README.md").read_bytes(), card)

    def test_a_loss_that_is_not_finite_has_no_point(self):
        self.goes_on("--max_seq_length", "16", "--learning_rate", "1e30", "--logging_nan_inf_filter", "--save_strategy", "no")
        self.assertEqual((self.out / "losses.csv").read_text().splitlines()[1:][1:], [])

    def test_changed_arguments_say_what_they_change(self):
        same = ["--save_steps", "4", "--max_seq_length", "16"]
        for more, words in (
                (["--num_train_epochs", "2"], ["num_train_epochs 1.0 there and 2.0 here (trains to step 12 instead of 6, and the "
                                               "learning rate's schedule ends there, too; updates made stay)"]),
                (["--learning_rate", "2e-3"], ["learning_rate 0.001 there and 0.002 here (counts from the next update on; "]),
                (["--lr_scheduler_type", "cosine"], ["lr_scheduler_type linear there and cosine here (the next update's"]),
                (["--warmup_ratio", "0.5"], ["warmup_ratio 0.0 there and 0.5 here (the next update's learning rate"]),
                (["--per_device_train_batch_size", "16"], ["updates per epoch 6 there and 3 here (another place in the data"]),
                (["--seed", "7"], ["  seed 42 there and 7 here (other dropout masks from here on; the weights drawn at the start "
                                   "stay"]),
                (["--bf16"], ["bf16 False there and True here (the next updates are computed so"])):
            with self.subTest(more=more):
                shutil.rmtree(self.out, ignore_errors=True)
                self.first_run(stopped=True)
                said = self.goes_on(*same, *more)
                for word in words:
                    self.assertIn(word, said)

    def test_a_learning_rate_counts_from_the_next_update_on(self):
        """And a longer run stretches the schedule: what the lines say is what the log shows."""
        log = ["--logging_steps", "1", "--save_steps", "4", "--max_seq_length", "16"]

        def rates():
            return [round(e["learning_rate"], 9) for e in cl.read(self.out / "trainer_state.json")["log_history"] if "loss" in e]

        self.first_run("--logging_steps", "1", stopped=True)
        self.goes_on(*log, "--learning_rate", "2e-3")
        self.assertEqual(rates(), [round(1e-3 * (6 - i) / 6, 9) for i in range(4)] + [round(2e-3 * (6 - i) / 6, 9) for i in (4, 5)])
        self.goes_on(*log, "--num_train_epochs", "2")
        self.assertEqual(rates()[6:], [round(1e-3 * (12 - i) / 12, 9) for i in range(6, 12)])

    def test_a_checkpoint_without_a_record_goes_on(self):
        self.first_run()
        old = cl.ROOT / "tests" / "golden" / "python_checkpoint"
        result = cl.run([cl.program(), "glue", "--model_name_or_path", str(old / "checkpoint-6"), "--train_file",
                         str(old / "train.csv"), "--do_train", "--max_steps", "8", "--max_seq_length", "16", "--use_cpu",
                         "--output_dir", str(self.root / "old"), "--resume_from_checkpoint", str(old / "checkpoint-6")])
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("keeps no record of its training data: whether they are those of this run is not known", result.stderr)


if __name__ == "__main__":
    cl.main()
