#!/usr/bin/env python3
"""lathe predict, and what --do_predict writes: labels, values and probabilities, also with int8 and where a model
gives no numbers."""
import json
import shutil
import unittest

import command_line as cl
from command_line import GOLDEN, CommandsCase, read

try:
    import numpy
    from safetensors.numpy import load_file, save_file
except ImportError:
    numpy = None


class Predict(CommandsCase):
    def test_predictions_of_own_files(self):
        self.works([*self.command(), "--do_predict", "--test_file", str(self.dev)])
        lines = (self.out / "predict_results_None.txt").read_text().splitlines()
        self.assertEqual(lines[0], "index\tprediction")
        self.assertEqual([line.split("\t")[0] for line in lines[1:]], [str(i) for i in range(12)])
        self.assertLessEqual({line.split("\t")[1] for line in lines[1:]}, {"person", "thing", "place"})

    def test_predict_classifies_texts_pairs_and_files(self):
        labels = read(GOLDEN / "classification" / "config.json")["id2label"].values()
        model = GOLDEN / "classification"
        pairs = ["the old bridge\twhat is it", "who opened it\tthe red ship"]
        lines = self.lathe("predict", model, *pairs).stdout.splitlines()
        self.assertEqual([line.split("\t", 2)[2] for line in lines], pairs)
        lines = self.lathe("predict", model, "the old bridge", "who opened it").stdout.splitlines()
        self.assertEqual(len(lines), 2)
        label, probability, text = lines[0].split("\t")
        self.assertIn(label, labels)
        self.assertTrue(1 / 3 <= float(probability) <= 1)
        (self.root / "texts.txt").write_text("the old bridge\r\nwho opened it\n")
        lines = self.lathe("predict", model, "--file", self.root / "texts.txt", "--json").stdout.splitlines()
        (self.root / "marked.txt").write_text("the old bridge\r\nwho opened it\n", encoding="utf-8-sig")
        self.assertEqual(self.lathe("predict", model, "--file", self.root / "marked.txt", "--json").stdout.splitlines(), lines)
        self.assertEqual(len(self.lathe("predict", model, "--", "--bf16", "-h").stdout.splitlines()), 2)
        first, second = map(json.loads, lines)
        self.assertEqual([first["text"], second["text"]], ["the old bridge", "who opened it"])
        self.assertEqual(list(first["probabilities"]), list(labels))
        self.assertAlmostEqual(sum(first["probabilities"].values()), 1, places=6)
        self.assertEqual(first["label"], max(first["probabilities"], key=first["probabilities"].get))

    def test_predict_cuts_texts_where_it_is_told(self):
        def probabilities(text, *more):
            return json.loads(self.lathe("predict", GOLDEN / "classification", text, "--json", *more).stdout)["probabilities"]

        short, long = "the old bridge", "the old bridge who opened it"  # of one token a word, and two around them
        self.assertNotEqual(probabilities(long), probabilities(short))
        self.assertEqual(probabilities(long, "--max_seq_length", "5"), probabilities(short))

    def test_predict_gives_values_and_several_labels(self):
        value = json.loads(self.lathe("predict", GOLDEN / "regression", "the old bridge", "--json").stdout)
        self.assertIsInstance(value["value"], float)
        line = self.lathe("predict", GOLDEN / "regression", "the old bridge").stdout.split("\t")
        self.assertAlmostEqual(float(line[0]), value["value"], places=4)
        values = self.root / "values"  # a regression of several numbers
        shutil.copytree(GOLDEN / "multi_label", values)
        (values / "config.json").write_text(json.dumps({**read(values / "config.json"), "problem_type": "regression"}))
        of_all = json.loads(self.lathe("predict", values, "the old bridge", "--json").stdout)["values"]
        self.assertEqual(list(of_all), list(read(values / "config.json")["id2label"].values()))
        shown, text = self.lathe("predict", values, "the old bridge").stdout.rstrip("\n").split("\t")
        self.assertEqual((shown, text), (", ".join(f"{name} {x:.4f}" for name, x in of_all.items()), "the old bridge"))
        several = json.loads(self.lathe("predict", GOLDEN / "multi_label", "the old bridge", "--json").stdout)
        self.assertEqual(list(several), ["text", "labels", "scores"])
        self.assertEqual(list(several["scores"]), list(of_all))
        self.assertTrue(all(0 < p < 1 for p in several["scores"].values()))
        self.assertEqual(several["labels"], [name for name, p in several["scores"].items() if p > 0.5])
        line = self.lathe("predict", GOLDEN / "multi_label", "the old bridge").stdout.split("\t")[0]
        self.assertEqual(line, ", ".join(f"{name} {several['scores'][name]:.4f}" for name in several["labels"]) or "-")
        result = cl.run([cl.program(), "predict", str(GOLDEN / "question_answering"), "the old bridge"])
        self.assertEqual(result.returncode, 1)
        self.assertIn("a BertForQuestionAnswering, which answers questions; give --question and --context", result.stderr)

    @unittest.skipIf(numpy is None, "needs numpy and safetensors")
    def test_logits_that_are_not_finite_are_no_predictions(self):
        folders = {}
        for kind in ("classification", "multi_label", "regression", "question_answering"):
            folders[kind] = folder = self.root / f"overflowing_{kind}"
            shutil.copytree(GOLDEN / kind, folder)
            tensors = load_file(str(folder / "model.safetensors"))
            # one column of layer 0's output is of the order of its input's sum times 3e4: beyond 65504, within fp32
            tensors["bert.encoder.layer.0.output.dense.weight"][3] = 3e4
            save_file(tensors, str(folder / "model.safetensors"), {"format": "pt"})
        said = "2 of 2 samples have no prediction: their logits are not finite"
        texts = ["the old bridge", "who opened it"]

        def strict(line):
            return json.loads(line, parse_constant=self.fail)

        for kind, shown in (("classification", "-\tnan"), ("multi_label", "nan"), ("regression", "nan")):
            result = self.lathe("predict", folders[kind], *texts, "--fp16")
            self.assertEqual(result.stdout, "".join(f"{shown}\t{text}\n" for text in texts))
            self.assertEqual(result.stderr.count(said), 1, result.stderr)
            self.assertIn("fp16 holds no value beyond 65504", result.stderr)
            row = strict(self.lathe("predict", folders[kind], texts[0], "--fp16", "--json").stdout)
            if kind == "regression":
                self.assertEqual(row, {"text": texts[0], "value": None})
            else:
                label, values = ("labels", "scores") if kind == "multi_label" else ("label", "probabilities")
                self.assertIsNone(row[label])
                self.assertEqual(set(row[values].values()), {None})
            self.assertNotIn("no prediction", self.lathe("predict", folders[kind], *texts).stderr)
        result = self.lathe("predict", folders["classification"], *texts, "--fp16", "--int8")
        self.assertIn("the same prediction for 0.00 % of the samples", result.stderr)
        self.assertEqual(result.stderr.count(said), 1, result.stderr)
        names = list(read(folders["classification"] / "config.json")["id2label"].values())
        (self.root / "two.csv").write_text("sentence1,label\n" + "".join(f"{t},{n}\n" for t, n in zip(texts, names)))
        result = self.lathe("glue", "--model_name_or_path", folders["classification"], "--validation_file", self.root / "two.csv",
                            "--test_file", self.root / "two.csv", "--do_eval", "--do_predict", "--fp16", "--use_cpu",
                            "--ignore_mismatched_sizes", "--output_dir", self.out)
        self.assertEqual(result.stderr.count(said), 2, result.stderr)  # of the evaluation and of the prediction
        self.assertEqual((self.out / "predict_results_None.txt").read_text(), "index\tprediction\n0\tnan\n1\tnan\n")
        (self.root / "questions.json").write_text(json.dumps(
            {"data": [{"id": str(i), "question": "who opened it", "context": "the old bridge is small"} for i in range(2)]}))
        result = self.lathe("qa", "--model_name_or_path", folders["question_answering"], "--test_file", self.root / "questions.json",
                            "--do_predict", "--fp16", "--use_cpu", "--max_seq_length", "32", "--doc_stride", "8",
                            "--output_dir", self.root / "answers")
        self.assertEqual(result.stderr.count(said), 1, result.stderr)

    def test_int8_shows_what_it_changes(self):
        self.works(self.command())
        plain, weights = read(self.out / "eval_results.json"), (self.out / "model.safetensors").read_bytes()
        result = self.works(self.command("--int8", "--do_predict", "--test_file", str(self.dev),
                                         "--overwrite_output_dir"))
        self.assertEqual((self.out / "model.safetensors").read_bytes(), weights)  # training knows nothing of it
        scores = read(self.out / "eval_results.json")
        self.assertEqual(set(scores) - set(plain), {"eval_int8_change_accuracy", "eval_int8_change_loss"})
        table = result.stdout[result.stdout.index("int8 compared with fp32"):].splitlines()[1:4]
        self.assertEqual(table[0].split(), ["fp32", "int8", "change"])
        for line in table[1:]:
            name, before, after, change = line.split()
            self.assertEqual(before, f"{plain['eval_' + name]:.4f}")
            self.assertEqual(after, f"{scores['eval_' + name]:.4f}")
            self.assertEqual(change, f"{scores['eval_int8_change_' + name]:+.4f}")
            # values of 8 bits move a score of order 1 by less than this; a wrong scale would not
            self.assertLess(abs(scores["eval_int8_change_" + name]), 0.2)
        self.assertNotEqual(scores["eval_int8_change_loss"], 0)
        self.assertRegex(result.stderr, r"int8 compared with fp32: the same prediction for [0-9.]+ % of the samples")
        self.assertNotIn("Int8", (self.out / "README.md").read_text())
        self.assertIn("accuracy", json.loads(self.lathe("runs", self.out, "--json").stdout)["metric"])
        unlabelled = self.root / "unlabelled.csv"
        unlabelled.write_text("sentence1\nthe old bridge\nwho opened it\n")
        result = self.lathe("glue", "--model_name_or_path", self.out, "--validation_file", unlabelled, "--do_eval", "--int8",
                            "--output_dir", self.root / "unlabelled")
        self.assertRegex(result.stderr, r"int8 compared with fp32: the same prediction for [0-9.]+ % of the samples")
        texts = ["the old bridge", "who opened it"]
        for model, words in (("classification", "the same prediction for 100.00 %"), ("multi_label", "the same"),
                             ("regression", "values differ by 0.0")):
            result = self.lathe("predict", GOLDEN / model, *texts, "--int8", "--bf16")
            self.assertIn("int8 compared with bf16: " + words, result.stderr)
            self.assertEqual(len(result.stdout.splitlines()), 2)

    def test_predict_agrees_with_the_values_of_the_trained_run(self):
        self.works([*self.command(), "--do_predict", "--test_file", str(self.dev)])
        (self.root / "texts.txt").write_text("".join(line.rsplit(",", 1)[0] + "\n"
                                                     for line in self.dev.read_text().splitlines()[1:]))
        predicted = self.lathe("predict", self.out, "--file", self.root / "texts.txt", "--max_seq_length", "32")
        wanted = [line.split("\t")[1] for line in (self.out / "predict_results_None.txt").read_text().splitlines()[1:]]
        self.assertEqual([line.split("\t")[0] for line in predicted.stdout.splitlines()], wanted)


if __name__ == "__main__":
    cl.main()
