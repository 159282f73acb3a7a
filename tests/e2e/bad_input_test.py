#!/usr/bin/env python3
"""Bad input ends with a message that says where, what was found, what is wanted and the way out; with exit code 2 for
usage and 1 for the rest; and with nothing half-written left behind."""
import gzip
import json
import math
import os
import pathlib
import shutil
import struct
import subprocess
import tempfile
import unittest
import unittest.mock

import command_line as cl

GOOD_CSV = "sentence1,label\n" + "".join(f"the old bridge {w},{w}\n" for w in ("who", "what", "where")) * 4


def split_weights(path):
    """Header (a dictionary) and data of a safetensors file."""
    content = path.read_bytes()
    size = struct.unpack("<Q", content[:8])[0]
    return json.loads(content[8:8 + size]), content[8 + size:]


def join_weights(path, header, data):
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def set_values(path, tensor, value):
    """Every element of an F32 tensor becomes `value`."""
    header, data = split_weights(path)
    begin, end = header[tensor]["data_offsets"]
    join_weights(path, header, data[:begin] + struct.pack("<f", value) * ((end - begin) // 4) + data[end:])


def files_below(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*")) if folder.exists() else []


class BadInput(unittest.TestCase):
    def setUp(self):
        self.temp = tempfile.TemporaryDirectory()
        self.addCleanup(self.temp.cleanup)
        self.root = pathlib.Path(self.temp.name)
        self.model = self.root / "model"
        shutil.copytree(cl.MODEL, self.model)
        self.train = self.root / "train.csv"
        self.dev = self.root / "dev.csv"
        self.out = self.root / "out"
        environment = unittest.mock.patch.dict(os.environ)  # data that is somewhere else would be found
        environment.start()
        self.addCleanup(environment.stop)
        os.environ.pop("LATHE_DATA_DIR", None)
        self.train.write_text(GOOD_CSV)
        self.dev.write_text(GOOD_CSV)

    def command(self, *more):
        command = cl.glue_command(self.out, self.train, self.dev, *more)
        command[command.index(str(cl.MODEL))] = str(self.model)
        return command

    def fails(self, command, *words, code=1, keep=()):
        """The command ends with `code` and one error that holds all the words; the output holds only `keep`."""
        result = cl.run(command)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        self.assertEqual(result.stderr.count("error: "), 1, result.stderr)
        message = result.stderr[result.stderr.index("error: "):]
        for word in words:
            self.assertIn(str(word), message)
        self.assertEqual(files_below(self.out), sorted(keep))
        return message

    def works(self, command):
        result = cl.run(command)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result

    # ---- the output folder

    def test_a_run_that_fails_takes_away_the_folders_that_it_made_and_no_others(self):
        missing = ["--model_name_or_path", str(self.root / "nowhere")]
        self.out = self.root / "made" / "by it"
        self.fails([*self.command(), *missing], "nowhere")
        self.assertFalse(self.out.parent.exists())
        self.train.write_text(GOOD_CSV.replace("who,who", "who,"))
        self.fails(self.command(), "wants a label in every row")
        self.assertFalse(self.out.parent.exists())
        self.out.parent.mkdir()
        self.fails(self.command(), "wants a label in every row")
        self.assertEqual(files_below(self.root / "made"), [])
        self.out.mkdir()
        self.fails(self.command(), "wants a label in every row")
        self.assertEqual(files_below(self.root / "made"), ["by it"])

    # ---- the model folder

    def test_truncated_weights(self):
        weights = self.model / "model.safetensors"
        whole = weights.read_bytes()
        for size in (0, 5, 8, 100, len(whole) // 2, len(whole) - 1):
            weights.write_bytes(whole[:size])
            self.fails(self.command(), weights)

    def test_weights_whose_header_lies(self):
        weights = self.model / "model.safetensors"
        good, data = split_weights(weights)
        name = "bert.pooler.dense.weight"
        self.assertIn(name, good)

        def lie(**changed):
            join_weights(weights, {**good, name: {**good[name], **changed}}, data)

        lie(data_offsets=[0, 1 << 40])
        self.fails(self.command(), weights, name)
        lie(shape=[1 << 31, 1 << 31, 1 << 31])
        self.fails(self.command(), weights, name)
        lie(shape=[-1, 4])
        self.fails(self.command(), weights, name)
        lie(dtype="F31")
        self.fails(self.command(), weights, name, "F31")
        weights.write_bytes(struct.pack("<Q", 1 << 60) + b"{}")
        self.fails(self.command(), weights)
        weights.write_bytes(struct.pack("<Q", 8) + b"not json" + data)
        self.fails(self.command(), weights)

    def test_weights_that_are_no_numbers(self):
        set_values(self.model / "model.safetensors", "bert.pooler.dense.weight", float("nan"))
        self.fails(self.command(), self.model / "model.safetensors", "bert.pooler.dense.weight", "NaN",
                   "earlier")

    def test_vocabulary_of_another_size(self):
        config = json.loads((self.model / "config.json").read_text())
        (self.model / "config.json").write_text(json.dumps({**config, "vocab_size": 50}))
        self.fails(self.command(), self.model / "config.json", "vocab_size", "50", "115", "of one model")
        (self.model / "config.json").write_text(json.dumps({**config, "vocab_size": 200}))
        self.fails([a for a in self.command() if a != "--ignore_mismatched_sizes"], "model.safetensors",
                   "word_embeddings", "115", "200", "--ignore_mismatched_sizes")

    def test_vocabulary_of_the_tokenizer_that_is_named(self):
        config = json.loads((self.model / "config.json").read_text())
        small = self.root / "small"
        small.mkdir()
        (small / "config.json").write_text(json.dumps({**config, "vocab_size": 50}))
        self.fails([*self.command(), "--config_name", str(small), "--tokenizer_name", str(cl.MODEL)], small / "config.json",
                   '"vocab_size" is 50', cl.MODEL)

    def test_heads_that_do_not_divide_the_columns(self):
        config = json.loads((self.model / "config.json").read_text())
        (self.model / "config.json").write_text(json.dumps({**config, "num_attention_heads": 5}))
        self.fails(self.command(), self.model / "config.json", "num_attention_heads", "5", "hidden_size", "32",
                   "wants a multiple", "take the config.json")

    def test_configuration_that_is_no_json(self):
        (self.model / "config.json").write_text('{"hidden_size": 32,')
        self.fails(self.command(), f"{self.model}/config.json:1:20: not valid JSON", "save the file again")
        (self.model / "config.json").write_text('{\n "hidden_size": 32,\n "x": tru\n}')
        self.fails(self.command(), f"{self.model}/config.json:3:", "tru", "mend the text")
        (self.model / "config.json").write_text("[1]")
        self.fails(self.command(), self.model / "config.json", "JSON object", "take the config.json")

    def test_another_file_in_the_place_of_one(self):
        config, weights, tokenizer = (self.model / name for name in ("config.json", "model.safetensors", "tokenizer.json"))
        good = {path: path.read_bytes() for path in (config, weights, tokenizer, self.train, self.dev)}
        page = b"<!DOCTYPE html>\n<title>Sign in to the network</title>"
        pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n"
        for path, content, *words in (
                (config, page, "wants JSON, found a web page", "fetch the file again"), (config, b" \n", "an empty file"),
                (config, good[config].decode().encode("utf-16"), "UTF-16 text", "iconv"),
                (config, pointer, "a Git LFS pointer", "git lfs pull"), (config, bytes(4096), "zero bytes", "full disk"),
                (config, good[config] + bytes(9), ":39:1: found a zero byte", "damaged"),
                (config, good[config][:-3], "the text ends too early"),
                (weights, page, "wants a safetensors file, found a web page"),
                (weights, b"PK\3\4" + bytes(99), "wants a safetensors file, found a zip archive"),
                (weights, struct.pack("<Q", 5) + b"\xef\xbb\xbf{}", "begins with a byte-order mark, wants '{'", "damaged"),
                (weights, struct.pack("<Q", 4) + b"{}\0\0", "header:1:3: found a zero byte"),
                (tokenizer, gzip.compress(good[tokenizer]), "wants JSON, found gzip data", "gunzip"),
                (tokenizer, page, "a web page"), (tokenizer, good[tokenizer].decode().encode("utf-16-le"), "UTF-16"),
                (self.train, page, "wants a table with at least one row, found a web page"),
                (self.train, b"PK\3\4", "a zip archive, as torch.save and Excel write"),
                (self.dev, GOOD_CSV.replace(",who", ",wh\0o", 1).encode(), "found 'wh\\x00o', wants one of the known labels")):
            path.write_bytes(content)
            message = self.fails(self.command(), path, *words)
            self.assertNotIn("json.exception", message)
            path.write_bytes(good[path])

    def test_nesting_that_no_file_has(self):
        deep = '{"a":' + "[" * 48000 + "]" * 48000 + "}"
        for name in ("config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"):
            with unittest.mock.patch.object(self, "model", self.root / name.removesuffix(".json")):
                shutil.copytree(cl.MODEL, self.model)
                (self.model / name).unlink(missing_ok=True)
                (self.model / name).write_text(deep)
                self.fails(self.command(), self.model / name, "nested deeper than 200")
        self.fails(self.command("--lr_scheduler_kwargs", deep), "nested deeper than 200", code=2)
        self.train = self.root / "train.jsonl"
        self.train.write_text('{"sentence1": "a", "label": "who", "more": %s}\n' % deep)
        self.fails(self.command(), f"{self.train}:1:", "nested deeper than 200")

    def test_more_layers_than_the_weights_have(self):
        config = json.loads((self.model / "config.json").read_text())
        for layers, wanted in ((10000, "wants 1 to 1000"), (900, "have 2 layers"), (3, "have 2 layers")):
            (self.model / "config.json").write_text(json.dumps({**config, "num_hidden_layers": layers}))
            self.fails(self.command(), self.model / "config.json", f'"num_hidden_layers" is {layers}', wanted, "take")

    def test_labels_whose_square_no_float_holds(self):
        self.train.write_text("sentence1,label\na bridge,1\nb,1180591620717411303424\n")
        self.fails(self.command(), f"{self.train}:3: column 'label': found '1180591620717411303424'", "scale the labels")

    def test_values_of_the_configuration(self):
        config = json.loads((self.model / "config.json").read_text())
        for key, value, *words in (
                ("hidden_act", "silu", "wants gelu, gelu_python, relu or tanh", "take a model"),
                ("hidden_act", 5, "wants a string"), ("model_type", "t5", 'wants one of "bert", "roberta"', "take a model"),
                ("model_type", "deberta-v2", "relative positions", 'take an encoder without them, "modernbert"'),
                ("position_embedding_type", "relative_key", 'wants "absolute"', "take a model"),
                ("is_decoder", True, "true", "wants false"), ("num_hidden_layers", 0, "wants 1 to", "take the config"),
                ("hidden_size", "x", "wants an integer"), ("hidden_dropout_prob", 1.5, "wants a probability"),
                ("layer_norm_eps", -1.0, "wants 0 or more"), ("initializer_range", "a", "wants a number")):
            (self.model / "config.json").write_text(json.dumps({**config, key: value}))
            found = json.dumps(value).strip('"')
            self.fails(self.command(), self.model / "config.json", f'"{key}"', found.removesuffix(".0"), *words)
        labels = {**config, "id2label": {"0": "a", "2": "b"}}
        (self.model / "config.json").write_text(json.dumps(labels))
        self.fails([cl.program(), "predict", str(self.model), "x"], f'{self.model}/config.json: "id2label"', '"1"')
        labels = {**config, "id2label": {"0": "a", "1": "b", "2": "a"}}  # its probabilities would be lost in an object
        (self.model / "config.json").write_text(json.dumps(labels))
        self.fails([cl.program(), "predict", str(self.model), "x", "--json"], f'{self.model}/config.json: "id2label"', '"a"',
                   "0 and 2", "a name of its own")

    def test_every_activation_trains(self):
        config = json.loads((self.model / "config.json").read_text())
        for activation in ("gelu", "gelu_python", "relu", "tanh"):
            (self.model / "config.json").write_text(json.dumps({**config, "hidden_act": activation}))
            self.works([*self.command(), "--overwrite_output_dir", "--max_steps", "1"])
            self.assertEqual(json.loads((self.out / "config.json").read_text())["hidden_act"], activation)

    def test_missing_parts_of_the_model(self):
        for name in ("config.json", "model.safetensors"):
            content = (self.model / name).read_bytes()
            (self.model / name).unlink()
            self.fails(self.command(), self.model, name, "there, too" if name != "config.json" else "copy")
            (self.model / name).write_bytes(content)
        (self.model / "tokenizer.json").unlink()
        (self.model / "vocab.txt").unlink()
        self.fails(self.command(), self.model, "vocab.txt", "tokenizer.json")

    def test_a_model_name_that_is_nowhere_lists_where_it_looked(self):
        command = self.command()
        command[command.index(str(self.model))] = "bert-base-nowhere"
        result = subprocess.run(command, capture_output=True, text=True,
                                env={**os.environ, "HF_HOME": str(self.root), "HF_ENDPOINT": "http://127.0.0.1:1"})
        self.assertEqual(result.returncode, 1)
        for form in ("models--bert-base-nowhere", "models--google-bert--bert-base-nowhere"):
            self.assertIn(str(self.root / "hub" / form), result.stderr)
        self.assertIn("HF_HOME", result.stderr)
        self.assertEqual(files_below(self.out), [])

    # ---- the data

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
        self.assertIn(f"{self.dev}:2: column 'label': found '3', wants one of the known labels 'LABEL_0', 'LABEL_1', "
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

    def test_ragged_row_of_a_task(self):
        command = self.glue_folder("1\t2\t3\tonly one text\n")
        self.fails(command, f"{self.root}/MRPC/train.tsv:4", "4", "5")

    def test_label_outside_the_set_of_a_task(self):
        command = self.glue_folder("7\t2\t3\tthe old bridge\tthe small bridge\n")
        self.fails(command, f"{self.root}/MRPC/train.tsv:4", "'7'", "0", "1")

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

    def test_a_file_is_no_model(self):
        (self.root / "some").mkdir()
        (self.root / "some" / "config.json").write_text("{}")
        result = cl.run([cl.program(), "info", "some/config.json"], cwd=self.root)
        self.assertEqual(result.returncode, 1)
        self.assertIn("some/config.json: found a file, wants a folder with config.json", result.stderr)

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
        self.assertIn("wants one of loss, accuracy", message)
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
        self.assertIn("wants one of exact_match, f1", message)
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
                  if (self.out / n).is_file() and n != "run.json"}  # that says how the last run ended
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

    def test_texts_longer_than_the_positions(self):
        """What the tokenizer does not bound the model does."""
        path = self.model / "tokenizer_config.json"
        settings = json.loads(path.read_text())
        settings.pop("model_max_length", None)
        path.write_text(json.dumps(settings))
        positions = json.loads((self.model / "config.json").read_text())["max_position_embeddings"]
        long = "the old bridge " * positions
        self.assertEqual(len(self.works([cl.program(), "predict", str(self.model), long, "--max_seq_length",
                                         str(2 * positions)]).stdout.splitlines()), 1)
        self.train.write_text(GOOD_CSV + f"{long},who\n")
        result = self.works(self.command("--max_seq_length", str(2 * positions)))
        self.assertIn(f"--max_seq_length {2 * positions} is more than the model takes; using {positions}", result.stderr)

    # ---- lathe predict

    def test_weights_that_a_model_has_no_place_for_are_said(self):
        path = self.model / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "num_hidden_layers": 1}))
        result = self.works([cl.program(), "predict", str(self.model), "the old bridge"])
        self.assertIn("not used by this model: bert.encoder.layer.1.", result.stderr)

    def test_a_model_without_a_classifier_does_not_classify(self):
        weights = cl.MODEL.parent / "masked_lm" / "model.safetensors"
        (self.model / "model.safetensors").write_bytes(weights.read_bytes())
        self.fails([cl.program(), "predict", str(self.model), "the old bridge"], "classifier.weight", "predicts at random")

    def test_lines_to_predict(self):
        path = self.root / "texts.txt"
        command = [cl.program(), "predict", str(self.model), "--file", str(path)]
        for content, *words in (
                ("red ship\told bridge\nred ship\n", f"{path}:2", "found 1 texts", f"wants 2 as in {path}:1", "one tab"),
                ("red ship\n\nred\tship\n", f"{path}:3", "found 2 texts", f"wants 1 as in {path}:1"),
                ("a\tb\nred\tship\tbridge\n", f"{path}:2", "found 3 texts", "wants 2"),
                ("red\tship\tbridge\n", f"{path}:1", "found 3 texts", "wants one or two"), ("", path, "empty")):
            path.write_text(content)
            self.fails(command, *words)
        path.write_bytes(b"red ship\na \xff\n")
        self.fails(command, f"{path}:2", "byte 3", "0xff", "UTF-8")
        self.fails([cl.program(), "predict", str(self.model), "red", b"a \xff"], "text 2", "UTF-8")
        self.fails([cl.program(), "predict", str(self.model), "red", "red\tship"], "text 2", "found 2 texts",
                   "wants 1 as in text 1")
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
        # evaluation leaves the batch out; a run goes on from a checkpoint behind such a step
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

    def test_checkpoint_of_another_model(self):
        self.works([*self.command(), "--save_steps", "2", "--max_steps", "2"])
        checkpoint = self.out / "checkpoint-2"
        kept = files_below(self.out)
        resume = ["--resume_from_checkpoint", str(checkpoint), "--overwrite_output_dir"]
        two = self.root / "two.csv"  # two labels instead of three
        two.write_text("sentence1,label\n" + "red ship,a\nold bridge,b\n" * 4)
        self.fails([*self.command(), *resume, "--train_file", str(two), "--validation_file", str(two)], checkpoint,
                   'config.json: "id2label": found ["what","where","who"], the model of this run has ["a","b"]',
                   "--overwrite_output_dir", keep=kept)
        self.fails([*self.command("--freeze_base_model", "true"), *resume], checkpoint, "other parameters",
                   "wants classifier.weight[3, 32]", "--overwrite_output_dir", keep=kept)
        self.fails([*self.command(), "--resume_from_checkpoint", str(self.model)], self.model,
                   "not found", keep=kept)
        state = checkpoint / "lathe_state.safetensors"
        state.write_bytes(state.read_bytes()[:1000])
        self.fails([*self.command(), *resume], state, keep=kept)

    # ---- the tokenizer

    def test_a_tokenizer_that_pads_left(self):
        """A model of transformers then classifies by a padding token, with other logits than Lathe's, which pads nothing."""
        path = self.model / "tokenizer_config.json"
        settings = json.loads(path.read_text())
        path.write_text(json.dumps({**settings, "padding_side": "left"}))
        self.fails(self.command(), "tokenizer_config.json: padding_side: found left", "wants right")
        path.write_text(json.dumps({**settings, "padding_side": "right"}))
        self.works([*self.command(), "--max_steps", "1"])

    def test_a_tokenizer_that_pads_left_is_taken_where_a_model_takes_the_mean_of_its_tokens(self):
        source = cl.ROOT / "tests" / "golden" / "tiny_modernbert" / "mean_pooling"
        config = {**json.loads((source / "config.json").read_text()), "vocab_size": 115}  # of the tokenizer
        (self.model / "config.json").write_text(json.dumps(config))
        shutil.copy(source / "model.safetensors", self.model)
        path = self.model / "tokenizer_config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "padding_side": "left"}))
        self.works([*self.command("--max_seq_length", "20"), "--max_steps", "1"])

    # ---- the command line

    def test_unknown_words(self):
        self.fails([*self.command(), "--learning_rat_e", "1"], "--learning_rat_e", "--learning_rate", code=2)
        self.fails([*self.command(), "--num_train_epoch", "x"], "num_train_epochs", "'x'", code=2)
        self.fails([*self.command(), "--task_name", "mrpq"], "task_name", "mrpq", "mrpc", code=2)
        self.fails([*self.command(), "--max_seq_length", "2"], "--max_seq_length", "found 2", "at least 3", code=2)
        self.fails([cl.program(), "glu"], "glu", code=2)
        settings = self.root / "settings.json"
        for content, *words in (('{"learning_rate": "x"}', "--learning_rate", '"x"', "wants a number"),
                                ('{"learning_rat": 1}', "learning_rat", "learning_rate"),
                                ('{"no_dataloader_in_order": true}', "did you mean --dataloader_in_order?"),
                                ('{"a":', ":1:6", "JSON")):
            settings.write_text(content)
            self.fails([cl.program(), "glue", str(settings)], settings, *words, code=2)
        self.fails([cl.program(), "predict", str(self.model), "--fiel", "x"], "--fiel", "--file", code=2)
        self.fails([cl.program(), "predict"], "model folder", code=2)
        self.fails([cl.program(), "predict", str(self.model), "x", "--bf16=false"], "--bf16=false", "leave it out", code=2)
        for command in ("demo", "arguments", "doctor"):
            self.fails([cl.program(), command, "words"], "found 'words'", "wants a flag such as --", code=2)
            self.assertIn("usage", self.works([cl.program(), command, "-h"]).stdout)
        self.fails([cl.program(), "predict", str(self.model), "x", "--int8", "--fp16", "--bf16"], "--bf16 and --fp16", code=2)

    def test_int8_without_anything_to_predict(self):
        command = [word for word in self.command("--int8") if word != "--do_eval"]
        self.fails(command, "--int8", "--do_eval", "--do_predict", code=2)

    def test_devices_that_are_not_here(self):
        for device in ("cuda", "mps"):
            command = [a for a in self.command() if a != "--use_cpu"]
            self.fails([*command, "--device", device], device)


if __name__ == "__main__":
    unittest.main()
