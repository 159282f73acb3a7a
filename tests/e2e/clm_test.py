#!/usr/bin/env python3
"""lathe clm: what run_clm.py computes with tiny decoders, going on with the same bits, several processes, adapters; and what bad
input is told."""
import json
import math
import shutil

import command_line as cl
from command_line import CommandsCase, read
from ranks import LOSS_ROUNDING, lathe_launch

CLM, MLM = cl.ROOT / "tests" / "golden" / "clm", cl.ROOT / "tests" / "golden" / "mlm"


class Clm(CommandsCase):
    def clm(self, folder, *more, model=CLM / "llama", train=MLM / "train.txt", batch="3"):
        start = ["--model_name_or_path", str(model)] if model else []
        return [cl.program(), "clm", *start, "--train_file", str(train), "--validation_file", str(MLM / "validation.txt"),
                "--block_size", "24", "--per_device_train_batch_size", batch, "--gradient_accumulation_steps", "2",
                "--per_device_eval_batch_size", "4", "--learning_rate", "1e-3", "--max_steps", "20", "--logging_steps", "1",
                "--do_train", "--do_eval", "--output_dir", str(folder), "--use_cpu", *more]

    def weights(self, folder):
        return (folder / "model.safetensors").read_bytes()

    def losses(self, folder):
        return [entry["loss"] for entry in read(folder / "trainer_state.json")["log_history"] if "loss" in entry]

    def fails(self, command, *parts):
        result = cl.run(command)
        self.assertIn(result.returncode, (1, 2))
        for part in parts:
            self.assertIn(part, result.stderr)

    def test_it_does_what_the_script_does(self):
        for family, name in (("llama", "LlamaForCausalLM"), ("qwen3", "Qwen3ForCausalLM")):
            with self.subTest(family):
                out = self.root / family
                result = self.works(self.clm(out, "--save_strategy", "no", model=CLM / family))
                for part in ("training data: ", "a text a line, 72 texts", "101 training samples, 2424 tokens, 24 each", "sample 1: "):
                    self.assertIn(part, result.stderr)
                trace, results = read(CLM / family / "trace.json"), read(out / "all_results.json")
                history = [e for e in read(out / "trainer_state.json")["log_history"] if "loss" in e]
                for entry, loss, norm in zip(history, trace["losses"], trace["grad_norms"], strict=True):
                    self.assertAlmostEqual(entry["loss"], loss, delta=5e-6 * loss)
                    self.assertAlmostEqual(entry["grad_norm"], norm, delta=1e-5 * norm)
                self.assertEqual([results["train_samples"], results["eval_samples"]], trace["samples"])
                self.assertAlmostEqual(results["eval_accuracy"], trace["eval_accuracy"], delta=1e-9)
                self.assertAlmostEqual(results["eval_loss"], trace["eval_loss"], delta=5e-6 * trace["eval_loss"])
                self.assertEqual(results["perplexity"], math.exp(results["eval_loss"]))
                self.assertEqual(read(out / "config.json")["architectures"], [name])

    def test_it_goes_on_with_the_same_bits(self):
        dropout = ("--config_overrides", "attention_dropout=0.1", "--save_steps", "7")
        self.works(self.clm(self.out, *dropout))
        again = self.root / "again"
        self.works(self.clm(again, *dropout, "--resume_from_checkpoint", str(self.out / "checkpoint-14")))
        self.assertEqual(self.weights(again), self.weights(self.out))
        self.assertEqual(self.losses(again), self.losses(self.out))

    def test_threads_processes_and_accumulation_change_nothing(self):
        self.works(self.clm(self.out, "--threads", "1", "--save_strategy", "no"))
        self.works(self.clm(self.root / "threads", "--threads", "2", "--save_strategy", "no"))
        self.assertEqual(self.weights(self.root / "threads"), self.weights(self.out))
        self.works(lathe_launch(2, self.clm(self.root / "ranks", "--gradient_accumulation_steps", "1", "--save_strategy", "no")))
        self.works(self.clm(self.root / "whole", "--gradient_accumulation_steps", "1", "--save_strategy", "no", batch="6"))
        for name in ("ranks", "whole"):  # before the end of the epoch, where ranks fill the last batch
            for mine, theirs in zip(self.losses(self.root / name)[:16], self.losses(self.out), strict=False):
                self.assertAlmostEqual(mine, theirs, delta=LOSS_ROUNDING * theirs)

    def test_an_adapter_is_trained_and_merged(self):
        result = self.works(self.clm(self.out, "--use_peft", "--lora_r", "4", "--save_strategy", "no", "--learning_rate", "1e-2"))
        self.assertIn("q_proj", (self.out / "adapter_config.json").read_text(), result.stderr)
        self.assertEqual(read(self.out / "adapter_config.json")["task_type"], "CAUSAL_LM")
        losses = self.losses(self.out)
        self.assertLess(losses[-1], losses[0])
        merged = self.root / "merged"
        self.works([cl.program(), "merge", str(self.out), "--output_dir", str(merged)])
        both = []
        for folder in (self.out, merged):
            out = self.root / f"eval-{folder.name}"
            self.works([cl.program(), "clm", "--model_name_or_path", str(folder), "--validation_file", str(MLM / "validation.txt"),
                        "--block_size", "24", "--do_eval", "--output_dir", str(out), "--use_cpu"])
            both.append(read(out / "all_results.json")["eval_loss"])
        self.assertAlmostEqual(both[0], both[1], delta=1e-6)

    def test_a_new_model(self):
        self.works(self.clm(self.out, "--config_name", str(CLM / "qwen3"), "--tokenizer_name", str(CLM / "qwen3"),
                            "--learning_rate", "1e-2", model=None))
        self.assertLess(self.losses(self.out)[-1], self.losses(self.out)[0] - 0.5)
        self.works([cl.program(), "info", str(self.out)])
        self.fails([cl.program(), "predict", str(self.out), "a text"], "Qwen3ForCausalLM", "does not write texts yet")

    def test_lines_keep_their_ends(self):
        lines = self.root / "lines.txt"
        lines.write_bytes(b"the old bridge\r\nis small\rwho opened it\nwhat runs" * 12)
        plain = self.root / "plain.txt"
        plain.write_bytes(lines.read_bytes().replace(b"\r\n", b"\n").replace(b"\r", b"\n"))
        self.works(self.clm(self.root / "a", "--max_steps", "2", train=lines))
        self.works(self.clm(self.root / "b", "--max_steps", "2", train=plain))
        self.assertEqual(self.weights(self.root / "a"), self.weights(self.root / "b"))
        self.works(self.clm(self.root / "c", "--max_steps", "2", "--keep_linebreaks", "false", train=plain))
        self.assertNotEqual(self.losses(self.root / "c"), self.losses(self.root / "b"))

    def test_what_it_refuses(self):
        short = self.root / "short.txt"
        short.write_text("one line\n")
        self.fails(self.clm(self.out, train=short), "training tokens, expected at least the 24 of a sample", "--block_size")
        self.fails(self.clm(self.out, "--block_size", "1"), "--block_size")
        self.fails(self.clm(self.out, model=cl.GOLDEN / "masked_lm"), "ForCausalLM")
        for key, value, *parts in (("num_key_value_heads", 3, "expected a divisor of \"num_attention_heads\", 4"),
                                   ("rope_parameters", {"rope_type": "dynamic"}, "expected default, linear, llama3 or yarn"),
                                   ("head_dim", 5, "expected an even number"), ("hidden_act", "relu", "expected silu, gelu"),
                                   ("layer_types", ["chunked_attention"] * 2, "\"full_attention\" or \"sliding_attention\""),
                                   ("final_logit_softcapping", 30.0, "Lathe does not bound scores"),
                                   ("sliding_window", 1, "expected 2 to")):
            with self.subTest(key):
                folder = self.root / f"bad-{key}"
                shutil.copytree(CLM / ("qwen3" if key == "sliding_window" else "llama"), folder)
                config = read(folder / "config.json")
                config["use_sliding_window"] = True  # which Qwen reads
                config[key] = value
                (folder / "config.json").write_text(json.dumps(config))
                self.fails(self.clm(self.out, model=folder), "config.json", *parts)


if __name__ == "__main__":
    cl.main()
