#!/usr/bin/env python3
"""The commands as a user types them, the files they write and what is in those files."""
import json
import math
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import tempfile
import time
import unittest

import command_line as cl

try:
    import numpy
    from safetensors.numpy import load_file, save_file
except ImportError:
    numpy = None

DATA = pathlib.Path(os.environ.get("LATHE_DATA_DIR", cl.ROOT / ".." / "shared" / "data"))
GOLDEN = cl.ROOT / "tests" / "golden" / "tiny_bert"
SHORT = ["--max_train_samples", "64", "--max_eval_samples", "64", "--max_steps", "4"]
SPEED = ["runtime", "samples_per_second", "steps_per_second"]
STATE_KEYS = """best_global_step best_metric best_model_checkpoint epoch eval_steps global_step is_hyper_param_search
    is_local_process_zero is_world_process_zero log_history logging_steps max_steps num_input_tokens_seen
    num_train_epochs save_steps stateful_callbacks total_flos train_batch_size trial_name trial_params""".split()
MODEL_FILES = {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}


def keys(split, *more):
    return sorted([f"{split}_{key}" for key in [*SPEED, "samples", *more]] + ["epoch"])


def read(path):
    return json.loads(path.read_text(encoding="utf-8"))


def make_base(folder, vocabulary, positions=512):
    """A random BERT without a head, 32 columns wide, with a real vocabulary; in the layout of the Hub's folders."""
    folder.mkdir(parents=True)
    shutil.copy(DATA / "vocab" / vocabulary / "vocab.txt", folder)
    words = len((folder / "vocab.txt").read_text(encoding="utf-8").splitlines())
    config = {**read(GOLDEN / "classification" / "config.json"), "vocab_size": words,
              "max_position_embeddings": positions, "architectures": ["BertForMaskedLM"]}
    for key in ("id2label", "label2id", "problem_type"):
        config.pop(key, None)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": "uncased" in vocabulary,
                                                              "model_max_length": positions}))
    tensors = {k: v for k, v in load_file(str(GOLDEN / "classification" / "model.safetensors")).items()
               if k.startswith("bert.")}
    draw = numpy.random.default_rng(1)
    for name, rows in (("word_embeddings", words), ("position_embeddings", positions)):
        tensors[f"bert.embeddings.{name}.weight"] = draw.normal(0, 0.02, (rows, 32)).astype("float32")
    save_file(tensors, str(folder / "model.safetensors"), {"format": "pt"})


class Commands(unittest.TestCase):
    """Made questions and the golden models: needs nothing but the program."""

    def setUp(self):
        self.temp = tempfile.TemporaryDirectory()
        self.addCleanup(self.temp.cleanup)
        self.root = pathlib.Path(self.temp.name)
        self.out = self.root / "out"
        self.train, self.dev = self.root / "train.csv", self.root / "dev.csv"
        cl.write_csv(self.train, 48, 1)
        cl.write_csv(self.dev, 12, 2)

    def works(self, command, **keywords):
        result = cl.run(command, **keywords)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result

    def lathe(self, *words, **keywords):
        return self.works([cl.program(), *map(str, words)], **keywords)

    def command(self, *more):
        return cl.glue_command(self.out, self.train, self.dev, "--num_train_epochs", "1", *more)

    def test_every_form_of_a_table(self):
        rows = [line.split(",") for line in self.train.read_text().splitlines()[1:]]
        objects = [{"sentence1": text, "label": label} for text, label in rows]
        forms = {
            "train.tsv": "sentence1\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in rows),
            "train.json": "".join(json.dumps(o) + "\n" for o in objects),
            "list.json": json.dumps(objects),
            "data.json": json.dumps({"data": objects}),
            "train.jsonl": "".join(json.dumps(o) + "\n" for o in objects),
            "train.label": "".join(f"{label.upper()}:fine {text}\n" for text, label in rows),
        }
        self.works(self.command())
        reference = (self.out / "model.safetensors").read_bytes()
        for name, content in forms.items():
            (self.root / name).write_text(content)
            files = ["--train_file", str(self.root / name), "--validation_file", str(self.root / name)]
            self.works([*self.command(), "--overwrite_output_dir", *files])
            self.assertEqual((self.out / "model.safetensors").read_bytes(), reference, name)
            labels = ["person", "place", "thing"]
            if name == "train.label":
                labels = [label.upper() for label in labels]
            self.assertEqual(list(read(self.out / "config.json")["id2label"].values()), labels, name)

    def test_configuration_and_tokenizer_from_elsewhere(self):
        weights, other = self.root / "home" / "weights", self.root / "other"
        weights.mkdir(parents=True)
        shutil.copy(cl.MODEL / "model.safetensors", weights)  # neither config.json nor a tokenizer
        other.mkdir()
        (other / "config.json").write_text(json.dumps({**read(cl.MODEL / "config.json"), "hidden_act": "relu"}))
        command = self.command("--config_name", str(other), "--tokenizer_name", str(cl.MODEL))
        command[command.index(str(cl.MODEL))] = "~/weights"
        self.works(command, env=dict(os.environ, HOME=str(self.root / "home")))
        self.assertEqual(read(self.out / "config.json")["hidden_act"], "relu")
        self.assertEqual((self.out / "vocab.txt").read_bytes(), (cl.MODEL / "vocab.txt").read_bytes())
        card = (self.out / "README.md").read_text()
        self.assertNotIn("base_model", card)  # a folder is no name on the Hub
        self.assertNotIn("huggingface.co/~", card)

    def test_called_by_the_names_of_the_scripts(self):
        for name in ("run_glue", "run_qa"):
            (self.root / name).symlink_to(cl.program())
            result = self.works([str(self.root / name), "--help"])
            self.assertIn("--model_name_or_path", result.stdout)
        self.works([str(self.root / "run_glue"), *self.command()[2:]])
        self.assertTrue((self.out / "eval_results.json").exists())

    def test_a_file_of_arguments_comes_before_those_of_the_command_line(self):
        link = self.root / "run_glue"
        link.symlink_to(cl.program())
        (self.root / "run_glue.args").write_text("--seed 7\n--learning_rate 0.25\n")
        shown = json.loads(self.works([str(link), *self.command()[2:], "--print_config"]).stdout)
        self.assertEqual((shown["seed"], shown["learning_rate"]), (7, 1e-3))

    def test_the_file_of_arguments_lies_beside_a_program_that_path_finds(self):
        for folder, seed in (("bin", 7), ("here", 8)):
            (self.root / folder).mkdir()
            (self.root / folder / "run_glue.args").write_text(f"--seed {seed}\n")
        (self.root / "bin" / "run_glue").symlink_to(cl.program())
        shown = self.works(["run_glue", *self.command()[2:], "--print_config"], cwd=self.root / "here",
                           env={**os.environ, "PATH": f"{self.root / 'bin'}:{os.environ['PATH']}"})
        self.assertEqual(json.loads(shown.stdout)["seed"], 7)

    def test_a_token_that_was_not_written_down_is_none(self):
        shown = self.works(self.command("--token", "abc", "--print_config")).stdout
        self.assertEqual(json.loads(shown)["token"], "<token>")
        (self.root / "run.json").write_text(shown)
        result = self.lathe("glue", self.root / "run.json")
        self.assertIn("token was left out", result.stderr)
        self.assertIsNone(read(self.out / "run.json")["settings"]["token"])

    def test_a_signal_ends_what_cannot_go_on_later(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            reading, writing = os.pipe()  # nobody writes there, so that the program waits for its texts
            with subprocess.Popen([cl.program(), "predict", str(cl.MODEL), "--file", "/dev/stdin"], stdin=reading,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
                maps = pathlib.Path(f"/proc/{process.pid}/maps")
                while maps.exists() and "model.safetensors" not in maps.read_text():
                    time.sleep(0.01)
                process.send_signal(number)
                self.assertEqual(process.wait(timeout=60), -number)
            os.close(reading)
            os.close(writing)

    def test_a_signal_ends_a_script_that_reads(self):
        texts = self.root / "texts.csv"
        os.mkfifo(texts)
        for number in (signal.SIGTERM, signal.SIGINT):
            command = [cl.program(), "glue", "--model_name_or_path", str(cl.MODEL), "--validation_file", str(texts), "--do_eval",
                       "--output_dir", str(self.out)]
            with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
                writing = None
                while writing is None and process.poll() is None:
                    try:
                        writing = os.open(texts, os.O_WRONLY | os.O_NONBLOCK)  # there is a reader, who waits from now on
                    except OSError:
                        time.sleep(0.01)
                process.send_signal(number)
                self.assertEqual(process.wait(timeout=60), -number)
            os.close(writing)

    def test_control_characters_of_others_do_not_reach_a_terminal(self):
        folder = self.root / "painted"
        shutil.copytree(cl.MODEL, folder)
        config = read(folder / "config.json")
        paint = "\x1b[31m\x1b]0;title\x07\x9b1m\u202e\x85\x7f"
        config["id2label"] = {key: f"{paint}{name}" for key, name in config["id2label"].items()}
        config["label2id"] = {name: int(key) for key, name in config["id2label"].items()}
        (folder / "config.json").write_text(json.dumps(config))
        plain = self.lathe("predict", folder, "the old bridge").stdout
        self.assertTrue(plain.startswith(paint), plain)
        text = f"the old {paint} bridge"
        for words in (["predict", folder, text], ["predict", folder, text, "--json"], ["tokenize", folder, text],
                      ["info", folder], ["runs", folder / paint]):
            controller, terminal = os.openpty()
            run = subprocess.Popen([cl.program(), *map(str, words)], stdout=terminal, stderr=terminal)
            os.close(terminal)
            shown = cl.shown_by(run, controller)
            self.assertNotRegex(shown, rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80\xae", words)
            if "--json" in words:
                self.assertEqual(json.loads(shown)["text"], text)
            elif words[0] != "tokenize":
                self.assertIn(rb"\x1b[31m\x1b]0;title\x07\u009b1m\u202e\u0085\u007f", shown, words)

    def test_output_that_cannot_be_written_is_an_error(self):
        for words in (["predict", cl.MODEL, "who opened it"], ["arguments"], ["arguments", "--json"], ["--help"]):
            with open("/dev/full", "w") as full:
                result = subprocess.run([cl.program(), *map(str, words)], stdout=full, stderr=subprocess.PIPE, text=True)
            self.assertEqual(result.returncode, 1)
            self.assertRegex(result.stderr, "error: standard output(: No space left on device)?: it could not be written")

    def test_an_error_that_cannot_be_written_keeps_its_exit_code(self):
        ops = str(pathlib.Path(cl.program()).with_name("lathe-ops"))
        glue = ["glue", "--nonsense"]
        for words, code in (([cl.program(), *glue], 2), ([cl.program(), "launch", "-n", "2", *glue], 2),
                            ([cl.program(), "--help"], 1), ([ops, "nonsense"], 2)):
            with open("/dev/full", "w") as full:
                self.assertEqual(subprocess.run(words, stdout=full, stderr=full).returncode, code, words)

    def test_the_printed_configuration_is_a_configuration_file(self):
        shown = self.works(self.command("--print_config")).stdout
        self.assertFalse(self.out.exists())
        (self.root / "run.json").write_text(shown)
        self.works(self.command())
        reference = (self.out / "model.safetensors").read_bytes()
        config = {**json.loads(shown), "overwrite_output_dir": True, "print_config": False}
        (self.root / "run.json").write_text(json.dumps(config))
        self.lathe("glue", self.root / "run.json")
        self.assertEqual((self.out / "model.safetensors").read_bytes(), reference)

    def test_each_order_of_the_samples_trains_on_all_of_them(self):
        weights = set()
        for order in ("random", "sequential", "group_by_length"):
            self.works(self.command("--train_sampling_strategy", order, "--overwrite_output_dir"))
            self.assertEqual(read(self.out / "trainer_state.json")["global_step"], 6)
            weights.add((self.out / "model.safetensors").read_bytes())
        self.assertEqual(len(weights), 3)

    def test_old_flags_say_one_line_each(self):
        old = {"--no_cuda": [], "--use_ipex": [], "--evaluation_strategy": ["epoch"],
               "--per_gpu_train_batch_size": ["8"], "--group_by_length": [], "--fp16_backend": ["auto"]}
        quiet = self.works(self.command("--save_strategy", "no")).stderr.count("[WARNING]")
        for flag, value in old.items():
            result = self.works(self.command("--save_strategy", "no", "--overwrite_output_dir", flag, *value))
            lines = [line for line in result.stderr.splitlines() if flag in line and "[WARNING]" in line]
            self.assertEqual(len(lines), 0 if flag == "--fp16_backend" else 1, result.stderr)
            self.assertEqual(result.stderr.count("[WARNING]"), quiet + len(lines), result.stderr)
        metal = [word for word in self.command("--use_mps_device", "--overwrite_output_dir") if word != "--use_cpu"]
        if os.uname().sysname != "Darwin":
            result = cl.run(metal)
            self.assertEqual(result.returncode, 1)
            self.assertIn("mps", result.stderr)

    def test_fp16_computes_in_float16_with_a_loss_scale_that_a_checkpoint_holds(self):
        weights = {}
        for flag in ("--fp16", "--bf16", None):
            result = self.works(self.command("--overwrite_output_dir", "--save_steps", "3", *([flag] if flag else [])))
            self.assertEqual("float16" in result.stderr, flag == "--fp16", result.stderr)
            weights[flag] = (self.out / "model.safetensors").read_bytes()
            if flag == "--fp16":
                state = (self.out / "checkpoint-3" / "lathe_state.safetensors").read_bytes()
                self.assertIn(b'\\"loss_scale_growth_tracker\\": 3', state)
        self.assertEqual(len(set(weights.values())), 3)
        text = "who opened the old bridge"
        scores = [json.loads(self.lathe("predict", self.out, text, "--json", *more).stdout)
                  for more in ([], ["--fp16"])]
        self.assertNotEqual(scores[0], scores[1])
        result = cl.run(self.command("--fp16", "--bf16"))
        self.assertEqual(result.returncode, 2)
        self.assertIn("--fp16 and --bf16: found both", result.stderr)

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

    def test_predict_tells_the_way_for_tables_and_for_models_without_a_classifier(self):
        table = self.root / "table.csv"
        table.write_text("text,label\nthe old bridge,x\n")
        result = self.lathe("predict", GOLDEN / "classification", "--file", table)
        self.assertEqual(len(result.stdout.splitlines()), 2)
        self.assertIn(f"{table}: each line is taken for a text; for a table: lathe glue --do_predict --test_file {table}", result.stderr)
        table.rename(self.root / "table.txt")
        self.assertEqual(self.lathe("predict", GOLDEN / "classification", "--file", self.root / "table.txt").stderr, "")
        result = cl.run([cl.program(), "predict", str(GOLDEN / "masked_lm"), "the old bridge"])
        self.assertEqual((result.returncode, result.stdout), (1, ""))
        self.assertIn("a BertForMaskedLM; lathe predict classifies texts. Fine-tune it first: lathe glue --do_train", result.stderr)

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
        self.assertEqual(len(several["probabilities"]), 4)
        self.assertTrue(all(0 < p < 1 for p in several["probabilities"].values()))
        result = cl.run([cl.program(), "predict", str(GOLDEN / "question_answering"), "the old bridge"])
        self.assertEqual(result.returncode, 1)
        self.assertIn("lathe qa", result.stderr)

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
                self.assertIsNone(row["label"])
                self.assertEqual(set(row["probabilities"].values()), {None})
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

    def test_int8_shows_what_it_changes(self):
        self.works(self.command())
        plain, weights = read(self.out / "eval_results.json"), (self.out / "model.safetensors").read_bytes()
        result = self.works(self.command("--int8", "--do_predict", "--test_file", str(self.dev),
                                         "--overwrite_output_dir"))
        self.assertEqual((self.out / "model.safetensors").read_bytes(), weights)  # training knows nothing of it
        scores = read(self.out / "eval_results.json")
        self.assertEqual(set(scores) - set(plain), {"eval_int8_change_accuracy", "eval_int8_change_loss"})
        table = result.stdout[result.stdout.index("int8 beside fp32"):].splitlines()[1:4]
        self.assertEqual(table[0].split(), ["fp32", "int8", "change"])
        for line in table[1:]:
            name, before, after, change = line.split()
            self.assertEqual(before, f"{plain['eval_' + name]:.4f}")
            self.assertEqual(after, f"{scores['eval_' + name]:.4f}")
            self.assertEqual(change, f"{scores['eval_int8_change_' + name]:+.4f}")
            # values of 8 bits move a score of order 1 by less than this; a wrong scale would not
            self.assertLess(abs(scores["eval_int8_change_" + name]), 0.2)
        self.assertNotEqual(scores["eval_int8_change_loss"], 0)
        self.assertRegex(result.stderr, r"int8 beside fp32: the same prediction for [0-9.]+ % of the samples")
        self.assertNotIn("Int8", (self.out / "README.md").read_text())
        self.assertIn("accuracy", json.loads(self.lathe("runs", self.out, "--json").stdout)["metric"])
        unlabelled = self.root / "unlabelled.csv"
        unlabelled.write_text("sentence1\nthe old bridge\nwho opened it\n")
        result = self.lathe("glue", "--model_name_or_path", self.out, "--validation_file", unlabelled, "--do_eval", "--int8",
                            "--output_dir", self.root / "unlabelled")
        self.assertRegex(result.stderr, r"int8 beside fp32: the same prediction for [0-9.]+ % of the samples")
        texts = ["the old bridge", "who opened it"]
        for model, words in (("classification", "the same prediction for 100.00 %"), ("multi_label", "the same"),
                             ("regression", "values differ by 0.0")):
            result = self.lathe("predict", GOLDEN / model, *texts, "--int8", "--bf16")
            self.assertIn("int8 beside bf16: " + words, result.stderr)
            self.assertEqual(len(result.stdout.splitlines()), 2)

    def test_predict_agrees_with_the_values_of_the_trained_run(self):
        self.works([*self.command(), "--do_predict", "--test_file", str(self.dev)])
        (self.root / "texts.txt").write_text("".join(line.rsplit(",", 1)[0] + "\n"
                                                     for line in self.dev.read_text().splitlines()[1:]))
        predicted = self.lathe("predict", self.out, "--file", self.root / "texts.txt", "--max_seq_length", "32")
        wanted = [line.split("\t")[1] for line in (self.out / "predict_results_None.txt").read_text().splitlines()[1:]]
        self.assertEqual([line.split("\t")[0] for line in predicted.stdout.splitlines()], wanted)

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
        rows = [json.loads(line)["probabilities"] for line in self.lathe("predict", model, *texts, "--json").stdout.splitlines()]
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

    def test_tokenize_prints_an_object_per_line(self):
        (self.root / "texts.txt").write_text("the old bridge\nwho opened it\tthe red ship\n\n")
        lines = self.lathe("tokenize", cl.MODEL, "--file", self.root / "texts.txt").stdout.splitlines()
        single, pair, empty = map(json.loads, lines)
        self.assertEqual(set(single["type_ids"]), {0})
        self.assertEqual(set(pair["type_ids"]), {0, 1})
        self.assertEqual(len(empty["ids"]), 2)
        self.assertEqual(json.loads(self.lathe("tokenize", cl.MODEL, "who opened it", "the red ship").stdout), pair)

    def test_info_doctor_and_arguments(self):
        info = self.lathe("info", cl.MODEL).stdout
        for word in ("2 layers", "4 heads", "115 tokens", "bert.pooler.dense.weight", "BertForSequenceClassification"):
            self.assertIn(word, info)
        doctor = cl.run([cl.program(), "doctor"])
        self.assertIn(doctor.returncode, (0, 1))
        for line in doctor.stdout.splitlines():
            self.assertRegex(line, r"^(\[GOOD\]|\[BAD\]|  )")
        toaster = cl.run([cl.program(), "doctor", "--device", "toaster"])
        self.assertEqual(toaster.returncode, 2)
        self.assertIn("toaster", toaster.stderr)
        table = json.loads(self.lathe("arguments", "--json").stdout)
        rows = {row["name"]: row for row in table["training"]}
        self.assertEqual(rows["learning_rate"]["default"], 5e-5)
        self.assertIn("learning_rate", self.lathe("arguments").stdout)
        self.assertEqual(self.lathe("help").stdout, self.lathe("--help").stdout)
        self.assertEqual(self.lathe("help", "glue").stdout, self.lathe("glue", "--help").stdout)
        said = self.lathe("help", "launch").stdout
        self.assertEqual(said, self.lathe("launch", "--help").stdout)
        self.assertTrue(said.startswith("usage: lathe launch -n N "), said)
        self.assertLessEqual(max(map(len, said.splitlines())), 120)
        result = cl.run([cl.program(), "launch", "-n", "2", "predict"])
        self.assertEqual(result.returncode, 2)
        self.assertIn("found the command 'predict', wants glue or qa", result.stderr)
        self.assertEqual(self.lathe("version").stdout, self.lathe("--version").stdout)
        for words, said in ((["gleu"], "unknown command gleu; did you mean glue?\n"),
                            (["help", "predcit"], "unknown command predcit; did you mean predict?\n"),
                            (["nonsense"], "unknown command nonsense\n"), (["x"], "unknown command x\n")):
            unknown = cl.run([cl.program(), *words])
            self.assertEqual(unknown.returncode, 2)
            self.assertIn(said, unknown.stderr)
        shells = cl.run([cl.program(), "completion", "bash", "zsh"])
        self.assertEqual(shells.returncode, 2)
        self.assertIn("found 'bash zsh', wants bash, zsh or fish", shells.stderr)


@unittest.skipUnless(numpy and (DATA / "vocab").is_dir(), "needs the wheels numpy and safetensors, and LATHE_DATA_DIR")
class PrintedCommands(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temp = tempfile.TemporaryDirectory()
        cls.root = pathlib.Path(cls.temp.name)
        for name in ("bert-base-cased", "bert-base-uncased"):
            model = cls.root / "hf" / "hub" / f"models--google-bert--{name}"
            make_base(model / "snapshots" / "0123abcd", name)
            (model / "refs").mkdir()
            (model / "refs" / "main").write_text("0123abcd")
        cls.environment = {**os.environ, "HF_HOME": str(cls.root / "hf"), "LATHE_DATA_DIR": str(DATA)}

    @classmethod
    def tearDownClass(cls):
        cls.temp.cleanup()

    def works(self, line, *more):
        """A command as printed; its output goes below this test's folder."""
        words = line.replace("/tmp/", f"{self.root}/").split()
        result = subprocess.run([cl.program(), *words[1:], *more], capture_output=True, text=True, timeout=300,
                                env=self.environment)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result

    def check_common_files(self, out):
        self.assertLessEqual(MODEL_FILES, set(os.listdir(out)))
        self.assertLessEqual(MODEL_FILES | {"trainer_state.json", "training_args.json"},
                             set(os.listdir(out / "checkpoint-4")))
        train = read(out / "train_results.json")
        self.assertEqual(sorted(train), sorted(keys("train", "loss") + ["total_flos"]))
        both = set(train) | set(read(out / "eval_results.json"))
        self.assertEqual(sorted(read(out / "all_results.json")), sorted(both))
        self.assertEqual(sorted(read(out / "trainer_state.json")), STATE_KEYS)
        tensors = load_file(str(out / "model.safetensors"))
        self.assertTrue(all(t.dtype == numpy.float32 and numpy.isfinite(t).all() for t in tensors.values()))
        self.assertFalse([name for name in os.listdir(out) if name.startswith(".")])

    def test_glue(self):
        result = self.works("lathe glue --model_name_or_path bert-base-cased --task_name mrpc --do_train --do_eval "
                            "--max_seq_length 128 --per_device_train_batch_size 32 --learning_rate 2e-5 "
                            "--num_train_epochs 3 --output_dir /tmp/mrpc/ --overwrite_output_dir", *SHORT,
                            "--do_predict", "--max_predict_samples", "20", "--logging_steps", "1")
        out = self.root / "mrpc"
        self.check_common_files(out)
        self.assertEqual(sorted(read(out / "eval_results.json")),
                         keys("eval", "accuracy", "combined_score", "f1", "loss"))
        self.assertEqual(read(out / "eval_results.json")["eval_samples"], 64)
        lines = (out / "predict_results_mrpc.txt").read_text().splitlines()
        self.assertEqual(lines[0], "index\tprediction")
        self.assertEqual(len(lines), 21)
        self.assertLessEqual({line.split("\t")[1] for line in lines[1:]}, {"equivalent", "not_equivalent"})
        self.assertEqual(read(out / "config.json")["architectures"], ["BertForSequenceClassification"])
        self.assertIn(str(DATA / "glue" / "MRPC" / "train.tsv"), result.stderr)
        self.assertIn("***** train metrics *****", result.stdout)
        self.assertIn("***** eval metrics *****", result.stdout)
        self.assertEqual(sum(line.startswith("{'loss':") for line in result.stdout.splitlines()), 4)

    def test_question_answering(self):
        result = self.works("lathe qa --model_name_or_path bert-base-uncased --dataset_name squad --do_train --do_eval "
                            "--per_device_train_batch_size 12 --learning_rate 3e-5 --num_train_epochs 2 "
                            "--max_seq_length 384 --doc_stride 128 --output_dir /tmp/debug_squad/ --use_ipex --bf16 "
                            "--use_cpu", *SHORT)
        out = self.root / "debug_squad"
        self.check_common_files(out)
        self.assertEqual(sorted(read(out / "eval_results.json")), keys("eval", "exact_match", "f1"))
        answers, best = read(out / "eval_predictions.json"), read(out / "eval_nbest_predictions.json")
        self.assertEqual(list(answers), list(best))
        self.assertTrue(all(isinstance(answer, str) for answer in answers.values()))
        for entries in best.values():
            self.assertEqual(sorted(entries[0]), ["end_logit", "probability", "start_logit", "text"])
            self.assertAlmostEqual(sum(e["probability"] for e in entries), 1, places=4)
        self.assertEqual(read(out / "config.json")["architectures"], ["BertForQuestionAnswering"])
        self.assertEqual(sum("use_ipex" in line for line in result.stderr.splitlines()), 1)
        for name in ("train-v1.1", "dev-v1.1"):  # which files it took is said
            self.assertIn(str(DATA / "squad" / name), result.stderr)

    def test_both_forms_of_a_name(self):
        for name in ("bert-base-cased", "google-bert/bert-base-cased"):
            result = self.works(f"lathe info {name}")
            self.assertIn("28996 tokens", result.stdout.replace(",", ""))


if __name__ == "__main__":
    cl.main()
