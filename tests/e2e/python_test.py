#!/usr/bin/env python3
"""The Python package: a tutorial's lines with one import changed, arrays in and out, errors, and the wheel in a fresh
environment. Skipped where the package was not built."""
import concurrent.futures
import contextlib
import csv
import io
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
import warnings

import command_line as cl
from python_package import BUILD, LABELS, PackageCase, accuracy, read_rows   # first: it finds lathe
import numpy as np
from lathe import AutoModelForSequenceClassification, AutoTokenizer, DataCollatorWithPadding, Trainer, TrainingArguments, pipeline


class Package(PackageCase):
    def test_tutorial_trains_as_the_program_does_to_the_last_digit(self):
        trainer = Trainer(model=self.model(), args=self.arguments(eval_strategy="epoch"), train_dataset=self.train,
                          eval_dataset=self.dev, processing_class=self.tokenizer, compute_metrics=accuracy,
                          data_collator=DataCollatorWithPadding(tokenizer=self.tokenizer))
        result = trainer.train()
        self.assertEqual(result.global_step, 18)
        from_program = cl.run(cl.glue_command(self.root / "cli", self.root / "train.csv", self.root / "dev.csv",
                                              "--logging_steps", "1", "--eval_strategy", "epoch"))
        self.assertEqual(from_program.returncode, 0, from_program.stderr)
        state = json.loads((self.root / "cli" / "trainer_state.json").read_text())
        losses = [line["loss"] for line in trainer.state.log_history if "loss" in line]
        self.assertEqual(losses, [line["loss"] for line in state["log_history"] if "loss" in line])
        metrics = trainer.evaluate()
        stored = json.loads((self.root / "cli" / "eval_results.json").read_text())
        self.assertEqual((metrics["eval_loss"], metrics["eval_accuracy"]), (stored["eval_loss"], stored["eval_accuracy"]))

        trainer.save_model(self.root / "model")
        classify = pipeline("text-classification", model=self.root / "model", device="cpu")
        texts = ["who opened the bridge", "where runs the ship"]
        out = cl.run([cl.program(), "predict", str(self.root / "model"), "--device", "cpu", *texts])
        for found, line in zip(classify(texts), out.stdout.splitlines()):
            label, score, _ = line.split("\t")
            self.assertEqual((found["label"], f"{found['score']:.4f}"), (label, score))
        one, pair = classify(texts)[0], {"text": texts[0]}  # the forms of transformers' pipeline
        self.assertEqual((classify(texts[0]), classify(pair), classify([pair])), ([one], one, [one]))
        self.assertEqual((classify(texts[0], top_k=1), classify(texts[:1], top_k=1)), ([one], [[one]]))
        self.assertEqual((len(classify(texts[0], top_k=None)), len(classify(texts, top_k=2)[1])), (3, 2))
        with concurrent.futures.ThreadPoolExecutor(4) as threads:  # as those of a server
            found = list(threads.map(classify, [texts[:1 + i % 2] for i in range(400)]))
        self.assertEqual(found, [classify(texts[:1]), classify(texts)] * 200)

    def test_predictions_are_arrays_and_padding_changes_nothing(self):
        trainer = Trainer(self.model(), self.arguments(), train_dataset=self.train, compute_metrics=accuracy)
        logits, labels, metrics = trainer.predict(self.dev)
        self.assertEqual((logits.shape, logits.dtype), ((12, 3), np.float32))
        self.assertEqual(labels.tolist(), [row["label"] for row in self.dev])
        self.assertEqual(metrics["test_accuracy"], accuracy((logits, labels))["accuracy"])
        rows = read_rows(self.root / "dev.csv")
        padded = self.tokenized(rows, padding="max_length")
        self.assertEqual({len(row["input_ids"]) for row in padded}, {32})
        np.testing.assert_array_equal(trainer.predict(padded).predictions, logits)
        arrays = self.tokenizer([row["text"] for row in rows], padding=True, return_tensors="np")
        as_rows = [{key: value[i] for key, value in arrays.items()} for i in range(len(rows))]
        np.testing.assert_array_equal(trainer.predict(as_rows).predictions, logits)

    def test_tokenizer_pads_and_truncates_as_transformers(self):
        golden = json.loads((cl.ROOT / "tests" / "golden" / "python" / "tokenizer_calls.json").read_text())
        endless = self.root / "endless"
        shutil.copytree(cl.MODEL, endless)
        config = json.loads((endless / "tokenizer_config.json").read_text())
        del config["model_max_length"]
        (endless / "tokenizer_config.json").write_text(json.dumps(config))
        tokenizers = {"limited": self.tokenizer, "endless": AutoTokenizer.from_pretrained(endless)}

        def call(tokenizer, pair, **settings):
            try:
                rows = tokenizer(golden["texts"], golden["pairs"][pair], **settings)
            except ValueError:
                return None
            return [[sum(mask), sum(types), len(ids)]
                    for ids, types, mask in zip(rows["input_ids"], rows["token_type_ids"], rows["attention_mask"])]

        for name, pair, padding, truncation, max_length, wanted in golden["calls"]:
            settings = {"padding": padding, "truncation": truncation, "max_length": max_length}
            with self.subTest(name=name, pair=pair, **settings):
                self.assertEqual(call(tokenizers[name], pair, **settings), wanted)
        for wrong in ({"padding": "longer"}, {"truncation": "last"}, {"truncation": 3}, {"max_length": -1}):
            with self.assertRaisesRegex(ValueError, f"{list(wrong)[0]}: found .*, expected"):
                self.tokenizer("who", **wrong)

    def test_checkpoint_is_gone_on_with(self):
        whole = Trainer(self.model(), self.arguments(), train_dataset=self.train)
        whole.train()
        part = Trainer(self.model(), self.arguments(save_strategy="epoch"), train_dataset=self.train)
        part.train()
        resumed = Trainer(self.model(), self.arguments(), train_dataset=self.train)
        resumed.train(resume_from_checkpoint=self.root / "out" / "checkpoint-6")
        self.assertEqual([line.get("loss") for line in whole.state.log_history],
                         [line.get("loss") for line in resumed.state.log_history])

    def test_another_run_is_refused(self):
        def trainer(rows, **more):
            return Trainer(self.model(), self.arguments(save_strategy="epoch", **more), train_dataset=rows)

        trainer(self.train).train()
        kept = {path.name: path.read_bytes() for path in (self.root / "out").iterdir() if path.is_file()}
        last, before = (self.root / "out" / f"checkpoint-{step}" for step in (18, 12))
        other = [{**row, "label": (row["label"] + 1) % 3} for row in self.train]
        for checkpoint, words in ((True, "out holds another run .checkpoint-18.: training data: found 48 samples"),
                                  (last, "checkpoint-18: of another run: training data: found .*none is left to make")):
            with self.assertRaisesRegex(ValueError, words):
                trainer(other).train(resume_from_checkpoint=checkpoint)
        self.assertEqual({path.name: path.read_bytes() for path in (self.root / "out").iterdir() if path.is_file()}, kept)
        self.assertEqual(trainer(self.train).train(resume_from_checkpoint=True).global_step, 18)
        self.assertEqual(trainer(other).train(resume_from_checkpoint=before).global_step, 18)

    def test_of_models_alone_it_is_said_what_can_be_done_with_them(self):
        arguments = self.arguments(save_strategy="epoch", save_only_model=True)
        trainer = Trainer(self.model(), arguments, train_dataset=self.train)
        trainer.train()
        with self.assertRaisesRegex(FileNotFoundError, "checkpoint-18 is of --save_only_model.*--model_name_or_path"):
            trainer.train(resume_from_checkpoint=True)

    def test_reports_are_written(self):
        args = self.arguments(report_to=["tensorboard", "html"], run_name="of Python", eval_strategy="epoch",
                              logging_dir=self.root / "events")
        with unittest.mock.patch.object(sys, "orig_argv", ["python3", "tune.py", "--hub_token=hf_X"]):
            trainer = Trainer(self.model(), args, train_dataset=self.train, eval_dataset=self.dev, compute_metrics=accuracy)
        trainer.train()
        page = (self.root / "out" / "report.html").read_text()
        for part in ("of Python", "finished", "eval_accuracy", "tune.py", "Confusion matrix", "Worst examples"):
            self.assertIn(part, page)
        run = json.loads((self.root / "out" / "run.json").read_text())
        self.assertEqual((run["state"], run["command"], run["settings"]["run_name"]),
                         ("finished", ["python3", "tune.py", "--hub_token=<hub_token>"], "of Python"))
        self.assertNotIn("hf_X", page)
        events = b"".join(path.read_bytes() for path in (self.root / "events").glob("events.out.tfevents.*"))
        self.assertEqual((events.count(b"train/loss"), events.count(b"eval/accuracy")), (18, 3))
        none = self.arguments(report_to=[], label_names=[], output_dir=self.root / "none")
        Trainer(self.model(), none, train_dataset=self.train).train()
        self.assertFalse((self.root / "none" / "report.html").exists())
        broken = self.arguments(output_dir=self.root / "broken", save_strategy="epoch", eval_strategy="epoch")
        calls = []

        def fails_once(prediction):
            calls.append(1)
            if len(calls) == 2:
                raise RuntimeError("no metric today")
            return accuracy(prediction)

        trainer = Trainer(self.model(), broken, train_dataset=self.train, eval_dataset=self.dev, compute_metrics=fails_once)
        with self.assertRaisesRegex(RuntimeError, "no metric today"):
            trainer.train()
        trainer.evaluate()
        self.assertEqual(json.loads((self.root / "broken" / "run.json").read_text())["state"], "interrupted")
        alone = self.arguments(report_to=["html"], output_dir=self.root / "alone")
        Trainer(self.model(), alone, eval_dataset=self.dev).evaluate()
        page = (self.root / "alone" / "eval_report.html").read_text()
        for part in ("finished", "eval_loss", "Confusion matrix"):
            self.assertIn(part, page)

    def test_model_that_is_no_classifier_gets_two_labels(self):
        for head in ("masked_lm", "question_answering", "base"):
            folder = cl.MODEL.parent / head
            if head == "base":  # as BertModel.save_pretrained names it
                folder = self.root / head
                shutil.copytree(cl.MODEL.parent / "masked_lm", folder)
                config = json.loads((folder / "config.json").read_text())
                (folder / "config.json").write_text(json.dumps({**config, "architectures": ["BertModel"]}))
            model = AutoModelForSequenceClassification.from_pretrained(folder)
            self.assertEqual((model.labels, model.problem), (["LABEL_0", "LABEL_1"], "single_label_classification"))

    def test_errors_are_exceptions_with_our_messages(self):
        with self.assertRaisesRegex(ValueError, "unknown argument learning_rat; did you mean learning_rate?"):
            TrainingArguments(learning_rat=1)
        with self.assertRaisesRegex(ValueError, "--eval_strategy: found 'sometimes', expected one of"):
            TrainingArguments(eval_strategy="sometimes")
        with self.assertRaisesRegex(ValueError, "--eval_strategy epoch: found no evaluation data"):
            Trainer(self.model(), self.arguments(eval_strategy="epoch"), train_dataset=self.train)
        with self.assertRaisesRegex(NotImplementedError, "Trainer: callbacks .*early_stopping_patience"):
            Trainer(self.model(), self.arguments(), train_dataset=self.train, callbacks=[object()])
        with self.assertRaisesRegex(NotImplementedError, "Trainer: optimizers .*optim and lr_scheduler_type"):
            Trainer(self.model(), self.arguments(), train_dataset=self.train, optimizers=(object(), None))
        Trainer(self.model(), self.arguments(), train_dataset=self.train, callbacks=[], optimizers=(None, None), model_init=None)
        with self.assertRaisesRegex(TypeError, "train_datset"):
            Trainer(self.model(), self.arguments(), train_datset=self.train)
        with self.assertRaisesRegex(NotImplementedError, "a model does not compute by itself.*predict"):
            self.model()(**self.train[0])
        with self.assertRaisesRegex(FileNotFoundError, "no-such-model"):
            AutoTokenizer.from_pretrained("./no-such-model")
        with self.assertRaisesRegex(ValueError, 'id2label: .*"a".*0 and 2'):
            AutoModelForSequenceClassification.from_pretrained(cl.MODEL, id2label={0: "a", 1: "b", 2: "a"})
        with self.assertRaisesRegex(ValueError, "from 0 to 2.*num_labels"):
            Trainer(self.model(), self.arguments(), train_dataset=[{**self.train[0], "label": 7}])
        with self.assertRaisesRegex(ValueError, "row 0: found .*'text'.*, expected input_ids"):
            Trainer(self.model(), self.arguments(), train_dataset=[{"text": "x", "label": 0}])

        for key in ("token_type_ids", "attention_mask"):  # native code would read past its end
            row = self.train[1]
            wrong = [self.train[0], {**row, key: row[key][:-1]}]
            with self.assertRaisesRegex(ValueError, f"row 1: {key} has {len(row[key]) - 1} .*{len(row[key])} .*input_ids"):
                Trainer(self.model(), self.arguments(), train_dataset=wrong)
        with self.assertRaisesRegex(ValueError, r"row 0: input_ids has the shape \[1, 3\]"):
            Trainer(self.model(), self.arguments(), train_dataset=[{"input_ids": [[2, 7, 3]], "label": 0}])
        for label in (1.4, float("nan"), "1"):
            with self.assertRaisesRegex(ValueError, f"row 1: .*{label}.*whole number"):
                wrong = [{**self.train[0], "label": 0}, {**self.train[1], "label": label}]
                Trainer(self.model(), self.arguments(), train_dataset=wrong)
        Trainer(self.model(), self.arguments(), train_dataset=[{**self.train[0], "label": 2.0}])  # a column of floats

        def broken(_):
            raise KeyError("no such metric")

        trainer = Trainer(self.model(), self.arguments(eval_strategy="epoch"), train_dataset=self.train,
                          eval_dataset=self.dev, compute_metrics=broken)
        with self.assertRaisesRegex(KeyError, "no such metric"):
            trainer.train()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            TrainingArguments(no_cuda=True)
        self.assertIn("use_cpu", str(caught[0].message))

    def test_what_the_device_makes_of_the_precision_is_told_and_other_notices_once(self):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            arguments = self.arguments(fp16=True, early_stopping_threshold=0.1)
        self.assertEqual(len(caught), 1)
        told = io.StringIO()
        with contextlib.redirect_stderr(told):
            Trainer(self.model(), arguments, train_dataset=self.train)
        self.assertRegex(told.getvalue(), r"\Alathe: --fp16: computes in float16 on the CPU.*\n\Z")

    def test_rows_that_are_none_are_named(self):
        row = self.dev[0]
        trainer = Trainer(self.model(), self.arguments(), eval_dataset=self.dev)
        for broken, message in (
                ({**row, "input_ids": [i + 2**32 for i in row["input_ids"]]}, "row 1: input_ids: found 4294967"),
                ({**row, "input_ids": [i + .5 for i in row["input_ids"]]}, "row 1: input_ids: found values of type float64"),
                ({**row, "token_type_ids": [256] * len(row["input_ids"])}, "row 1: token_type_ids: found 256, expected numbers "
                                                                          "from 0 to 255"),
                ({**row, "attention_mask": [0] * len(row["input_ids"])}, "row 1: has no tokens"),
                ({**row, "input_ids": [], "token_type_ids": [], "attention_mask": []}, "row 1: has no tokens"),
                ({"label": 1}, "row 1: found ['label'], expected input_ids"),
                ({key: row[key] for key in row if key != "label"}, "row 1: has no 'label'")):
            with self.assertRaises(ValueError) as raised:
                trainer.evaluate([row, broken])
            self.assertIn(message, str(raised.exception))

    def test_texts_that_are_none_are_named(self):
        for call, message in ((lambda: self.tokenizer(["a", "b \ud83d"]), "text: row 1: found half of a surrogate pair"),
                              (lambda: self.tokenizer([b"a"]), "text: found b'a' in row 0, expected a text"),
                              (lambda: self.tokenizer([("a", "b")]), "the second one of a pair goes into text_pair"),
                              (lambda: self.tokenizer("a", ["b"]), "text_pair: found ['b'] in row 0"),
                              (lambda: self.tokenizer(["a", "b", "c"], "xyz"), "text_pair: found one text")):
            with self.assertRaises(ValueError) as raised:
                call()
            self.assertIn(message, str(raised.exception))

    def test_what_was_taken_does_not_change(self):
        args = self.arguments()
        with self.assertRaises(AttributeError) as raised:
            args.learning_rate = 1
        self.assertIn("give learning_rate=1 when you make them", str(raised.exception))
        trainer = Trainer(self.model(), args, train_dataset=self.train, eval_dataset=self.dev, compute_metrics=accuracy)
        for name, value in (("args", args), ("train_dataset", self.train), ("eval_dataset", self.dev),
                            ("compute_metrics", accuracy), ("model", trainer.model)):
            self.assertIs(getattr(trainer, name), value)
            with self.assertRaises(AttributeError):
                setattr(trainer, name, value)

    def test_the_head_of_a_saved_model_stays_what_it_is(self):
        def saved(labels, problem):
            model = AutoModelForSequenceClassification.from_pretrained(cl.MODEL, id2label=dict(enumerate(labels)),
                                                                       problem_type=problem, ignore_mismatched_sizes=True)
            Trainer(model, self.arguments()).save_model(self.root / problem)
            return AutoModelForSequenceClassification.from_pretrained(
                self.root / problem, id2label=dict(enumerate(labels)))

        several = saved(LABELS, "multi_label_classification")
        self.assertEqual((several.problem, several.labels), ("multi_label_classification", LABELS))
        quality = saved(["quality"], "regression")
        self.assertEqual((quality.problem, quality.labels), ("regression", ["quality"]))
        with self.assertRaisesRegex(NotImplementedError, "regression: found 3 labels, expected one value"):
            saved(LABELS, "regression")

    def test_rows_are_not_read_again_where_no_metric_wants_their_labels(self):
        class Counted(list):
            reads = 0

            def __iter__(self):
                Counted.reads += 1
                return super().__iter__()

        trainer = Trainer(self.model(), self.arguments(), eval_dataset=Counted(self.dev))
        taken = Counted.reads
        trainer.evaluate()
        self.assertEqual(Counted.reads, taken)

    def test_a_trainers_tokenizer_is_saved_with_its_model_and_not_that_of_another(self):
        limited = self.root / "limited"
        shutil.copytree(cl.MODEL, limited)
        config = json.loads((limited / "tokenizer_config.json").read_text())
        (limited / "tokenizer_config.json").write_text(json.dumps({**config, "model_max_length": 17}))
        model = self.model()
        before = Trainer(model, self.arguments())
        Trainer(model, self.arguments(), processing_class=AutoTokenizer.from_pretrained(limited)).save_model(self.root / "given")
        after = Trainer(model, self.arguments())
        for trainer, name in ((before, "before"), (after, "after")):
            trainer.save_model(self.root / name)
        found = {name: AutoTokenizer.from_pretrained(self.root / name).model_max_length for name in ("before", "given", "after")}
        own = self.tokenizer.model_max_length
        self.assertEqual(found, {"before": own, "given": 17, "after": own})
        self.assertEqual(model.tokenizer.model_max_length, own)


class Wheel(unittest.TestCase):
    def test_wheel_brings_module_and_program_into_a_fresh_environment(self):
        with tempfile.TemporaryDirectory() as folder:
            made = cl.run([sys.executable, str(cl.ROOT / "tools" / "make_wheel.py"), str(BUILD), folder])
            self.assertEqual(made.returncode, 0, made.stdout + made.stderr)
            wheel = next(pathlib.Path(folder).glob("*.whl"))
            venv = pathlib.Path(folder) / "venv"
            subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
            installed = cl.run([str(venv / "bin" / "pip"), "install", "--quiet", "--no-deps", "--no-index", str(wheel)])
            self.assertEqual(installed.returncode, 0, installed.stdout + installed.stderr)
            numpy_folder = pathlib.Path(np.__file__).parents[1]
            out = cl.run([str(venv / "bin" / "lathe"), "--version"])
            asked = cl.run([str(venv / "bin" / "python"), "-c", "import lathe; print('lathe', lathe.__version__)"],
                           env=dict(os.environ, PYTHONPATH=str(numpy_folder)))
            self.assertEqual(asked.stdout, out.stdout, asked.stderr)
            self.assertTrue(out.stdout.startswith("lathe "))
            self.assertLess(wheel.stat().st_size, 30e6)


if __name__ == "__main__":
    cl.on_one_core()
    cl.main()
