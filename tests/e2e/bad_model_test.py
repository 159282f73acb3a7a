#!/usr/bin/env python3
"""Models, tokenizers and checkpoints that are damaged, or do not fit: see bad_input_test."""
import gzip
import json
import os
import shutil
import struct
import subprocess
import unittest
import unittest.mock

import command_line as cl
from bad_input import GOOD_CSV, BadInputCase, files_below, set_values


class BadModel(BadInputCase):
    def test_truncated_weights(self):
        weights = self.model / "model.safetensors"
        whole = weights.read_bytes()
        for size in (0, 5, 8, 100, len(whole) // 2, len(whole) - 1):
            weights.write_bytes(whole[:size])
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
                   "expected a multiple", "take the config.json")

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
                (config, page, "expected JSON, found a web page", "fetch the file again"), (config, b" \n", "an empty file"),
                (config, good[config].decode().encode("utf-16"), "UTF-16 text", "iconv"),
                (config, pointer, "a Git LFS pointer", "git lfs pull"), (config, bytes(4096), "zero bytes", "full disk"),
                (config, good[config] + bytes(9), ":39:1: found a zero byte", "damaged"),
                (config, good[config][:-3], "the text ends too early"),
                (weights, page, "expected a safetensors file, found a web page"),
                (weights, b"PK\3\4" + bytes(99), "expected a safetensors file, found a zip archive"),
                (weights, struct.pack("<Q", 5) + b"\xef\xbb\xbf{}", "begins with a byte-order mark, expected '{'", "damaged"),
                (weights, struct.pack("<Q", 4) + b"{}\0\0", "header:1:3: found a zero byte"),
                (tokenizer, gzip.compress(good[tokenizer]), "expected JSON, found gzip data", "gunzip"),
                (tokenizer, page, "a web page"), (tokenizer, good[tokenizer].decode().encode("utf-16-le"), "UTF-16"),
                (self.train, page, "expected a table with at least one row, found a web page"),
                (self.train, b"PK\3\4", "a zip archive, as torch.save and Excel write"),
                (self.dev, GOOD_CSV.replace(",who", ",wh\0o", 1).encode(), "found 'wh\\x00o', expected one of the known labels")):
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
        for layers, wanted in ((10000, "expected 1 to 1000"), (900, "have 2 layers"), (3, "have 2 layers")):
            (self.model / "config.json").write_text(json.dumps({**config, "num_hidden_layers": layers}))
            self.fails(self.command(), self.model / "config.json", f'"num_hidden_layers" is {layers}', wanted, "take")

    def test_values_of_the_configuration(self):
        config = json.loads((self.model / "config.json").read_text())
        for key, value, *words in (
                ("hidden_act", "silu", "expected gelu, gelu_python, relu or tanh", "take a model"),
                ("hidden_act", 5, "expected a string"), ("model_type", "t5", 'expected one of "bert", "roberta"', "take a model"),
                ("model_type", "deberta-v2", "relative positions", 'take an encoder without them, "modernbert"'),
                ("position_embedding_type", "relative_key", 'expected "absolute"', "take a model"),
                ("is_decoder", True, "true", "expected false"), ("num_hidden_layers", 0, "expected 1 to", "take the config"),
                ("hidden_size", "x", "expected an integer"), ("hidden_dropout_prob", 1.5, "expected a probability"),
                ("layer_norm_eps", -1.0, "expected 0 or more"), ("initializer_range", "a", "expected a number")):
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

    def test_a_file_is_no_model(self):
        (self.root / "some").mkdir()
        (self.root / "some" / "config.json").write_text("{}")
        result = cl.run([cl.program(), "info", "some/config.json"], cwd=self.root)
        self.assertEqual(result.returncode, 1)
        self.assertIn("some/config.json: found a file, expected a folder with config.json", result.stderr)

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

    def test_weights_that_a_model_has_no_place_for_are_said(self):
        path = self.model / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "num_hidden_layers": 1}))
        result = self.works([cl.program(), "predict", str(self.model), "the old bridge"])
        self.assertIn("not used by this model: bert.encoder.layer.1.", result.stderr)

    def test_a_model_without_a_classifier_does_not_classify(self):
        weights = cl.MODEL.parent / "masked_lm" / "model.safetensors"
        (self.model / "model.safetensors").write_bytes(weights.read_bytes())
        self.fails([cl.program(), "predict", str(self.model), "the old bridge"], "classifier.weight", "predicts at random")

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
                   "expected classifier.weight[3, 32]", "--overwrite_output_dir", keep=kept)
        self.fails([*self.command(), "--resume_from_checkpoint", str(self.model)], self.model,
                   "not found", keep=kept)
        state = checkpoint / "lathe_state.safetensors"
        state.write_bytes(state.read_bytes()[:1000])
        self.fails([*self.command(), *resume], state, keep=kept)

    def test_a_tokenizer_that_pads_left(self):
        """A model of transformers then classifies by a padding token, with other logits than Lathe's, which pads nothing."""
        path = self.model / "tokenizer_config.json"
        settings = json.loads(path.read_text())
        path.write_text(json.dumps({**settings, "padding_side": "left"}))
        self.fails(self.command(), "tokenizer_config.json: padding_side: found left", "needs right")
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


if __name__ == "__main__":
    unittest.main()
