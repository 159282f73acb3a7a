#!/usr/bin/env python3
"""The two printed commands at the size of BERT-base, as printed but for the program's name, the output folder and the
number of samples.  The weights are random, in a cache of the Hub's layout, with the real configuration and vocabularies
and the parameter names of the Hub's own BERT-base files."""
import json
import math
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import command_line as cl
from command_line import read
from printed_commands_test import DATA, keys, numpy

if numpy is None or not (DATA / "vocab").is_dir():
    print("skipped: needs the wheels numpy and safetensors (tools/setup.sh --test), and LATHE_DATA_DIR")
    sys.exit(77)
from safetensors.numpy import load_file, save_file

GLUE = ("lathe glue --model_name_or_path bert-base-cased --task_name mrpc --do_train --do_eval --max_seq_length 128 "
        "--per_device_train_batch_size 32 --learning_rate 2e-5 --num_train_epochs 3 --output_dir /tmp/mrpc/ "
        "--overwrite_output_dir")
QA = ("lathe qa --model_name_or_path bert-base-uncased --dataset_name squad --do_train --do_eval "
      "--per_device_train_batch_size 12 --learning_rate 3e-5 --num_train_epochs 2 --max_seq_length 384 "
      "--doc_stride 128 --output_dir /tmp/debug_squad/ --use_ipex --bf16 --use_cpu")


def base_shapes(config):
    """Names and shapes of a checkpoint of BERT's pre-training, with the old names gamma and beta, as on the Hub."""
    wide, inner = config["hidden_size"], config["intermediate_size"]
    norm = lambda at: {f"{at}.LayerNorm.gamma": (wide,), f"{at}.LayerNorm.beta": (wide,)}
    linear = lambda at, rows, columns: {f"{at}.weight": (rows, columns), f"{at}.bias": (rows,)}
    shapes = {f"bert.embeddings.{name}_embeddings.weight": (config[rows], wide) for name, rows in
              (("word", "vocab_size"), ("position", "max_position_embeddings"), ("token_type", "type_vocab_size"))}
    shapes |= norm("bert.embeddings")
    for layer in range(config["num_hidden_layers"]):
        at = f"bert.encoder.layer.{layer}"
        for name in ("query", "key", "value"):
            shapes |= linear(f"{at}.attention.self.{name}", wide, wide)
        shapes |= linear(f"{at}.attention.output.dense", wide, wide) | norm(f"{at}.attention.output")
        shapes |= linear(f"{at}.intermediate.dense", inner, wide) | linear(f"{at}.output.dense", wide, inner)
        shapes |= norm(f"{at}.output")
    shapes |= linear("bert.pooler.dense", wide, wide) | {"cls.predictions.bias": (config["vocab_size"],)}
    shapes |= linear("cls.predictions.transform.dense", wide, wide) | norm("cls.predictions.transform")
    return shapes | linear("cls.seq_relationship", 2, wide)


def make_snapshot(cache, name):
    """What the Hub's client keeps of google-bert/NAME, with random weights."""
    repository = cache / "hub" / f"models--google-bert--{name}"
    folder = repository / "snapshots" / "0123abcd"
    folder.mkdir(parents=True)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("0123abcd")
    shutil.copy(DATA / "vocab" / name / "vocab.txt", folder)
    words = len((folder / "vocab.txt").read_text(encoding="utf-8").splitlines())
    config = {**read(DATA / "vocab" / "bert-base-uncased" / "config.json"), "vocab_size": words, "model_type": "bert",
              "architectures": ["BertForMaskedLM"]}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": "uncased" in name,
                                                              "model_max_length": 512}))
    draw, tensors = numpy.random.default_rng(1), {}
    for key, shape in base_shapes(config).items():
        if key.endswith("gamma"):
            tensors[key] = numpy.ones(shape, numpy.float32)
        elif len(shape) == 1:
            tensors[key] = numpy.zeros(shape, numpy.float32)
        else:
            tensors[key] = draw.standard_normal(shape, numpy.float32) * numpy.float32(config["initializer_range"])
    save_file(tensors, str(folder / "model.safetensors"), {"format": "pt"})


class BaseSize(unittest.TestCase):
    def works(self, line, model, *more):
        temp = tempfile.TemporaryDirectory()
        self.addCleanup(temp.cleanup)
        root = pathlib.Path(temp.name)
        make_snapshot(root, model)
        words = line.replace("/tmp/", f"{root}/").split()
        environment = {**os.environ, "HF_HOME": str(root), "LATHE_DATA_DIR": str(DATA)}
        result = subprocess.run([cl.program(), *words[1:], *more], capture_output=True, text=True, timeout=1800,
                                env=environment)
        self.assertEqual(result.returncode, 0, result.stderr)
        out = pathlib.Path(words[words.index("--output_dir") + 1])
        tensors = load_file(str(out / "model.safetensors"))
        elements = sum(t.size for t in tensors.values())
        self.assertTrue(all(t.dtype == numpy.float32 and numpy.isfinite(t).all() for t in tensors.values()))
        return out, result, elements

    def test_glue(self):
        out, result, elements = self.works(GLUE, "bert-base-cased", "--max_train_samples", "64",
                                           "--max_eval_samples", "32")
        self.assertEqual(elements, 108_310_272 + 2 * 768 + 2)  # bert-base-cased with its pooler, and the classifier
        self.assertEqual(read(out / "trainer_state.json")["global_step"], 6)
        self.assertEqual(sorted(read(out / "eval_results.json")),
                         keys("eval", "accuracy", "combined_score", "f1", "loss"))
        # an untrained model gives both classes nearly the same probability: ln 2 = 0.69
        self.assertTrue(0.3 < read(out / "train_results.json")["train_loss"] < 1.4)
        self.assertIn("***** eval metrics *****", result.stdout)

    def test_question_answering(self):
        out, result, elements = self.works(QA, "bert-base-uncased", "--max_train_samples", "24",
                                           "--max_eval_samples", "24")
        self.assertEqual(elements, 108_891_648 + 2 * 768 + 2)  # bert-base-uncased without its pooler, and the head
        self.assertEqual(read(out / "trainer_state.json")["global_step"], 4)
        self.assertEqual(sorted(read(out / "eval_results.json")), keys("eval", "exact_match", "f1"))
        # an untrained model gives each of n ≤ 384 places nearly the same probability: ln n ≤ 5.95
        self.assertTrue(3 < read(out / "train_results.json")["train_loss"] < math.log(384) + 1)
        self.assertTrue(all(read(out / "eval_nbest_predictions.json").values()))
        self.assertEqual(sum("use_ipex" in line for line in result.stderr.splitlines()), 1)


if __name__ == "__main__":
    cl.main()
