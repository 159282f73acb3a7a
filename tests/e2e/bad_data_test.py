#!/usr/bin/env python3
"""Tables and questions with faults: see bad_input_test."""
import json
import shutil
import unittest

import command_line as cl
from bad_input import GOOD_CSV, BadInputCase


class BadData(BadInputCase):
    def test_missing_column(self):
        self.train.write_text(GOOD_CSV.replace("label", "answer", 1))
        self.fails(self.command(), self.train, "label", "answer")
        self.train.write_text(GOOD_CSV)
        self.dev.write_text(GOOD_CSV.replace("sentence1", "question", 1))
        self.fails(self.command(), self.dev, "sentence1", "question")

    def test_label_that_training_does_not_know(self):
        self.dev.write_text(GOOD_CSV + "a small ship,when\n")
        self.fails(self.command(), f"{self.dev}:14", "label", "when", "who")

    def test_labels_that_are_missing(self):
        self.dev.write_text(GOOD_CSV + "a small ship,\n")
        self.fails(self.command(), f"{self.dev}:14", "label")
        for content in ("sentence1\na small ship\n", "sentence1,label\na small ship,\n"):
            self.dev.write_text(content)
            said = self.works(self.command("--overwrite_output_dir", "--eval_strategy", "epoch"))
            self.assertIn(f"{self.dev} has no labels", said.stdout + said.stderr)
            results = json.loads((self.out / "all_results.json").read_text())
            self.assertEqual([key for key in results if key in ("eval_loss", "eval_accuracy")], [])
            self.assertEqual(results["eval_samples"], 1)

    def test_texts_that_are_missing(self):
        lines = self.root / "lines.jsonl"
        rows = [{"sentence1": f"the old bridge {word}", "label": word} for word in ("who", "what", "where")] * 4
        lines.write_text("".join(json.dumps(row) + "\n" for row in rows))
        gaps = self.root / "gaps.jsonl"
        for gap in ({"label": "who"}, {"sentence1": None, "label": "who"}):
            gaps.write_text("".join(json.dumps(row) + "\n" for row in [*rows[:4], gap, *rows[4:]]))
            for more in (["--train_file", gaps], ["--validation_file", gaps], ["--do_predict", "--test_file", gaps]):
                command = self.command("--train_file", lines, "--validation_file", lines)
                self.fails([*command, *map(str, more)], f"{gaps}:5: column 'sentence1': found no text", 'write ""')
        self.train.write_text(GOOD_CSV + ",who\nred ship,what\n,what\n")
        said = self.works(self.command("--num_train_epochs", "1")).stderr
        self.assertEqual(said.count("cells without text"), 1, said)
        self.assertIn(f"{self.train}: cells without text: 2, the first at {self.train}:14", said)

    def test_a_model_whose_classes_have_no_names(self):
        config = json.loads((self.model / "config.json").read_text())
        for key in ("id2label", "label2id"):  # transformers 5 leaves them out where there are two
            config.pop(key)
        (self.model / "config.json").write_text(json.dumps(config | {"num_labels": 3}))
        command = [cl.program(), "glue", "--model_name_or_path", str(self.model), "--output_dir", str(self.out), "--use_cpu"]
        for content in ("text\ngood ship\nold ship\n", "text,label\ngood ship,1\nold ship,1\n"):
            self.dev.write_text(content)
            self.works([*command, "--do_predict", "--test_file", str(self.dev)])
            predicted = [line.split("\t")[1] for line in (self.out / "predict_results_None.txt").read_text().splitlines()[1:]]
            self.assertEqual(len(predicted), 2)
            self.assertLessEqual(set(predicted), {"LABEL_0", "LABEL_1", "LABEL_2"})
        self.works([*command, "--do_eval", "--validation_file", str(self.dev)])
        accuracy = json.loads((self.out / "eval_results.json").read_text())["eval_accuracy"]
        self.assertEqual(accuracy, predicted.count("LABEL_1") / 2)
        self.dev.write_text("text,label\ngood ship,3\n")
        result = cl.run([*command, "--do_eval", "--validation_file", str(self.dev)])
        self.assertIn(f"{self.dev}:2: column 'label': found '3', expected one of the known labels 'LABEL_0', 'LABEL_1', "
                      "'LABEL_2' or 0 to 2", result.stderr)

    def glue_folder(self, train_row):
        folder = self.root / "MRPC"
        folder.mkdir(exist_ok=True)
        header = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
        good = "1\t2\t3\tthe old bridge\tthe small bridge\n0\t2\t3\tthe old bridge\ta red ship\n"
        (folder / "train.tsv").write_text(header + good + train_row)
        (folder / "dev.tsv").write_text(header + good)
        return [cl.program(), "glue", "--model_name_or_path", str(self.model), "--task_name", "mrpc", "--data_dir",
                str(folder), "--do_train", "--do_eval", "--output_dir", str(self.out), "--use_cpu",
                "--ignore_mismatched_sizes"]

    def test_missing_data_lists_where_it_looked(self):
        command = self.glue_folder("")
        command[command.index("--data_dir") + 1] = str(self.root / "nowhere")
        message = self.fails(command, "mrpc", "looked in", self.root / "nowhere")
        self.assertIn("LATHE_DATA_DIR", message)
        squad = [cl.program(), "qa", "--model_name_or_path", str(self.model), "--dataset_name", "squad", "--do_train",
                 "--output_dir", str(self.out), "--data_dir", str(self.root / "nowhere")]
        self.fails(squad, "squad", "looked in", self.root / "nowhere", "LATHE_DATA_DIR")
        self.fails([*self.command(), "--train_file", str(self.root / "no.csv")], self.root / "no.csv")

    def test_text_that_is_no_utf8(self):
        self.train.write_bytes(GOOD_CSV.encode() + b"a red \xff ship,who\n")
        self.fails(self.command(), f"{self.train}:14", "UTF-8")

    def test_empty_files(self):
        for content in ("", "sentence1,label\n"):
            self.train.write_text(content)
            self.fails(self.command(), self.train)
        lines = self.root / "train.json"
        lines.write_text("")
        self.fails([*self.command(), "--train_file", str(lines), "--validation_file", str(lines)], lines)

    def test_an_empty_text_and_one_of_a_megabyte_work(self):
        self.train.write_text(GOOD_CSV + '"",who\n' + '"' + "red ship " * 120_000 + '",who\n')
        self.works([*self.command(), "--num_train_epochs", "1"])
        result = self.works([cl.program(), "predict", str(self.out), ""])
        self.assertEqual(len(result.stdout.splitlines()), 1)
        (self.root / "long.txt").write_text("x" * (1 << 20) + "\n\nred ship\n")
        result = self.works([cl.program(), "predict", str(self.out), "--file", str(self.root / "long.txt")])
        self.assertEqual(len(result.stdout.splitlines()), 3)

    def test_own_files_beside_a_name_are_said_to_be_unread(self):
        notices = cl.run([*self.command(), "--task_name", "mrpc", "--data_dir", str(self.root / "nowhere")]).stderr
        for flag in ("train_file", "validation_file"):
            self.assertIn(f"--{flag} is not read: --task_name names the data", notices)
        self.assertNotIn("test_file", notices)

    def test_squad_file_with_a_fault(self):
        path = self.root / "train.json"
        command = [cl.program(), "qa", "--model_name_or_path", str(self.model), "--train_file", str(path),
                   "--do_train", "--output_dir", str(self.out), "--max_seq_length", "64", "--doc_stride", "16"]
        path.write_text("")
        self.fails(command, path)
        path.write_text('{"data": [{"paragraphs": [{"context": "the old bridge"}]}]}')
        self.fails(command, path, "qas")
        path.write_text('{"data": [{"paragraphs": [{"context": "the old bridge", "qas": [{"id": "q", "question": "who"}]}]}]}')
        self.fails(command, path, "qas[0]", 'found no "answers"', "[] says that it has none")
        answer = {"id": "q", "question": "who", "answers": [{"text": "old", "answer_start": 99}]}
        path.write_text(json.dumps({"data": [{"paragraphs": [{"context": "the old bridge", "qas": [answer]}]}]}))
        warning = self.works(command).stderr
        for word in (f"{path}: 1 answers are not", "question 'q'", "training takes the place"):
            self.assertIn(word, warning)

    def test_an_evaluation_strategy_evaluates_without_do_eval_and_wants_data(self):
        by_epoch = [word for word in self.command("--eval_strategy", "epoch") if word != "--do_eval"]
        for start in ([], ["launch", "-n", "2"]):
            self.works([by_epoch[0], *start, *by_epoch[1:], "--overwrite_output_dir"])
            history = json.loads((self.out / "trainer_state.json").read_text())["log_history"]
            self.assertEqual([line["epoch"] for line in history if "eval_loss" in line], [1, 2, 3])
            self.assertIn("eval_accuracy", json.loads((self.out / "eval_results.json").read_text()))
        shutil.rmtree(self.out)
        qa = [cl.program(), "qa", "--model_name_or_path", str(self.model), "--train_file", str(self.train), "--do_train",
              "--output_dir", str(self.out), "--eval_strategy", "epoch"]
        at = by_epoch.index("--validation_file")
        for command in (qa, by_epoch[:at] + by_epoch[at + 2:]):
            self.fails(command, "--eval_strategy epoch", "--validation_file", code=2)
        at_start = [word for word in self.command("--eval_on_start") if word != "--do_eval"]
        self.fails(at_start, "--eval_on_start: found no evaluation data", code=2)


if __name__ == "__main__":
    unittest.main()
