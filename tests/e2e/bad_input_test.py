#!/usr/bin/env python3
"""Bad input ends with a message that says where, what was found, what is wanted and the way out; with exit code 2 for
usage and 1 for the rest; and with nothing half-written left."""
import json
import math
import shutil
import struct
import unittest

import command_line as cl
from bad_input import GOOD_CSV, BadInputCase, files_below, join_weights, set_values, split_weights


class BadInput(BadInputCase):
    # ---- the output folder

    def test_a_run_that_fails_takes_away_the_folders_that_it_made_and_no_others(self):
        missing = ["--model_name_or_path", str(self.root / "nowhere")]
        self.out = self.root / "made" / "by it"
        self.fails([*self.command(), *missing], "nowhere")
        self.assertFalse(self.out.parent.exists())
        self.train.write_text(GOOD_CSV.replace("who,who", "who,"))
        self.fails(self.command(), "expected a label in every row")
        self.assertFalse(self.out.parent.exists())
        self.out.parent.mkdir()
        self.fails(self.command(), "expected a label in every row")
        self.assertEqual(files_below(self.root / "made"), [])
        self.out.mkdir()
        self.fails(self.command(), "expected a label in every row")
        self.assertEqual(files_below(self.root / "made"), ["by it"])

    # ---- the output

    def test_output_folder_that_cannot_be_written(self):
        (self.root / "file").write_text("mine")
        for folder, code in ((self.root / "file", 2), (self.root / "file" / "below", 1), ("/proc/lathe", 1)):
            self.fails([*self.command(), "--output_dir", str(folder)], "--output_dir", folder, code=code)
        self.assertEqual((self.root / "file").read_text(), "mine")
        (self.root / "link").symlink_to("nowhere/deep")
        for folder in (self.root / "link", f"{self.root / 'link'}/", self.root / "link" / "below"):
            self.fails([*self.command(), "--output_dir", str(folder)],
                       f"{self.root / 'link'} is a link to nowhere/deep, which is not there")

    def test_output_folder_that_is_not_empty(self):
        self.out.mkdir()
        (self.out / "notes.txt").write_text("mine")
        self.fails(self.command(), self.out, "not empty", "--overwrite_output_dir", code=2, keep=["notes.txt"])

    def test_what_a_run_leaves_that_ended_before_its_first_checkpoint_is_written_over(self):
        (self.out / "runs" / "Jan01_00-00-00_host").mkdir(parents=True)
        (self.out / "report.html").write_text("mine")
        (self.out / "old-checkpoint-3").mkdir()  # it has begun over another, and set that one's checkpoints aside
        self.fails(self.command(), "not empty", code=2,
                   keep=["old-checkpoint-3", "report.html", "runs", "runs/Jan01_00-00-00_host"])
        (self.out / "run.json").write_text("{}")
        (self.out / ".tmp-checkpoint-3-1-0").mkdir()
        self.works([*self.command(), "--report_to", "html", "--max_steps", "1"])
        self.assertIn("step 1 of 1", (self.out / "report.html").read_text())
        self.assertTrue((self.out / "old-checkpoint-3").exists())

    def test_what_is_left_of_a_run_whose_disk_was_full_is_written_over(self):
        (self.out / "runs" / "Jan01_00-00-00_host").mkdir(parents=True)
        self.works([*self.command(), "--max_steps", "1"])

    def test_a_metric_that_no_evaluation_has_is_refused_before_training(self):
        best = ["--eval_strategy", "epoch", "--save_strategy", "epoch", "--load_best_model_at_end",
                "--metric_for_best_model"]
        message = self.fails([*self.command(), *best, "foo"], "--metric_for_best_model: found foo", code=2)
        self.assertIn("expected one of loss, accuracy", message)
        self.dev.write_text("sentence1,sentence2\nred ship,old bridge\n")  # no labels, no metrics
        message = self.fails([*self.command(), *best[:-1]], "--metric_for_best_model: found loss", code=2)
        self.assertIn("the validation data give no metric to follow", message)
        self.dev.write_text(GOOD_CSV)
        for name in ("eval_accuracy", "loss"):
            self.works([*self.command(), *best, name, "--max_steps", "1", "--overwrite_output_dir"])

    def test_questions_have_no_loss_to_follow(self):
        path = self.root / "questions.json"
        answer = {"id": "q", "question": "who", "answers": [{"text": "old", "answer_start": 4}]}
        path.write_text(json.dumps({"data": [{"paragraphs": [{"context": "the old bridge", "qas": [answer]}]}]}))
        command = [cl.program(), "qa", "--model_name_or_path", str(self.model), "--train_file", str(path),
                   "--validation_file", str(path), "--do_train", "--eval_strategy", "epoch", "--save_strategy", "epoch",
                   "--load_best_model_at_end", "--max_seq_length", "64", "--doc_stride", "16", "--output_dir", str(self.out)]
        message = self.fails(command, "--metric_for_best_model: found loss (as where none is given)", code=2)
        self.assertIn("expected one of exact_match, f1", message)
        self.works([*command, "--metric_for_best_model", "f1", "--num_train_epochs", "1"])

    def mount_small_disk(self, size):
        disk = self.root / "disk"
        disk.mkdir()
        mount = shutil.which("mount")
        if mount is None or cl.run([mount, "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(disk)]).returncode != 0:
            self.skipTest("needs the right to mount a small disk")
        self.addCleanup(cl.run, ["umount", str(disk)])
        return disk

    def test_disk_that_fills_up_while_saving_leaves_the_old_checkpoint_whole(self):
        self.out = self.mount_small_disk("12m") / "out"
        self.works([*self.command(), "--save_steps", "2", "--max_steps", "2"])
        before = {n: (self.out / n).read_bytes() for n in files_below(self.out)
                  if (self.out / n).is_file() and n not in ("run.json", "losses.csv")}  # they tell of the last run
        free = shutil.disk_usage(self.out).free
        filler = self.out.parent / "filler"
        filler.write_bytes(b"x" * (free - (64 << 10)))
        for saving in (["--save_steps", "2"], ["--save_strategy", "no"]):  # a checkpoint, the model at the end
            message = self.fails([*self.command(), *saving, "--max_steps", "4"], self.out, keep=files_below(self.out))
            for word in ("0.1 MB free", "MB to save", "make room", "are whole"):
                self.assertIn(word, message)
            for name, content in before.items():
                self.assertEqual((self.out / name).read_bytes(), content, name)
        filler.unlink()
        result = self.works([*self.command(), "--save_steps", "2", "--max_steps", "4"])
        self.assertIn("going on from", result.stderr)

    # ---- lathe predict

    def test_lines_to_predict(self):
        path = self.root / "texts.txt"
        command = [cl.program(), "predict", str(self.model), "--file", str(path)]
        for content, *words in (
                ("red ship\told bridge\nred ship\n", f"{path}:2", "found 1 texts", f"expected 2 as in {path}:1", "one tab"),
                ("red ship\n\nred\tship\n", f"{path}:3", "found 2 texts", f"expected 1 as in {path}:1"),
                ("a\tb\nred\tship\tbridge\n", f"{path}:2", "found 3 texts", "expected 2"),
                ("red\tship\tbridge\n", f"{path}:1", "found 3 texts", "expected one or two"), ("", path, "empty")):
            path.write_text(content)
            self.fails(command, *words)
        path.write_bytes(b"red ship\na \xff\n")
        self.fails(command, f"{path}:2", "byte 3", "0xff", "UTF-8")
        self.fails([cl.program(), "predict", str(self.model), "red", b"a \xff"], "text 2", "UTF-8")
        self.fails([cl.program(), "predict", str(self.model), "red", "red\tship"], "text 2", "found 2 texts",
                   "expected 1 as in text 1")
        path.write_text("red ship\told bridge\n\t\n")
        self.assertEqual(len(self.works(command).stdout.splitlines()), 2)

    # ---- the run

    def test_loss_that_is_not_finite_names_step_and_last_checkpoint(self):
        self.fails([*self.command(), "--learning_rate", "1e30", "--max_grad_norm", "0", "--save_strategy", "no"],
                   "step", "not finite", "--learning_rate", "no checkpoint")
        result = cl.run([*self.command(), "--learning_rate", "1e30", "--save_steps", "1"])
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("not finite", result.stderr)
        saved = [p.name for p in self.out.glob("checkpoint-*")]
        self.assertTrue(saved)
        for name in saved:  # what was saved before is good
            header, data = split_weights(self.out / name / "model.safetensors")
            self.assertTrue(all(abs(x) < float("inf") for (x,) in struct.iter_unpack("<f", data)), name)

    def test_given_the_filter_a_loss_that_is_not_finite_is_logged_as_by_transformers(self):
        values = [0.25 * (i % 4) for i in range(32)]
        texts = [f"red ship {i}" for i in range(32)]
        texts[13] = "old bridge"  # the sum of its embedding is beyond fp32
        header, data = split_weights(self.model / "model.safetensors")
        words = header["bert.embeddings.word_embeddings.weight"]
        width = 4 * words["shape"][1]
        bridge = json.loads((self.model / "tokenizer.json").read_text())["model"]["vocab"]["bridge"]
        at = words["data_offsets"][0] + bridge * width
        join_weights(self.model / "model.safetensors", header,
                     data[:at] + struct.pack("<f", 3e38) * (width // 4) + data[at + width:])

        def entries(*more):
            self.train.write_text("sentence1,label\n" + "".join(f"{t},{v}\n" for t, v in zip(texts, values)))
            self.dev.write_text("sentence1,label\n" + "red ship,0.5\n" * 8 + "old bridge,0.5\n")
            command = [*self.command(), "--num_train_epochs", "1", "--per_device_train_batch_size", "4",
                       "--per_device_eval_batch_size", "8", "--overwrite_output_dir", *more]
            self.works(command)
            return json.loads((self.out / "trainer_state.json").read_text())["log_history"]

        def losses(*more):
            return [e["loss"] for e in entries("--save_strategy", "no", *more) if "grad_norm" in e]

        self.fails([*self.command(), "--train_file", str(self.train), "--logging_nan_inf_filter", "maybe"], "maybe",
                   code=2)
        shown = losses("--no_logging_nan_inf_filter", "--logging_steps", "1")
        bad = [i for i, loss in enumerate(shown) if not math.isfinite(loss)]
        self.assertEqual(len(bad), 1)  # that step is left out of the weights: those after it are finite again
        kept = losses("--logging_nan_inf_filter", "--logging_steps", "1")
        self.assertEqual(kept, [0.0 if i in bad else loss for i, loss in enumerate(shown)])
        sums = losses("--logging_nan_inf_filter", "--logging_steps", "8")
        running = 0.0  # tr_loss += tr_loss / (1 + global_step - globalstep_last_logged)
        for step, loss in enumerate(shown):
            running += running / (1 + step) if step in bad else loss
        self.assertAlmostEqual(sums[0], running / 8, delta=1e-12)
        self.assertFalse(math.isfinite(losses("--logging_nan_inf_filter", "false", "--logging_steps", "8")[0]))
        # with accumulation the mean takes the place of one batch's part, not of the whole update
        halves = ["--gradient_accumulation_steps", "2", "--logging_steps", "1"]
        self.assertEqual([math.isfinite(x) for x in losses("--no_logging_nan_inf_filter", *halves)].count(False), 1)
        self.assertTrue(all(map(math.isfinite, losses("--logging_nan_inf_filter", *halves))))
        # evaluation leaves the batch out; a run continues from a checkpoint after such a step
        entries("--logging_nan_inf_filter", "--save_steps", "7")
        self.assertTrue(math.isfinite(json.loads((self.out / "eval_results.json").read_text())["eval_loss"]))
        weights = (self.out / "model.safetensors").read_bytes()
        shutil.rmtree(self.out / "checkpoint-8")
        entries("--logging_nan_inf_filter", "--save_steps", "7", "--resume_from_checkpoint",
                str(self.out / "checkpoint-7"))
        self.assertEqual((self.out / "model.safetensors").read_bytes(), weights)
        shutil.rmtree(self.out)
        self.fails(self.command(), "not finite", "--logging_nan_inf_filter", "The weights were not touched")

    def test_weights_too_large_to_train(self):
        set_values(self.model / "model.safetensors", "classifier.weight", 3e38)
        self.fails(self.command(), "step 1", "not finite", "no checkpoint")

    # ---- the command line

    def test_unknown_words(self):
        self.fails([*self.command(), "--learning_rat_e", "1"], "--learning_rat_e", "--learning_rate", code=2)
        self.fails([*self.command(), "--num_train_epoch", "x"], "num_train_epochs", "'x'", code=2)
        self.fails([*self.command(), "--task_name", "mrpq"], "task_name", "mrpq", "mrpc", code=2)
        self.fails([*self.command(), "--max_seq_length", "2"], "--max_seq_length", "found 2", "at least 3", code=2)
        self.fails([cl.program(), "glu"], "glu", code=2)
        settings = self.root / "settings.json"
        for content, *words in (('{"learning_rate": "x"}', "--learning_rate", '"x"', "expected a number"),
                                ('{"learning_rat": 1}', "learning_rat", "learning_rate"),
                                ('{"no_dataloader_in_order": true}', "did you mean --dataloader_in_order?"),
                                ('{"a":', ":1:6", "JSON")):
            settings.write_text(content)
            self.fails([cl.program(), "glue", str(settings)], settings, *words, code=2)
        self.fails([cl.program(), "predict", str(self.model), "--fiel", "x"], "--fiel", "--file", code=2)
        self.fails([cl.program(), "predict"], "model folder", code=2)
        self.fails([cl.program(), "predict", str(self.model), "x", "--bf16=false"], "--bf16=false", "leave it out", code=2)
        for command in ("demo", "arguments", "doctor"):
            self.fails([cl.program(), command, "words"], "found 'words'", "expected a flag such as --", code=2)
            self.assertIn("usage", self.works([cl.program(), command, "-h"]).stdout)
        self.fails([cl.program(), "predict", str(self.model), "x", "--int8", "--fp16", "--bf16"], "--bf16 and --fp16", code=2)

    def test_devices_that_are_not_here(self):
        for device in ("cuda", "mps"):
            command = [a for a in self.command() if a != "--use_cpu"]
            self.fails([*command, "--device", device], device)


if __name__ == "__main__":
    unittest.main()
