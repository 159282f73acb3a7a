#!/usr/bin/env python3
"""The commands of tutorials as printed, on the real vocabularies: the files they write and what is in those files."""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import command_line as cl
from command_line import GOLDEN, CommandsCase, read

try:
    import numpy
    from safetensors.numpy import load_file, save_file
except ImportError:
    numpy = None

DATA = pathlib.Path(os.environ.get("LATHE_DATA_DIR", cl.ROOT / ".." / "shared" / "data"))
SHORT = ["--max_train_samples", "64", "--max_eval_samples", "64", "--max_steps", "4"]
SPEED = ["runtime", "samples_per_second", "steps_per_second"]
STATE_KEYS = """best_global_step best_metric best_model_checkpoint epoch eval_steps global_step is_hyper_param_search
    is_local_process_zero is_world_process_zero log_history logging_steps max_steps num_input_tokens_seen
    num_train_epochs save_steps stateful_callbacks total_flos train_batch_size trial_name trial_params""".split()
MODEL_FILES = {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}


def keys(split, *more):
    return sorted([f"{split}_{key}" for key in [*SPEED, "samples", *more]] + ["epoch"])


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
