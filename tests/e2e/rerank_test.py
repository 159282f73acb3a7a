#!/usr/bin/env python3
"""lathe rerank from pairs to documents that are ranked: training, going on, scores; and what bad input is told."""
import csv
import json
import random

import command_line as cl
from command_line import GOLDEN, CommandsCase, read
from ranks import LOSS_ROUNDING, lathe_launch

RERANK = cl.ROOT / "tests" / "golden" / "rerank"
MLM = cl.ROOT / "tests" / "golden" / "mlm"
LOSSES = {"BinaryCrossEntropyLoss": ("label", "Sigmoid"), "MSELoss": ("score", "Sigmoid"), "CrossEntropyLoss": ("class", "Identity")}


def lists(count, seed):
    """Queries with four documents, of which the one with a river is right."""
    draw = random.Random(seed)
    some = lambda n: " ".join(draw.choice(cl.WORDS) for _ in range(n))
    out = []
    for i in range(count):
        documents, right = [some(draw.randint(2, 5)) for _ in range(4)], draw.randrange(4)
        documents[right] += " river"
        out.append({"query": f"{some(4)} {i}", "documents": documents, "labels": [int(j == right) for j in range(4)]})
    return out


def pairs(samples):
    return [{"query": s["query"], "passage": d, "label": l} for s in samples for d, l in zip(s["documents"], s["labels"])]


def write_lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


class RerankCase(CommandsCase):
    def setUp(self):
        super().setUp()
        self.train = write_lines(self.root / "train.jsonl", lists(24, 1))
        self.dev = write_lines(self.root / "dev.jsonl", lists(6, 2))

    def rerank(self, folder, *more, model=GOLDEN / "masked_lm", train=None, dev=None):
        return [cl.program(), "rerank", "--model_name_or_path", str(model), "--train_file", str(train or self.train),
                "--validation_file", str(dev or self.dev), "--do_train", "--do_eval", "--per_device_train_batch_size", "8",
                "--learning_rate", "1e-2", "--num_train_epochs", "6", "--output_dir", str(folder), "--use_cpu", *more]

    def weights(self, folder):
        return (folder / "model.safetensors").read_bytes()

    def fails(self, command, *parts):
        result = cl.run(command)
        self.assertIn(result.returncode, (1, 2))
        for part in parts:
            self.assertIn(part, result.stderr)


class Rerank(RerankCase):
    def test_train_rank_and_go_on_with_the_same_bits(self):
        steps = ("--save_steps", "24", "--eval_strategy", "steps", "--eval_steps", "20", "--report_to", "html",
                 "--metric_for_best_model", "ndcg@10")
        result = self.works(self.rerank(self.out, *steps))
        for part in ("training data: ", "pairs of 'query' and 'documents', labels in 'labels'",
                     "96 training rows; labels: 0 72, 1 24", "next: lathe predict"):
            self.assertIn(part, result.stderr)
        results = read(self.out / "all_results.json")
        self.assertEqual((results["train_samples"], results["eval_samples"]), (96, 24))
        for key in ("accuracy", "f1", "precision", "recall", "average_precision", "map", "mrr@10", "ndcg@10"):
            self.assertAlmostEqual(results[f"eval_{key}"], 1.0, delta=1e-9, msg=key)
        config = read(self.out / "config.json")
        self.assertEqual((config["architectures"], config["id2label"]), (["BertForSequenceClassification"], {"0": "LABEL_0"}))
        self.assertNotIn("problem_type", config)
        for folder in (self.out, self.out / "checkpoint-24"):
            self.assertEqual(read(folder / "config_sentence_transformers.json")["activation_fn"],
                             "torch.nn.modules.activation.Sigmoid")
            self.assertTrue((folder / "modules.json").exists() and (folder / "sentence_bert_config.json").exists())
        card = (self.out / "README.md").read_text()
        for line in ("library_name: sentence-transformers", "pipeline_tag: text-ranking", "- cross-encoder", "- Ndcg@10: 1.0"):
            self.assertIn(f"\n{line}\n", card)
        self.assertIn("river", (self.out / "report.html").read_text())
        again = self.root / "again"
        self.works(self.rerank(again, *steps, "--resume_from_checkpoint", str(self.out / "checkpoint-24")))
        self.assertEqual(self.weights(again), self.weights(self.out))
        self.check_predictions()

    def check_predictions(self):
        texts = ["the old bridge is small", "it turns metal", "it runs river", "who opened"]
        lines = [line.split("\t") for line in self.lathe("predict", self.out, *texts).stdout.splitlines()]
        self.assertEqual((lines[0][0], lines[0][2]), ("1", "it runs river"))
        self.assertEqual(sorted(line[0] for line in lines), ["0", "1", "2"])
        self.assertEqual(lines, sorted(lines, key=lambda line: -float(line[1])))
        self.assertTrue(all(0 <= float(line[1]) <= 1 for line in lines))
        found = json.loads(self.lathe("predict", self.out, *texts, "--json", "--top_k", "1").stdout)
        self.assertEqual((found["query"], len(found["ranking"])), (texts[0], 1))
        self.assertEqual((found["ranking"][0]["corpus_id"], found["ranking"][0]["text"]), (1, "it runs river"))
        wanted = lists(6, 2)
        for top, more in ((4, ()), (2, ("--top_k", "2"))):
            table = self.lathe("predict", self.out, "--file", self.dev, "--json", *more).stdout.splitlines()
            for line, sample in zip(map(json.loads, table), wanted, strict=True):
                self.assertEqual((len(line["ranking"]), len(line["scores"])), (top, top))
                self.assertEqual(line["ranking"][0], sample["labels"].index(1))
                self.assertEqual(line["scores"], sorted(line["scores"], reverse=True))
        self.lathe("predict", self.out, "--file", self.dev, "--output", self.root / "found.tsv")
        with open(self.root / "found.tsv", newline="") as file:
            rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
        self.assertEqual([json.loads(row["ranking"])[0] for row in rows], [s["labels"].index(1) for s in wanted])
        again = self.lathe("predict", self.out, "--file", self.root / "found.tsv", "--json").stdout.splitlines()
        self.assertEqual([json.loads(line)["predicted_ranking"] for line in again], [json.loads(row["ranking"]) for row in rows])
        one = write_lines(self.root / "one.jsonl", pairs(wanted))
        scored = self.lathe("predict", self.out, "--file", one, "--column", "query,passage", "--json").stdout.splitlines()
        self.assertEqual([json.loads(line)["score"] > 0.5 for line in scored], [row["label"] == 1 for row in pairs(wanted)])
        self.fails([cl.program(), "predict", str(self.out), "a query"], "expected a query and one or more documents")
        self.fails([cl.program(), "predict", str(self.out), "a query", ""], "document 0: found an empty text")
        self.fails([cl.program(), "predict", str(self.out), "--file", str(one), "--column", "query,passage", "--top_k", "2"],
                   "--top_k: found 2, but", "as a list in one row")

    def test_it_does_what_the_trainer_does(self):
        for family in ("bert", "roberta"):
            trace = read(RERANK / f"{family}.json")
            for loss, (label, activation) in LOSSES.items():
                with self.subTest(family=family, loss=loss):
                    out = self.root / f"{family}_{loss}"
                    self.works(self.rerank(
                        out, "--weight_decay", "0.01", "--learning_rate", "1e-3", "--max_steps", "20",
                        "--per_device_train_batch_size", "4", "--logging_steps", "1", "--save_strategy", "no",
                        "--max_seq_length", "24", "--config_overrides", "initializer_range=0.2", "--loss", loss,
                        "--text_column_names", "query,passage", "--label_column_name", label, "--activation_fn", activation,
                        model=MLM / family, train=RERANK / "train.csv", dev=RERANK / "dev.csv"))
                    self.check_trace(out, trace[loss])

    def check_trace(self, out, trace):
        history = [e for e in read(out / "trainer_state.json")["log_history"] if "loss" in e]
        for entry, loss, norm in zip(history, trace["losses"], trace["grad_norms"], strict=True):
            self.assertAlmostEqual(entry["loss"], loss, delta=5e-6)
            self.assertAlmostEqual(entry["grad_norm"], norm, delta=1e-5 * norm)
        results = read(out / "eval_results.json")
        for key, value in trace["metrics"].items():  # of scores that differ by 1e-6
            self.assertAlmostEqual(results[f"eval_{key}"], value, delta=5e-5, msg=key)

    def test_folders_of_cross_encoder_give_its_scores(self):
        trace = read(RERANK / "bert.json")
        for folder, key in (("folder", "scores"), ("folder_old", "old_scores")):
            lines = self.lathe("predict", RERANK / folder, "--file", RERANK / "dev.csv", "--column", "query,passage", "--json")
            for line, score in zip(map(json.loads, lines.stdout.splitlines()), trace[key], strict=True):
                self.assertAlmostEqual(line["predicted_score"], score, delta=1e-6)
        out = self.root / "more"  # it keeps what the folder says of scores
        self.works(self.rerank(out, "--max_steps", "2", model=RERANK / "folder_old"))
        self.assertEqual(read(out / "config_sentence_transformers.json")["activation_fn"], "torch.nn.modules.linear.Identity")


class RerankData(RerankCase):
    def test_lists_and_pairs_of_all_kinds_give_the_same_model(self):
        self.works(self.rerank(self.out, "--max_steps", "6"))
        rows = pairs(lists(24, 1))
        array = self.root / "pairs.json"
        array.write_text(json.dumps(rows))
        for ending, delimiter in (("csv", ","), ("tsv", "\t")):
            with open(self.root / f"pairs.{ending}", "w", newline="") as file:
                table = csv.DictWriter(file, list(rows[0]), delimiter=delimiter, lineterminator="\n")
                table.writeheader()
                table.writerows(rows)
        write_lines(self.root / "pairs.jsonl", rows)
        for ending in ("csv", "tsv", "json", "jsonl"):
            out = self.root / ending
            self.works(self.rerank(out, "--max_steps", "6", train=self.root / f"pairs.{ending}"))
            self.assertEqual(self.weights(out), self.weights(self.out), ending)

    def test_test_data_are_predicted_with_labels_and_without(self):
        bare = write_lines(self.root / "bare.jsonl", [{k: s[k] for k in ("query", "documents")} for s in lists(6, 2)])
        self.works(self.rerank(self.out, "--do_predict", "--test_file", str(self.dev)))
        results = read(self.out / "all_results.json")
        self.assertEqual((results["predict_samples"], results["predict_ndcg@10"]), (24, results["eval_ndcg@10"]))
        found = (self.out / "predict_results.txt").read_text()
        self.assertEqual(len(found.splitlines()), 25)
        again = self.root / "bare"
        self.works([cl.program(), "rerank", "--model_name_or_path", str(self.out), "--do_predict", "--test_file", str(bare),
                    "--output_dir", str(again), "--use_cpu"])
        self.assertEqual((again / "predict_results.txt").read_text(), found)

    def test_an_adapter_is_trained_and_ranks(self):
        self.works(self.rerank(self.out, "--use_peft", "--lora_r", "4", "--lora_modules_to_save", "pooler.dense"))
        self.assertTrue((self.out / "adapter_model.safetensors").exists())
        lines = self.lathe("predict", self.out, "the old bridge", "it turns metal", "it runs river").stdout.splitlines()
        self.assertEqual(len(lines), 2)
        merged = self.root / "merged"
        self.lathe("merge", self.out, "--output_dir", merged)
        self.assertNotIn("problem_type", read(merged / "config.json"))
        ranked = self.lathe("predict", merged, "the old bridge", "it turns metal", "it runs river").stdout.splitlines()
        self.assertEqual([line.split("\t")[0] for line in ranked], [line.split("\t")[0] for line in lines])

    def test_two_processes_give_the_losses_and_scores_of_one(self):
        """At learning rate 0 all updates are compared at the same weights: see resume_test.py."""
        still = ("--learning_rate", "0", "--logging_steps", "1", "--save_strategy", "no", "--num_train_epochs", "1",
                 "--config_overrides", "hidden_dropout_prob=0,attention_probs_dropout_prob=0")
        self.works(self.rerank(self.root / "one", *still))
        self.works(lathe_launch(2, self.rerank(self.root / "two", *still, "--per_device_train_batch_size", "4")))
        losses = lambda name: [e["loss"] for e in read(self.root / name / "trainer_state.json")["log_history"] if "loss" in e]
        self.assertEqual(len(losses("one")), 12)
        for mine, theirs in zip(losses("two"), losses("one"), strict=True):
            self.assertAlmostEqual(mine, theirs, delta=LOSS_ROUNDING * theirs)
        results = [read(self.root / name / "eval_results.json") for name in ("one", "two")]
        for key in ("eval_map", "eval_ndcg@10", "eval_average_precision"):
            self.assertAlmostEqual(results[0][key], results[1][key], delta=1e-6)

    def refused(self, *parts, train=None, dev=None, more=()):
        return self.fails(self.rerank(self.out, *more, train=train, dev=dev), *parts)

    def test_bad_input_is_told(self):
        write = lambda name, text: (self.root / name, (self.root / name).write_text(text))[0]
        bad = write("bare.csv", "query,passage\nq,a\n")
        self.refused(f"{bad}: found the columns 'query', 'passage' and no label", "--label_column_name", train=bad)
        bad = write("range.csv", "query,passage,label\nq,a,1\nr,b,3.5\n")
        self.refused(f"{bad}:3: column 'label': found 3.5, expected 0 to 1", "--loss MSELoss", train=bad)
        self.refused(f"{bad}:3: column 'label': found 3.5, expected the number of a class", "--loss BinaryCrossEntropyLoss",
                     train=bad, more=("--loss", "CrossEntropyLoss"))
        bad = write("partner.csv", "query,passage,label\nq,a,1\nr,,0\n")
        self.refused(f"{bad}:3: column 'passage' is empty, but 'query' has the text 'r': give it a partner", train=bad)
        bad = write("empty.csv", 'query,passage,label\nq,a,1\n" "," ",0\n')
        self.refused(f"{bad}:3: column 'query': found an empty text: leave out the row", train=bad)
        bad = write("zero.csv", "query,passage,label\nq,a,0\nr,b,0\n")
        self.refused(f"{bad}: found the class 0 in every row, expected two classes or more", train=bad,
                     more=("--loss", "CrossEntropyLoss"))

    def test_odd_labels_are_told_and_train(self):
        ones = write_lines(self.root / "ones.jsonl", [{"a": "the old", "b": "city", "label": 1}] * 3)
        result = self.works(self.rerank(self.out, "--max_steps", "1", train=ones))
        self.assertIn(f"{ones}:1: column 'label': found 1 in all 3 rows of the training data, expected 0 and 1", result.stderr)
        samples = lists(6, 2)
        samples[2]["labels"] = [0, 0, 0, 0]
        write_lines(self.dev, samples)
        result = self.works(self.rerank(self.root / "none", "--max_steps", "1"))
        self.assertIn(f"{self.dev}:3: the query '{samples[2]['query']}' has no document with the label 1, as 1 of the 6 queries",
                      result.stderr)


if __name__ == "__main__":
    cl.main()
