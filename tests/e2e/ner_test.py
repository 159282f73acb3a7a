#!/usr/bin/env python3
"""lathe ner from files of words to entities: training, going on, scores, predictions; and what bad input is told."""
import json
import random
import unittest

import command_line as cl
from command_line import GOLDEN, CommandsCase, read
from families_tokenizer_test import make_folder

NAMES = {"old city": "LOC", "new bank": "ORG"}


def sentence(draw):
    """Words and tags: names, with other words between them."""
    words, tags = [], []
    for _ in range(draw.randint(2, 5)):
        between = [draw.choice(["the", "small", "red", "bridge", "river", "runs"]) for _ in range(draw.randint(1, 4))]
        name = draw.choice(sorted(NAMES))
        words += [*between, *name.split()]
        tags += ["O"] * len(between) + [f"B-{NAMES[name]}", f"I-{NAMES[name]}"]
    return words, tags


def sentences(count, seed):
    draw = random.Random(seed)
    return [sentence(draw) for _ in range(count)]


def conll(rows):
    return "\n".join("".join(f"{word} {tag}\n" for word, tag in zip(words, tags)) for words, tags in rows)


class Ner(CommandsCase):
    def setUp(self):
        super().setUp()
        self.rows = sentences(12, 2)
        self.names = sum(tag[0] == "B" for _, tags in self.rows for tag in tags)
        self.train, self.dev = self.root / "train.conll", self.root / "dev.conll"
        self.train.write_text(conll(sentences(60, 1)), encoding="utf-8")
        self.dev.write_text(conll(self.rows), encoding="utf-8")

    def ner(self, folder, *more, train=None):
        return [cl.program(), "ner", "--model_name_or_path", str(GOLDEN / "masked_lm"), "--train_file", str(train or self.train),
                "--validation_file", str(self.dev), "--do_train", "--do_eval", "--per_device_train_batch_size", "4",
                "--learning_rate", "5e-3", "--num_train_epochs", "4", "--output_dir", str(folder), "--use_cpu", *more]

    def lines(self, *words):
        return self.lathe(*words).stdout.splitlines()

    def test_train_predict_and_go_on_with_the_same_bits(self):
        result = self.works(self.ner(self.out, "--do_predict", "--test_file", str(self.dev), "--save_steps", "20",
                                     "--save_strategy", "steps", "--report_to", "html"))
        for part in ("training data: ", "words in column 1, tags in column 2", "60 training sentences", "B-LOC",
                     "next: lathe predict"):
            self.assertIn(part, result.stderr)
        results = read(self.out / "all_results.json")
        self.assertEqual(results["eval_f1"], 1.0)
        self.assertEqual((results["eval_samples"], results["predict_samples"], results["train_samples"]), (12, 12, 60))
        self.assertEqual(results["predict_f1"], results["eval_f1"])
        self.assertEqual((self.out / "predictions.txt").read_text(), "".join(" ".join(tags) + "\n" for _, tags in self.rows))
        self.assertEqual(list(read(self.out / "config.json")["label2id"]), ["B-LOC", "B-ORG", "I-LOC", "I-ORG", "O"])
        self.assertEqual(read(self.out / "config.json")["architectures"], ["BertForTokenClassification"])
        self.assertIn("\n- F1: 1.0\n", (self.out / "README.md").read_text())
        self.assertIn("B-LOC", (self.out / "report.html").read_text())
        # the same from a checkpoint
        again = self.root / "again"
        result = self.works(self.ner(again, "--save_steps", "20", "--save_strategy", "steps", "--resume_from_checkpoint",
                                     str(self.out / "checkpoint-20")))
        self.assertEqual((again / "model.safetensors").read_bytes(), (self.out / "model.safetensors").read_bytes())
        self.check_predictions()

    def test_an_adapter_finds_the_same_entities_once_it_is_merged(self):
        command = self.ner(self.out, "--use_peft", "--lora_target_modules", "all-linear", "--learning_rate", "2e-2")
        self.works(command)
        said = read(self.out / "adapter_config.json")
        self.assertEqual((said["task_type"], said["modules_to_save"]), ("TOKEN_CLS", ["classifier", "score"]))
        self.assertFalse((self.out / "model.safetensors").exists())
        self.assertGreater(read(self.out / "all_results.json")["eval_f1"], 0.9)
        self.works([cl.program(), "merge", str(self.out), "--output_dir", str(self.root / "merged")])
        text = "the red bridge old city turns"
        found, merged = (json.loads(self.lathe("predict", folder, text, "--json").stdout)["entities"]
                         for folder in (self.out, self.root / "merged"))
        self.assertEqual(len(found), 1)
        for a, b in zip(found, merged, strict=True):
            self.assertAlmostEqual(a.pop("score"), b.pop("score"), delta=1e-6)
            self.assertEqual(a, b)

    def test_labels_are_those_of_all_the_training_data(self):
        first = "the O\nold B-LOC\ncity I-LOC\n\n"
        self.train.write_text(first + self.train.read_text(encoding="utf-8"), encoding="utf-8")
        self.works(self.ner(self.out, "--max_train_samples", "1", "--max_steps", "1"))
        self.assertEqual(list(read(self.out / "config.json")["label2id"]), ["B-LOC", "B-ORG", "I-LOC", "I-ORG", "O"])
        self.assertEqual(read(self.out / "all_results.json")["train_samples"], 1)

    def check_predictions(self):
        text = "the red bridge old city turns"
        self.assertEqual([line.split("\t")[::2] for line in self.lines("predict", self.out, text)], [["LOC", "15-23"]])
        found = json.loads(self.lathe("predict", self.out, text, "--json").stdout)
        self.assertEqual(found["text"], text)
        self.assertEqual([(e["entity_group"], e["start"], e["end"]) for e in found["entities"]], [("LOC", 15, 23)])
        tokens = json.loads(self.lathe("predict", self.out, text, "--json", "--aggregation_strategy", "none").stdout)
        self.assertEqual([(e["entity"], e["word"], e["index"]) for e in tokens["entities"]],
                         [("B-LOC", "old", 4), ("I-LOC", "city", 5)])
        several = self.lines("predict", self.out, text, "the red bridge turns", "the new bank runs")
        self.assertEqual([line.split("\t")[:2] for line in several], [["1", "LOC"], ["2", "-"], ["3", "ORG"]])
        (self.root / "texts.txt").write_text(text + "\nthe red bridge turns\n")
        self.assertEqual(self.lines("predict", self.out, "--file", self.root / "texts.txt"), several[:2])
        table = self.root / "new.jsonl"
        table.write_text("".join(json.dumps({"id": i, "tokens": words}) + "\n" for i, (words, _) in enumerate(self.rows)))
        for i, line in enumerate(self.lines("predict", self.out, "--file", table, "--json")):
            row = json.loads(line)
            self.assertEqual((row["id"], row["tokens"]), (i, self.rows[i][0]))
            joined = " ".join(row["tokens"])
            named = [words for words in zip(self.rows[i][0], self.rows[i][0][1:]) if words[0] in ("old", "new")]
            self.assertEqual([joined[e["start"]:e["end"]] for e in row["entities"]], [" ".join(words) for words in named])
        long = " ".join(" ".join(words) for words, _ in self.rows)  # more tokens than positions: windows
        whole = json.loads(self.lathe("predict", self.out, long, "--json", "--max_seq_length", "32").stdout)["entities"]
        self.assertEqual(len(whole), self.names)
        for entity in whole:
            self.assertIn(long[entity["start"]:entity["end"]].split()[0], ("old", "new"))

    def test_files_of_all_kinds_give_the_same_model(self):
        self.works(self.ner(self.out))
        rows = [{"id": i, "tokens": words, "ner_tags": tags} for i, (words, tags) in enumerate(sentences(60, 1))]
        jsonl, csv = self.root / "train.jsonl", self.root / "train.csv"
        jsonl.write_text("".join(json.dumps(row) + "\n" for row in rows))
        quoted = lambda values: '"' + json.dumps(values).replace('"', '""') + '"'
        csv.write_text("tokens,ner_tags\n" + "".join(f"{quoted(r['tokens'])},{quoted(r['ner_tags'])}\n" for r in rows))
        for path in (jsonl, csv):
            folder = self.root / path.suffix[1:]
            self.works(self.ner(folder, train=path))
            self.assertEqual((folder / "model.safetensors").read_bytes(), (self.out / "model.safetensors").read_bytes(), path)

    def test_predict_reads_the_column_of_the_training_and_lists_of_csv(self):
        train = self.root / "train.jsonl"
        train.write_text("".join(json.dumps({"n": i, "w": words, "t": tags}) + "\n"
                                 for i, (words, tags) in enumerate(sentences(60, 1))))
        dev = self.root / "dev.jsonl"
        dev.write_text("".join(json.dumps({"n": i, "w": words, "t": tags}) + "\n"
                               for i, (words, tags) in enumerate(self.rows)))
        self.works([cl.program(), "ner", "--model_name_or_path", str(GOLDEN / "masked_lm"), "--train_file", str(train),
                    "--text_column_name", "w", "--label_column_name", "t", "--do_train", "--learning_rate", "5e-3",
                    "--per_device_train_batch_size", "4", "--num_train_epochs", "4", "--output_dir", str(self.out), "--use_cpu"])
        found = [json.loads(line)["entities"] for line in self.lines("predict", self.out, "--file", dev, "--json")]
        self.assertEqual(sum(len(entities) for entities in found), self.names)
        csv = self.root / "dev.csv"
        quoted = lambda values: '"' + json.dumps(values).replace('"', '""') + '"'
        csv.write_text("w\n" + "".join(f"{quoted(words)}\n" for words, _ in self.rows))
        of_csv = [json.loads(line)["entities"] for line in self.lines("predict", self.out, "--file", csv, "--json")]
        self.assertEqual(of_csv, found)

    def test_words_that_are_cut_are_told_and_windows_label_them(self):
        self.works(self.ner(self.out))
        base = [cl.program(), "ner", "--model_name_or_path", str(self.out), "--validation_file", str(self.dev), "--do_eval",
                "--use_cpu", "--max_seq_length", "12", "--output_dir"]
        words = sum(len(words) for words, _ in self.rows)
        cut = sum(max(len(words) - 10, 0) for words, _ in self.rows)
        result = self.works([*base, str(self.root / "cut")])
        first = next(i for i, (row, _) in enumerate(self.rows) if len(row) > 10)
        line = sum(len(row) + 1 for row, _ in self.rows[:first]) + 1
        self.assertIn(f"{cut} of {words} validation words have no label: ", result.stderr)
        self.assertIn(f"the first at {self.dev}:{line}; --stride 3 labels all of them", result.stderr)
        result = self.works([*base, str(self.root / "windows"), "--stride", "3", "--return_entity_level_metrics"])
        self.assertNotIn("have no label", result.stderr)
        results = read(self.root / "windows" / "eval_results.json")
        self.assertEqual(results["eval_LOC_number"] + results["eval_ORG_number"], self.names)
        self.assertEqual(results["eval_overall_f1"], 1.0)
        self.assertIsInstance(results["eval_LOC_number"], int)

    def test_a_model_says_its_labels_and_int8_how_much_it_changes(self):
        self.works(self.ner(self.out))
        result = self.works([cl.program(), "ner", "--model_name_or_path", str(self.out), "--validation_file", str(self.dev),
                             "--test_file", str(self.dev), "--do_eval", "--do_predict", "--int8", "--use_cpu", "--output_dir",
                             str(self.root / "int8")])
        self.assertLess(abs(read(self.root / "int8" / "eval_results.json")["eval_int8_change_f1"]), 0.1)
        words = self.root / "words.conll"
        words.write_text("\n".join("\n".join(words) + "\n" for words, _ in self.rows))
        result = self.works([cl.program(), "ner", "--model_name_or_path", str(self.out), "--test_file", str(words),
                             "--do_predict", "--use_cpu", "--output_dir", str(self.root / "plain")])
        self.assertIn("without tags", result.stderr)
        self.assertEqual((self.root / "plain" / "predictions.txt").read_text(),
                         "".join(" ".join(tags) + "\n" for _, tags in self.rows))

    def refused(self, command, code, *parts):
        result = cl.run(command)
        self.assertEqual(result.returncode, code, result.stderr)
        for part in parts:
            self.assertIn(part, result.stderr)
        self.assertFalse(self.out.exists())  # nothing is half-written

    def test_bad_input_is_told_with_its_place_and_the_way_out(self):
        bad = self.root / "bad.jsonl"
        bad.write_text('{"tokens": ["the", "city"], "ner_tags": ["O", "O"]}\n{"tokens": ["the", "bank"], "ner_tags": ["O"]}\n')
        self.refused(self.ner(self.out, train=bad), 1, f"{bad}:2: found 1 tags in column 'ner_tags' and 2 words",
                     "mend the row, or name the columns with --text_column_name")
        self.dev.write_text("the O\ncity B-RIVER\n")
        self.refused(self.ner(self.out), 1, f"{self.dev}:1: word 2 ('city') has the tag 'B-RIVER'", "mend the tag")
        bad.write_text('{"tokens": "the city", "ner_tags": ["O"]}\n')
        self.refused(self.ner(self.out, train=bad), 1, f"{bad}:1: column 'tokens'", "expected a list of words")
        self.refused(self.ner(self.out, "--label_column_name", "7"), 1, str(self.train))
        self.dev.write_text(conll(self.rows))
        self.refused(self.ner(self.out, "--stride", "30", "--max_seq_length", "32"), 2, "--stride")
        self.refused(self.ner(self.out, "--eval_strategy", "epoch", "--metric_for_best_model", "f2", "--save_strategy", "epoch", "--load_best_model_at_end"),
                     2, "--metric_for_best_model: found f2, expected one of loss, precision, recall, f1, accuracy")
        self.refused([*self.ner(self.out)[:-1], "--do_predict"], 2, "found neither --dataset_name nor --test_file")
        result = cl.run([cl.program(), "predict", str(GOLDEN / "classification"), "--aggregation_strategy", "max", "the city"])
        self.assertEqual(result.returncode, 2)
        self.assertIn("finds no entities", result.stderr)

    def test_a_word_of_ten_thousand_letters_is_a_word(self):
        self.train.write_text(conll([*sentences(20, 1), (["the", "a" * 10_000, "city"], ["O", "O", "B-LOC"])]))
        result = self.works(self.ner(self.out))
        self.assertNotIn("have no label", result.stderr)
        text = "b" * 10_000 + " new city"
        self.assertEqual(json.loads(self.lathe("predict", self.out, text, "--json").stdout)["text"], text)

    def test_sentences_without_words_are_kept(self):
        rows = [*sentences(20, 1), ([], []), *sentences(3, 2)]
        train = self.root / "train.jsonl"
        train.write_text("".join(json.dumps({"tokens": words, "ner_tags": tags}) + "\n" for words, tags in rows))
        result = self.works(self.ner(self.out, "--do_predict", "--test_file", str(train), "--per_device_train_batch_size", "1",
                                     "--per_device_eval_batch_size", "1", train=train))
        self.assertIn(f"1 of these sentences has no word, the first at {train}:21", result.stderr)
        lines = (self.out / "predictions.txt").read_text().split("\n")
        self.assertEqual((len(lines), lines[20]), (25, ""))
        found = self.lines("predict", self.out, "--file", train, "--json")
        self.assertEqual(json.loads(found[20])["entities"], [])

    def test_two_processes_train_what_one_does(self):
        self.works([cl.program(), "launch", "-n", "2", *self.ner(self.out, "--per_device_train_batch_size", "2")[1:]])
        self.assertEqual(read(self.out / "all_results.json")["eval_f1"], 1.0)

    def test_byte_level_words_begin_with_a_blank(self):
        for family, prefix in (("roberta", True), ("xlm_roberta", None)):
            with self.subTest(family):
                folder, out = make_folder(self.root / family, family, "question_answering"), self.root / f"{family}-out"
                command = self.ner(out)
                command[command.index(str(GOLDEN / "masked_lm"))] = str(folder)
                self.works(command)
                saved = json.loads((out / "tokenizer.json").read_text())
                if prefix:
                    self.assertTrue(saved["pre_tokenizer"]["add_prefix_space"])
                self.assertLess(read(out / "all_results.json")["train_loss"], 1.5)
                found = json.loads(self.lathe("predict", out, "the old bank runs", "--json").stdout)
                self.assertEqual(set(found), {"text", "entities"})


if __name__ == "__main__":
    cl.main()
