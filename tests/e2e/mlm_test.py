#!/usr/bin/env python3
"""lathe mlm from texts to filled masks: training, going on, from scratch, scores; and what bad input is told."""
import array
import json
import math
import shutil
import unittest

import bad_input
import command_line as cl
from command_line import GOLDEN, CommandsCase, read

MLM = cl.ROOT / "tests" / "golden" / "mlm"
FAMILIES = ("bert", "roberta", "xlm_roberta", "distilbert", "modernbert")


class Mlm(CommandsCase):
    def mlm(self, folder, *more, model=MLM / "bert", texts=MLM / "train.txt"):
        start = ["--model_name_or_path", str(model)] if model else []
        return [cl.program(), "mlm", *start, "--train_file", str(texts), "--validation_file", str(MLM / "validation.txt"),
                "--line_by_line", "--max_seq_length", "20", "--per_device_train_batch_size", "4",
                "--per_device_eval_batch_size", "3", "--learning_rate", "1e-3", "--max_steps", "20", "--do_train", "--do_eval",
                "--output_dir", str(folder), "--use_cpu", *more]

    def weights(self, folder):
        return (folder / "model.safetensors").read_bytes()

    def test_train_evaluate_and_go_on_with_the_same_bits(self):
        steps = ("--eval_strategy", "steps", "--eval_steps", "4", "--save_steps", "6", "--gradient_accumulation_steps", "2")
        result = self.works(self.mlm(self.out, *steps, "--report_to", "html"))
        for part in ("training data: ", "a text a line, 72 texts", "66 training samples", "are cut at 20",
                     "sample 1: ", "next: lathe predict"):
            self.assertIn(part, result.stderr)
        results = read(self.out / "all_results.json")
        self.assertEqual(results["perplexity"], math.exp(results["eval_loss"]))
        self.assertEqual((results["train_samples"], results["eval_samples"]), (66, 12))
        self.assertEqual(read(self.out / "config.json")["architectures"], ["BertForMaskedLM"])
        card = (self.out / "README.md").read_text()
        self.assertIn("\n- Accuracy: ", card)
        self.assertIn("eval_accuracy", (self.out / "report.html").read_text())
        for step in (6, 12, 18):  # the masks of the evaluations between, and of the last one, too
            again = self.root / f"again-{step}"
            self.works(self.mlm(again, *steps, "--resume_from_checkpoint", str(self.out / f"checkpoint-{step}")))
            self.assertEqual(self.weights(again), self.weights(self.out), step)
            for name in ("eval_loss", "eval_accuracy", "perplexity"):
                self.assertEqual(read(again / "all_results.json")[name], results[name])

    def test_it_does_what_the_script_does(self):
        """As in the stored run: no evaluation but the one after the training moves its masks."""
        for family in FAMILIES:
            with self.subTest(family):
                out = self.root / family
                self.works(self.mlm(out, "--weight_decay", "0.01", "--eval_strategy", "steps", "--eval_steps", "8",
                                    "--logging_steps", "1", "--save_strategy", "no", model=MLM / family))
                trace = read(MLM / family / "lines.json")
                history = [e for e in read(out / "trainer_state.json")["log_history"] if "loss" in e]
                for entry, loss in zip(history, trace["losses"], strict=True):
                    self.assertAlmostEqual(entry["loss"], loss, delta=5e-6)
                last, results = trace["evaluation 4"], read(out / "eval_results.json")
                for name, wanted in (("eval_loss", "loss"), ("eval_accuracy", "accuracy")):
                    self.assertAlmostEqual(results[name], last[wanted], delta=5e-6)

    def test_a_tokenizer_with_more_tokens_makes_the_model_larger(self):
        def rows(folder, name, width):
            header, data = bad_input.split_weights(folder / "model.safetensors")
            begin, end = header[name]["data_offsets"]
            flat = array.array("f", bytes(data[begin:end]))
            return [flat[i:i + width] for i in range(0, len(flat), width)]

        tokenizer = self.root / "tokenizer"
        shutil.copytree(MLM / "bert", tokenizer)
        (tokenizer / "model.safetensors").unlink()
        facts = read(tokenizer / "tokenizer.json")
        old = len(facts["model"]["vocab"])
        for number, word in enumerate(("zeppelin", "quince")):
            facts["added_tokens"].append({"id": old + number, "content": word, "single_word": False, "lstrip": False,
                                          "rstrip": False, "normalized": True, "special": False})
        (tokenizer / "tokenizer.json").write_text(json.dumps(facts))
        self.refused(self.mlm(self.out, "--tokenizer_name", str(tokenizer), "--use_peft"), 2,
                     f"--use_peft: the tokenizer has {old + 2} tokens, the model {old}", "train the whole model")
        steps = ("--tokenizer_name", str(tokenizer), "--learning_rate", "0", "--max_steps", "1")
        result = self.works(self.mlm(self.out, *steps))
        self.assertIn(f"the tokenizer has {old + 2} tokens, the model {old}: 2 are added to it", result.stderr)
        config = read(self.out / "config.json")
        self.assertEqual(config["vocab_size"], old + 2)
        for name, width in (("bert.embeddings.word_embeddings.weight", config["hidden_size"]), ("cls.predictions.bias", 1)):
            before, after = rows(MLM / "bert", name, width), rows(self.out, name, width)
            self.assertEqual(before, after[:old])
            for k in range(width):
                mean = sum(row[k] for row in before) / old
                for row in after[old:]:
                    self.assertAlmostEqual(row[k], mean, delta=1e-7)
        self.lathe("predict", self.out, "the old [MASK] is a quince")
        # The new rows are trained, and a run goes on with the same bits.
        steps = ("--tokenizer_name", str(tokenizer), "--save_steps", "10")
        whole, again = self.root / "whole", self.root / "again"
        self.works(self.mlm(whole, *steps))
        self.works(self.mlm(again, *steps, "--resume_from_checkpoint", str(whole / "checkpoint-10")))
        self.assertEqual(self.weights(again), self.weights(whole))

    def test_predict_fills_masks_as_the_pipeline(self):
        for family in FAMILIES:
            with self.subTest(family):
                for wanted in read(MLM / family / "model_facts.json")["fill_mask"]:
                    found = json.loads(self.lathe("predict", MLM / family, "--json", wanted["text"]).stdout)
                    self.assertEqual(found["text"], wanted["text"])
                    flat = lambda fills: [fill for one in fills for fill in (one if isinstance(one, list) else [one])]
                    for mine, theirs in zip(flat(found["fills"]), flat(wanted["fills"]), strict=True):
                        self.assertEqual(list(mine), list(theirs))
                        self.assertAlmostEqual(mine["score"], theirs["score"], delta=1e-6)
                        for name in ("token", "token_str", "sequence"):
                            self.assertEqual(mine[name], theirs[name])

    def test_predict_shows_a_table_and_reads_files(self):
        model, one, two = MLM / "bert", "the old [MASK] is small.", "Who opened the [MASK] of the [MASK]?"
        lines = [line.split("\t") for line in self.lathe("predict", model, one, "--top_k", "2").stdout.splitlines()]
        self.assertEqual([len(line) for line in lines], [3, 3])
        self.assertGreater(float(lines[0][1]), float(lines[1][1]))
        self.assertEqual(lines[0][2], f"the old {lines[0][0]} is small.")
        both = [line.split("\t") for line in self.lathe("predict", model, one, two, "--top_k", "1").stdout.splitlines()]
        self.assertEqual([line[0] for line in both], ["1", "2", "2"])
        self.assertEqual([line[1] for line in both[1:]], ["mask 1", "mask 2"])
        self.assertIn("[MASK]", both[1][-1])
        (self.root / "gaps.txt").write_text(f"{one}\n{two}\n")
        self.assertEqual(self.lathe("predict", model, "--file", self.root / "gaps.txt", "--top_k", "1").stdout,
                         "".join("\t".join(line) + "\n" for line in both))
        table = self.root / "gaps.jsonl"
        table.write_text(json.dumps({"id": 1, "text": one}) + "\n" + json.dumps({"id": 2, "text": two}) + "\n")
        rows = [json.loads(line) for line in self.lathe("predict", model, "--file", table, "--json", "--top_k", "1").stdout.splitlines()]
        self.assertEqual([row["id"] for row in rows], [1, 2])
        self.assertEqual(rows[0]["fills"][0]["token_str"], both[0][1])
        self.assertEqual([fills[0]["token_str"] for fills in rows[1]["fills"]], [line[2] for line in both[1:]])

    def test_from_scratch_and_grouped(self):
        command = self.mlm(self.out, "--model_type", "bert", "--tokenizer_name", str(MLM / "bert"), "--config_overrides",
                           "hidden_size=16,num_hidden_layers=1,num_attention_heads=2,intermediate_size=32", model=None)
        command.remove("--line_by_line")
        result = self.works(command)
        self.assertIn("a new model, bert with 1 layers of 16", result.stderr)
        self.assertIn("20 each; ", result.stderr)
        self.assertIn("was trained from scratch", (self.out / "README.md").read_text())
        self.assertEqual(read(self.out / "config.json")["hidden_size"], 16)
        self.lathe("predict", self.out, "the old [MASK]")
        command = cl.glue_command(self.root / "glue", self.train, self.dev, "--max_steps", "1")
        command[command.index(str(cl.MODEL))] = str(self.out)
        self.assertIn("newly initialised", self.works(command).stderr)

    def test_without_validation_data_the_first_texts_are_them(self):
        command = self.mlm(self.out, "--validation_split_percentage", "25")
        at = command.index("--validation_file")
        result = self.works(command[:at] + command[at + 2:])
        self.assertIn("the first 18 of 72 training texts (25 %) are them", result.stderr)
        results = read(self.out / "all_results.json")
        self.assertEqual(results["train_samples"] + results["eval_samples"], 66)

    def test_files_of_all_kinds_give_the_same_model(self):
        self.works(self.mlm(self.out))
        texts = (MLM / "train.txt").read_text().splitlines()
        jsonl, csv = self.root / "train.jsonl", self.root / "train.csv"
        jsonl.write_text("".join(json.dumps({"id": i, "text": text}) + "\n" for i, text in enumerate(texts)))
        csv.write_text("text,n\n" + "".join('"' + text.replace('"', '""') + f'",{i}\n' for i, text in enumerate(texts)))
        for path in (jsonl, csv):
            folder = self.root / path.suffix[1:]
            self.assertIn("texts in column 'text'", self.works(self.mlm(folder, texts=path)).stderr)
            self.assertEqual(self.weights(folder), self.weights(self.out), path)

    def test_a_base_gets_the_head_of_transformers_and_an_adapter_trains(self):
        result = self.works(self.mlm(self.out, model=GOLDEN / "classification"))
        self.assertIn("newly initialised", result.stderr)
        self.works(self.mlm(self.root / "lora", "--use_peft", "--lora_r", "4"))
        self.assertTrue((self.root / "lora" / "adapter_model.safetensors").exists())
        filled = self.lathe("predict", self.root / "lora", "the old [MASK]").stdout
        self.assertIn("largest change of a logit",
                      self.lathe("merge", self.root / "lora", "--output_dir", self.root / "merged").stdout)
        self.assertEqual(self.lathe("predict", self.root / "merged", "the old [MASK]").stdout, filled)

    def test_two_processes_train_and_go_on(self):
        launch = lambda folder, *more: [cl.program(), "launch", "-n", "2", *self.mlm(
            folder, "--per_device_train_batch_size", "2", "--eval_strategy", "steps", "--eval_steps", "5", "--save_steps", "8",
            *more)[1:]]
        self.works(launch(self.out))
        again = self.root / "again"
        self.works(launch(again, "--resume_from_checkpoint", str(self.out / "checkpoint-8")))
        self.assertEqual(self.weights(again), self.weights(self.out))
        self.assertEqual(read(again / "eval_results.json")["eval_loss"], read(self.out / "eval_results.json")["eval_loss"])

    def refused(self, command, code, *parts):
        result = cl.run([str(word) for word in command])
        self.assertEqual(result.returncode, code, result.stderr)
        for part in parts:
            self.assertIn(part, result.stderr)
        self.assertFalse(self.out.exists())  # nothing is half-written

    def test_bad_input_is_told_with_its_place_and_the_way_out(self):
        empty = self.root / "empty.txt"
        empty.write_text("")
        self.refused(self.mlm(self.out, texts=empty), 1, f"{empty}: is empty, expected texts")
        empty.write_text("\n \n\t\n")
        self.refused(self.mlm(self.out, texts=empty), 1, f"{empty}: none of its 3 lines has a word")
        blank = self.root / "blank.csv"
        blank.write_text("text,n\n ,1\n,2\n")
        self.refused(self.mlm(self.out, texts=blank), 1, f"{blank}: none of the 2 training texts has a word")
        empty.write_text("the old bridge\n")
        grouped = self.mlm(self.out, texts=empty)
        grouped.remove("--line_by_line")
        self.refused(grouped, 1, f"{empty}: found 5 training tokens, expected at least the 20 of a sample", "--line_by_line")
        without = self.root / "no_mask"
        shutil.copytree(MLM / "roberta", without)
        for name in ("tokenizer.json", "tokenizer_config.json"):
            text = json.loads((without / name).read_text())
            text.pop("mask_token", None)
            text["added_tokens"] = [t for t in text.get("added_tokens", []) if t["content"] != "<mask>"]
            (without / name).write_text(json.dumps(text))
        self.refused(self.mlm(self.out, model=without), 2, "needs a tokenizer with a mask token")
        self.refused([cl.program(), "predict", without, "the [MASK]"], 1, "its tokenizer has no mask token")
        self.refused([cl.program(), "predict", MLM / "bert", "the old bridge"], 1, "found no [MASK]", "A [MASK] is an animal")
        (self.root / "texts.txt").write_text("a [MASK] here\nnone here\n")
        self.refused([cl.program(), "predict", MLM / "bert", "--file", self.root / "texts.txt"], 1, "2: found no [MASK]")
        self.refused([cl.program(), "predict", MLM / "bert", "the " * 60 + "[MASK]"], 1, "comes after the 32 tokens")
        self.refused(self.mlm(self.out, model=None), 2, "--model_name_or_path: found none", "--model_type")
        self.refused(self.mlm(self.out, "--model_type", "bert", model=None), 2, "--tokenizer_name: found none")
        self.refused(self.mlm(self.out, "--mlm_probability", "1.5"), 2, "--mlm_probability")
        self.refused(self.mlm(self.out, "--eval_strategy", "epoch", "--metric_for_best_model", "f1", "--save_strategy", "epoch",
                              "--load_best_model_at_end"), 2, "expected one of loss, accuracy")


if __name__ == "__main__":
    cl.main()
