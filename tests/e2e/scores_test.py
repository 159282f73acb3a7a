#!/usr/bin/env python3
"""Scores are those of the predictions that the program itself prints, counted here once more: classes, several labels, values,
GLUE tasks with more than one score, and questions."""
import json
import math
import shutil
import statistics

import command_line as cl
from command_line import GOLDEN, CommandsCase, read


class Scores(CommandsCase):
    def test_questions_without_answers_have_no_scores(self):
        (self.root / "questions.json").write_text(json.dumps(
            {"data": [{"id": "q", "question": "who opened it", "context": "the old bridge is small"}]}))
        self.lathe("qa", "--model_name_or_path", GOLDEN / "question_answering", "--test_file", self.root / "questions.json",
                   "--do_predict", "--max_seq_length", "32", "--doc_stride", "8", "--output_dir", self.out)
        self.assertEqual(list(read(self.out / "predict_predictions.json")), ["q"])
        self.assertFalse([key for key in read(self.out / "predict_results.json") if "match" in key or "f1" in key])
        self.ask([{}, {}], "--version_2_with_negative")  # no answer is none that is right
        self.assertFalse([key for key in read(self.out / "predict_results.json") if "exact" in key or "total" in key])
        said = self.ask([{"answers": []}, {}], "--version_2_with_negative", code=1).stderr
        self.assertIn("questions.json: data[1]: found no \"answers\", which other questions have", said)

    def ask(self, questions, *flags, code=0):
        rows = [{"id": str(i), "question": "who opened it", "context": "the old bridge is small", **more}
                for i, more in enumerate(questions)]
        (self.root / "questions.json").write_text(json.dumps({"data": rows}))
        result = cl.run([cl.program(), "qa", "--model_name_or_path", str(GOLDEN / "question_answering"), "--test_file",
                         str(self.root / "questions.json"), "--do_predict", "--max_seq_length", "32", "--doc_stride", "8",
                         "--output_dir", str(self.out), *flags])
        self.assertEqual(result.returncode, code, result.stderr)
        return result

    def test_questions_without_an_answer_are_counted_where_they_cannot_be_right(self):
        one = {"text": ["old"], "answer_start": [4]}
        said = self.ask([{"answers": one}, {"answers": []}, {"answers": one}]).stderr
        self.assertIn("1 of 3 questions have no answer", said)
        self.assertIn("--version_2_with_negative", said)
        self.assertNotIn("have no answer", self.ask([{"answers": one}, {"answers": []}], "--version_2_with_negative").stderr)
        self.assertIn('"test_NoAns_total": 1,', (self.out / "predict_results.json").read_text())
        self.assertNotIn("have no answer", self.ask([{"answers": one}]).stderr)

    def labelled(self, name, texts, labels):
        path = self.root / name
        path.write_text("".join(json.dumps({"text": t, "label": l}) + "\n" for t, l in zip(texts, labels)))
        return path

    def scored(self, model, *more):
        self.works([cl.program(), "glue", "--model_name_or_path", str(model), "--output_dir", str(self.out), "--use_cpu", "--do_eval",
                    "--overwrite_output_dir", *map(str, more)])
        return read(self.out / "all_results.json")

    def test_classes_are_numbered_as_in_the_model_that_goes_on(self):
        """Its names are not in the order of the alphabet, in which those of files come; a file that lacks a class does not
        number the others anew.  With a learning rate of 0 and no dropout training has the loss of an evaluation."""
        model = self.root / "model"
        shutil.copytree(GOLDEN / "classification", model)
        names = {"0": "place", "1": "thing", "2": "person"}
        (model / "config.json").write_text(json.dumps({**read(model / "config.json"), "id2label": names,
                                                       "label2id": {name: int(i) for i, name in names.items()}}))
        texts = [line.rsplit(",", 1)[0] for line in self.train.read_text().splitlines()[1:]]
        rows = [json.loads(line) for line in self.lathe("predict", model, *texts, "--json").stdout.splitlines()]
        labels = [names[str(i % 3)] for i in range(len(rows))]

        def check(found, part, *losses):
            wanted = [(row, label) for row, label in zip(rows, labels) if label in part]
            self.assertEqual(found["eval_accuracy"], sum(row["label"] == label for row, label in wanted) / len(wanted))
            loss = sum(-math.log(row["probabilities"][label]) for row, label in wanted) / len(wanted)
            for key in losses:  # a sum of at most 48 in fp32, of losses of about 1: 48 * 2^-24, and what a softmax rounds
                self.assertAlmostEqual(found[key], loss, delta=1e-5)

        whole = self.labelled("whole.json", texts, labels)
        few = self.labelled("few.json", *zip(*[pair for pair in zip(texts, labels) if pair[1] != "person"]))
        check(self.scored(model, "--validation_file", few), ("place", "thing"), "eval_loss")
        train = ["--train_file", whole, "--do_train", "--learning_rate", "0", "--num_train_epochs", "1"]
        check(self.scored(model, *train, "--validation_file", whole), names.values(), "eval_loss", "train_loss")
        check(self.scored(model, *train, "--validation_file", few, "--do_predict", "--test_file", whole), ("place", "thing"),
              "eval_loss")
        predicted = (self.out / "predict_results_None.txt").read_text().splitlines()[1:]
        self.assertEqual([line.split("\t")[1] for line in predicted], [row["label"] for row in rows])
        self.assertEqual(read(self.out / "config.json")["id2label"], names)
        found = self.scored(model, *train, "--validation_file", whole, "--max_train_samples", "9", "--max_eval_samples", "5")
        self.assertEqual((found["train_samples"], found["eval_samples"]), (9, 5))

    def test_scores_of_several_labels_and_of_values(self):
        texts = [line.rsplit(",", 1)[0] for line in self.train.read_text().splitlines()[1:]]
        model = GOLDEN / "multi_label"
        rows = [json.loads(line)["scores"] for line in self.lathe("predict", model, *texts, "--json").stdout.splitlines()]
        shown = [line.split("\t")[0] for line in self.lathe("predict", model, *texts).stdout.splitlines()]
        predicted = [[name for name, p in row.items() if p > 0.5] for row in rows]
        self.assertEqual(shown, [", ".join(f"{name} {row[name]:.4f}" for name in names) or "-"
                                 for names, row in zip(predicted, rows)])
        wanted = [[list(row)[i % 4], list(row)[(i + 1) % 4]] for i, row in enumerate(rows)]
        both = sum(len(set(a) & set(b)) for a, b in zip(predicted, wanted))
        either = sum(len(a) + len(b) for a, b in zip(predicted, wanted))
        self.assertTrue(0 < both < either / 2)
        path = self.labelled("several.json", texts, wanted)
        self.assertAlmostEqual(self.scored(model, "--validation_file", path)["eval_f1"], 2 * both / either, places=9)
        model = GOLDEN / "regression"
        values = [json.loads(line)["value"] for line in self.lathe("predict", model, *texts, "--json").stdout.splitlines()]
        path = self.labelled("values.json", texts, [0.25 * i for i in range(len(texts))])
        error = sum((v - 0.25 * i) ** 2 for i, v in enumerate(values)) / len(values)
        found = self.scored(model, "--validation_file", path)
        for key in ("eval_mse", "eval_loss"):  # a sum of 48 squares in fp32: 51 roundings of 2^-24
            self.assertAlmostEqual(found[key] / error, 1, delta=1e-5)

    def of_task(self, task, model, files, *more):
        """A run of this task on tables of these lines: their columns, then the rows."""
        (self.root / "data").mkdir(exist_ok=True)
        for name, lines in files.items():
            (self.root / "data" / f"{name}.tsv").write_text("".join("\t".join(map(str, line)) + "\n" for line in lines))
        return self.lathe("glue", "--model_name_or_path", GOLDEN / model, "--task_name", task, "--data_dir", self.root / "data",
                          "--do_predict", "--use_cpu", "--threads", "1", "--output_dir", self.out, "--overwrite_output_dir", *more)

    def predicted(self, name):
        head, *rows = (self.out / f"predict_results_{name}.txt").read_text().splitlines()
        self.assertEqual(head, "index\tprediction")
        self.assertEqual([row.split("\t")[0] for row in rows], [str(i) for i in range(len(rows))])
        return [row.split("\t")[1] for row in rows]

    def test_mnli_scores_what_matches_and_what_does_not_each_by_itself(self):
        columns = ("index", "sentence1", "sentence2", "gold_label")
        texts = {"matched": cl.WORDS[:9], "mismatched": cl.WORDS[9:14]}
        classes = ["entailment", "neutral", "contradiction"]
        files = {f"test_{part}": [columns, *((i, word, "the ship", "neutral") for i, word in enumerate(words))]
                 for part, words in texts.items()}
        self.of_task("mnli", "classification", files)
        found = {"matched": self.predicted("mnli"), "mismatched": self.predicted("mnli-mm")}
        right = {"matched": 6, "mismatched": 2}  # of nine, and of five
        for part, words in texts.items():
            labels = [one if i < right[part] else classes[(classes.index(one) + 1) % 3] for i, one in enumerate(found[part])]
            files[f"dev_{part}"] = [columns, *((i, word, "the ship", label)
                                               for i, (word, label) in enumerate(zip(words, labels)))]
        self.of_task("mnli", "classification", files, "--do_eval")
        scores = read(self.out / "eval_results.json")
        self.assertEqual({key: scores[key] for key in scores if "accuracy" in key or "samples" in key and "per" not in key},
                         {"eval_accuracy": 6 / 9, "eval_samples": 9, "eval_accuracy_mm": 2 / 5, "eval_samples_mm": 5})
        self.assertNotEqual(scores["eval_loss"], scores["eval_loss_mm"])

    def test_stsb_has_both_correlations_and_their_mean(self):
        columns = ("index", "sentence1", "sentence2", "score")
        rows = [(word, "the ship") for word in cl.WORDS]
        files = {"test": [columns, *((i, *row, 0) for i, row in enumerate(rows))]}
        self.of_task("stsb", "regression", files)
        values = [float(value) for value in self.predicted("stsb")]  # three digits of each
        one_of_each = {value: row for value, row in zip(values, rows)}
        values = sorted(one_of_each)
        scores = [5 * (i + 1 == len(values)) + i / 100 for i in range(len(values))]  # in their order, and far from a line
        files["dev"] = [columns, *((i, *one_of_each[value], score) for i, (value, score) in enumerate(zip(values, scores)))]
        self.of_task("stsb", "regression", files, "--do_eval")
        found = read(self.out / "eval_results.json")
        self.assertAlmostEqual(found["eval_spearmanr"], 1, delta=1e-12)
        mean = sum(values) / len(values)
        spread = math.sqrt(sum((value - mean) ** 2 for value in values))
        # A rounding by 0.0005 of each value turns the vector of them by no more than this, and the cosine by less.
        bound = 2 * 0.0005 * math.sqrt(len(values)) / spread
        pearson = statistics.correlation(values, scores)
        self.assertLess(pearson, 1 - 3 * bound)
        self.assertAlmostEqual(found["eval_pearson"], pearson, delta=bound)
        self.assertAlmostEqual(found["eval_combined_score"], (found["eval_pearson"] + found["eval_spearmanr"]) / 2, delta=1e-12)
        files["train"] = files["dev"]
        self.of_task("stsb", "regression", files, "--do_train", "--max_steps", "1", "--eval_strategy", "epoch",
                     "--metric_for_best_model", "combined_score")
        state = read(self.out / "trainer_state.json")
        self.assertEqual(state["best_metric"], state["log_history"][0]["eval_combined_score"])

    def test_other_files_have_their_texts_in_the_columns_of_the_first(self):
        """They may have more columns, which would be taken for texts."""
        texts = [line.rsplit(",", 1)[0] for line in self.train.read_text().splitlines()[1:]]
        model, values = GOLDEN / "regression", [0.25 * i for i in range(len(texts))]
        plain, noted = self.labelled("plain.json", texts, values), self.root / "noted.json"
        noted.write_text("".join(json.dumps({"note": f"seen by {i}", **json.loads(line)}) + "\n"
                                 for i, line in enumerate(plain.read_text().splitlines())))
        wanted = self.scored(model, "--validation_file", plain)["eval_mse"]
        self.assertNotEqual(self.scored(model, "--validation_file", noted)["eval_mse"], wanted)
        self.assertEqual(self.scored(model, "--train_file", plain, "--validation_file", noted)["eval_mse"], wanted)
        predicted = []
        for path in (plain, noted):
            self.scored(model, "--validation_file", plain, "--do_predict", "--test_file", path)
            predicted.append((self.out / "predict_results_None.txt").read_text())
        self.assertEqual(*predicted)

    def test_answers_are_scored_and_bounded_as_the_flags_say(self):
        """What it answered is right by definition, and of a file with other answers wrong."""
        contexts = [" ".join(2 * (cl.WORDS[i:] + cl.WORDS[:i])) for i in range(6)]  # each of several windows

        def answers(folder, right, *more):
            """Of questions whose answers are these, or all wrong."""
            data = [{"id": str(i), "question": "who opened it", "context": context,
                     "answers": {"text": [right[i] if right else "xyz"], "answer_start": [0]}}
                    for i, context in enumerate(contexts)]
            (self.root / "questions.json").write_text(json.dumps({"data": data}))
            self.lathe("qa", "--model_name_or_path", GOLDEN / "question_answering", "--max_seq_length", "32", "--doc_stride", "16",
                       "--validation_file", self.root / "questions.json", "--do_eval", "--output_dir", self.root / folder, *more)
            found = [list(read(self.root / folder / f"eval_{name}.json").values()) for name in ("predictions", "nbest_predictions")]
            return (read(self.root / folder / "eval_results.json"), *found)

        scores, free, nbest = answers("wrong", None)
        self.assertEqual(scores["eval_exact_match"], 0)
        question, *tokens = [len(json.loads(self.lathe("tokenize", GOLDEN / "question_answering", text).stdout)["ids"]) - 2
                             for text in ("who opened it", *contexts)]
        room = 32 - 3 - question  # of a window, of which 16 tokens are those of the one before
        windows = sum(1 + math.ceil((count - room) / (room - 16)) for count in tokens)
        self.assertGreaterEqual(windows, 2 * len(contexts))
        self.assertEqual(scores["eval_samples"], windows)
        self.assertTrue(any(" " in text for text in free))
        self.assertTrue(any(len(best) > 3 for best in nbest))
        other = shutil.copy(self.root / "questions.json", self.root / "wrong.json")
        self.assertEqual(answers("right", free, "--do_predict", "--test_file", other)[0]["eval_exact_match"], 100)
        self.assertEqual(read(self.root / "right" / "predict_results.json")["test_exact_match"], 0)  # run_qa's name
        few, found, _ = answers("few", None, "--max_eval_samples", "2")  # of questions, then of their windows
        self.assertEqual((few["eval_samples"], len(found)), (2, 2))
        _, short, nbest = answers("short", None, "--max_answer_length", "1", "--n_best_size", "3")
        self.assertFalse([text for text in short if " " in text])
        self.assertTrue(all(len(best) <= 3 for best in nbest))
        for threshold, wanted in (("1e9", free), ("-1e9", [""] * len(free))):
            found = answers("null" + threshold, free, "--version_2_with_negative", "--null_score_diff_threshold", threshold)
            self.assertEqual(found[1], wanted)
            self.assertEqual(found[0]["eval_exact"], 100 if wanted == free else 0)


if __name__ == "__main__":
    cl.main()
