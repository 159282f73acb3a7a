#!/usr/bin/env python3
"""The commands as a user types them."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import time

import command_line as cl
from command_line import GOLDEN, CommandsCase, read


class Commands(CommandsCase):
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

    def test_help_shows_what_comes_first(self):
        overview = self.lathe("--help").stdout
        self.assertIn("\ntrain:\n  glue ", overview)
        self.assertIn("\nfor example:\n  lathe glue --model_name_or_path ", overview)
        for line in overview.splitlines():
            self.assertLessEqual(len(line), 100)
        without = cl.run([cl.program()])
        self.assertEqual((without.returncode, without.stdout), (2, overview))
        for name in ("glue", "qa", "ner", "mlm", "clm", "swag", "rerank"):
            first, everything = self.lathe(name, "--help").stdout, self.lathe(name, "--help", "all").stdout
            self.assertIn("for example:\n  lathe " + name, first)
            self.assertLess(len(first.splitlines()), 100)   # a third of everything
            self.assertIn("Peak learning rate. (default: 5e-05)", first)
            self.assertIn(" --warmup_steps", first)
            self.assertNotIn("Updates over which the learning rate rises", first)
            self.assertIn("Updates over which the learning rate rises", everything)
        self.assertEqual(self.lathe("doctor", "--help").stdout, self.lathe("doctor", "--help", "all").stdout)

    def test_called_by_the_names_of_the_scripts(self):
        for name in ("run_glue", "run_qa", "run_ner", "run_mlm", "run_clm", "run_swag"):
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
            self.assertRegex(line, r"^(\[GOOD\]|\[BAD\] |\[ -- \]) ")
        toaster = cl.run([cl.program(), "doctor", "--device", "toaster"])
        self.assertEqual(toaster.returncode, 2)
        self.assertIn("toaster", toaster.stderr)
        table = json.loads(self.lathe("arguments", "--json").stdout)
        rows = {row["name"]: row for row in table["training"]}
        self.assertEqual(rows["learning_rate"]["default"], 5e-5)
        self.assertIn("learning_rate", self.lathe("arguments").stdout)
        self.assertEqual(self.lathe("help").stdout, self.lathe("--help").stdout)
        self.assertEqual(self.lathe("help", "glue").stdout, self.lathe("glue", "--help").stdout)
        self.assertEqual(self.lathe("help", "glue", "all").stdout, self.lathe("glue", "--help", "all").stdout)
        said = self.lathe("help", "launch").stdout
        self.assertEqual(said, self.lathe("launch", "--help").stdout)
        self.assertTrue(said.startswith("usage: lathe launch -n N "), said)
        self.assertLessEqual(max(map(len, said.splitlines())), 120)
        result = cl.run([cl.program(), "launch", "-n", "2", "predict"])
        self.assertEqual(result.returncode, 2)
        self.assertIn("found the command 'predict', expected one of glue, classify, qa", result.stderr)
        self.assertEqual(self.lathe("version").stdout, self.lathe("--version").stdout)
        for words, said in ((["gleu"], "unknown command gleu; did you mean glue?\n"),
                            (["help", "predcit"], "unknown command predcit; did you mean predict?\n"),
                            (["nonsense"], "unknown command nonsense\n"), (["x"], "unknown command x\n")):
            unknown = cl.run([cl.program(), *words])
            self.assertEqual(unknown.returncode, 2)
            self.assertIn(said, unknown.stderr)
        shells = cl.run([cl.program(), "completion", "bash", "zsh"])
        self.assertEqual(shells.returncode, 2)
        self.assertIn("found 'bash zsh', expected bash, zsh or fish", shells.stderr)


if __name__ == "__main__":
    cl.main()
