#!/usr/bin/env python3
"""Runs of lathe embed that go on, whose batches run in parts, and that several processes share; what bad input is told."""
import csv
import json
import random

import command_line as cl
from command_line import GOLDEN, CommandsCase, read
from ranks import LOSS_ROUNDING, lathe_launch
from resume_test import history

DROPOUT = ("--config_overrides", "hidden_dropout_prob=0.1,attention_probs_dropout_prob=0.1")
STEPS = ("--save_steps", "7", "--logging_steps", "3", "--num_train_epochs", "3")
STILL = (*DROPOUT, "--learning_rate", "0", "--logging_steps", "1", "--save_strategy", "no", "--num_train_epochs", "1")


def pairs(count, seed):
    draw = random.Random(seed)
    some = lambda n: " ".join(draw.choice(cl.WORDS) for _ in range(n))
    return [(some(draw.randint(2, 6)), some(draw.randint(2, 6)), some(3)) for _ in range(count)]


def write_csv(path, header, rows):
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])


class EmbedCase(CommandsCase):
    def setUp(self):
        super().setUp()
        self.train, self.dev = self.root / "train.csv", self.root / "dev.csv"
        write_csv(self.train, ("anchor", "positive"), [row[:2] for row in pairs(64, 1)])
        write_csv(self.dev, ("anchor", "positive"), [row[:2] for row in pairs(12, 2)])

    def embed(self, folder, *more, model=GOLDEN / "masked_lm", train=None, batch="8"):
        return [cl.program(), "embed", "--model_name_or_path", str(model), "--train_file", str(train or self.train),
                "--validation_file", str(self.dev), "--do_train", "--do_eval", "--per_device_train_batch_size", batch,
                "--learning_rate", "1e-3", "--output_dir", str(folder), "--use_cpu", *more]

    def weights(self, folder):
        return (folder / "model.safetensors").read_bytes()

    def losses(self, name):
        return [entry["loss"] for entry in history(self.root / name) if "loss" in entry]

    def check_losses(self, found, wanted):
        self.assertGreater(len(self.losses(wanted)), 3)
        for mine, theirs in zip(self.losses(found), self.losses(wanted), strict=True):
            self.assertAlmostEqual(mine, theirs, delta=LOSS_ROUNDING * theirs)


class EmbedRuns(EmbedCase):
    def test_it_goes_on_with_the_same_bits(self):
        for name, more in (("plain", ()), ("cached", ("--loss", "CachedMultipleNegativesRankingLoss", "--mini_batch_size", "3")),
                           ("apart", ("--batch_sampler", "no_duplicates", "--gradient_accumulation_steps", "2"))):
            whole, again = self.root / name, self.root / f"again_{name}"
            self.works(self.embed(whole, *STEPS, *DROPOUT, *more))
            self.works(self.embed(again, *STEPS, *DROPOUT, *more, "--resume_from_checkpoint", str(whole / "checkpoint-7")))
            self.assertEqual(self.weights(again), self.weights(whole), name)
            self.assertEqual(history(again), history(whole), name)

    def test_a_batch_in_parts_is_the_whole_batch_dropout_included(self):
        """At learning rate 0 all updates are compared at the same weights."""
        norms = lambda name: [entry["grad_norm"] for entry in history(self.root / name) if "grad_norm" in entry]
        for symmetric in ((), ("--symmetric",)):
            more = (*STILL, *symmetric, "--matryoshka_dims", "32,8")
            self.works(self.embed(self.root / f"plain{len(symmetric)}", *more, "--loss", "MultipleNegativesRankingLoss", batch="16"))
            self.works(self.embed(self.root / f"parts{len(symmetric)}", *more, "--loss", "CachedMultipleNegativesRankingLoss",
                                  "--mini_batch_size", "5", batch="16"))
            self.check_losses(f"parts{len(symmetric)}", f"plain{len(symmetric)}")
            for mine, theirs in zip(norms(f"parts{len(symmetric)}"), norms(f"plain{len(symmetric)}"), strict=True):
                self.assertAlmostEqual(mine, theirs, delta=1e-5 * theirs)

    def test_negatives_of_two_processes_are_those_of_one(self):
        for more in ((), ("--symmetric",), ("--loss", "CachedMultipleNegativesRankingLoss", "--mini_batch_size", "3")):
            one, two = f"one{len(more)}", f"two{len(more)}"
            self.works(self.embed(self.root / one, *STILL, *more, batch="16"))
            words = self.embed(self.root / two, *STILL, *more, "--gather_across_devices")
            self.works(lathe_launch(2, words))
            self.check_losses(two, one)
            norm = lambda name: [entry["grad_norm"] for entry in history(self.root / name) if "grad_norm" in entry]
            for mine, theirs in zip(norm(two), norm(one), strict=True):
                self.assertAlmostEqual(mine, theirs, delta=1e-5 * theirs)

    def test_two_processes_go_on_as_they_began(self):
        whole, again = self.root / "whole", self.root / "again"
        for folder, more in ((whole, ()), (again, ("--resume_from_checkpoint", str(whole / "checkpoint-7")))):
            words = self.embed(folder, *STEPS, *DROPOUT, "--gather_across_devices", *more, batch="4")
            self.works(lathe_launch(2, words))
        self.assertEqual(self.weights(again), self.weights(whole))

    def test_an_adapter_goes_on(self):
        more = ("--use_peft", "--lora_r", "4", "--learning_rate", "1e-2")
        whole, again = self.root / "whole", self.root / "again"
        self.works(self.embed(whole, *STEPS, *more))
        self.works(self.embed(again, *STEPS, *more, "--resume_from_checkpoint", str(whole / "checkpoint-7")))
        saved = [(folder / "adapter_model.safetensors").read_bytes() for folder in (whole, again)]
        self.assertEqual(saved[0], saved[1])
        self.lathe("merge", whole, "--output_dir", self.root / "merged")
        vectors = lambda folder: [json.loads(line)["embedding"] for line in
                                  self.lathe("encode", folder, "the old bridge", "it turns metal").stdout.splitlines()]
        for mine, theirs in zip(vectors(self.root / "merged"), vectors(whole), strict=True):
            for a, b in zip(mine, theirs, strict=True):
                self.assertAlmostEqual(a, b, delta=2e-6)

    def test_a_search_is_evaluated(self):
        files = {"queries": self.root / "queries.jsonl", "corpus": self.root / "corpus.jsonl", "qrels": self.root / "qrels.tsv"}
        for name, column in (("queries", 0), ("corpus", 1)):
            files[name].write_text("".join(json.dumps({"_id": f"{name}{i}", "text": row[column]}) + "\n"
                                           for i, row in enumerate(pairs(12, 2))))
        files["qrels"].write_text("query-id\tcorpus-id\tscore\n" + "".join(f"queries{i}\tcorpus{i}\t1\n" for i in range(11)))
        flags = [word for name, path in files.items() for word in (f"--{name}_file", str(path))]
        said = self.works(self.embed(self.out, *flags)).stderr
        self.assertIn("1 queries have no document", said)
        self.assertIn("eval_cosine_ndcg@10", read(self.out / "eval_results.json"))

    def test_predict_writes_similarities_and_the_page_shows_them(self):
        self.works(self.embed(self.out, "--do_predict", "--test_file", str(self.dev), "--report_to", "html"))
        page = (self.out / "report.html").read_text()
        for part in ("Similarities", "12 pairs with a low target", "12 with a high one", "Worst pairs", "dev.csv:"):
            self.assertIn(part, page)
        rows = [line.split("\t") for line in (self.out / "predict_results.txt").read_text().splitlines()[1:]]
        self.assertEqual(len(rows), 12)
        vectors = [json.loads(line)["embedding"] for line in self.lathe("encode", self.out, *pairs(12, 2)[0][:2]).stdout.splitlines()]
        dot = lambda a, b: sum(x * y for x, y in zip(a, b))
        cosine = dot(*vectors) / (dot(vectors[0], vectors[0]) * dot(vectors[1], vectors[1])) ** 0.5
        self.assertAlmostEqual(float(rows[0][1]), cosine, delta=1e-5)


class BadInput(EmbedCase):
    def check(self, header, rows, *parts, more=()):
        write_csv(self.train, header, rows)
        result = cl.run(self.embed(self.out, *more))
        self.assertNotEqual(result.returncode, 0)
        for part in parts:
            self.assertIn(part, result.stderr)
        self.assertNotIn("Traceback", result.stderr)

    def test_what_is_wrong_is_told_with_its_place(self):
        two = ("a", "b")
        self.check(two, [("the bridge", "old"), ("the bank", "")], "train.csv:3", "'b' is empty", "the bank")
        self.check(two, [("the bridge", "old"), ("", "")], "train.csv:3", "empty text")
        self.check(("a",), [("the bridge",)], "train.csv", "expected 2 or more")
        self.check((*two, "score"), [("x", "y", "5"), ("u", "v", "1")], "train.csv:2", "found 5, expected -1 to 1",
                   more=("--loss", "CosineSimilarityLoss"))
        self.check((*two, "score"), [("x", "y", "high")], "train.csv:2", "'high'", "expected a number")
        self.check((*two, "label"), [("x", "y", "1"), ("u", "v", "1")], "found only 1", "both labels",
                   more=("--loss", "ContrastiveLoss"))
        self.check(two, [("x", "y")], "expected one of label", more=("--loss", "CoSENTLoss"))
        self.check(two, [("x", "y")], "expected 3 or more", more=("--loss", "TripletLoss"))
        self.check(("a", "b", "c", "score"), [("x", "y", "z", "1")], "found 3 columns", "--text_column_names",
                   more=("--loss", "CoSENTLoss"))
        self.check(two, [("x", "y")], "no column 'c'", more=("--text_column_names", "a,c"))
        self.check(two, [("x", "y")], "--matryoshka_dims", "expected at most", more=("--matryoshka_dims", "4096"))
        self.check(two, [("x", "y")], "--matryoshka_dims", "'no'", more=("--matryoshka_dims", "no"))
        self.check(two, [("x", "y")], "--pooling_mode: found 'median'", "lasttoken", more=("--pooling_mode", "median"))
        self.check(two, [("x", "y")], "--corpus_file", more=("--corpus_file", "x.jsonl"))
        self.check(two, [("x", "y")], "--prompts", more=("--prompts", "{oops"))
        self.check(two, [("x", "y")], "--prompts: found the column 'q'", "'a', 'b'", more=("--prompts", '{"q": "query: "}'))
        self.check(two, [("x", "y")], "--freeze_base_model", "nothing is left to train", more=("--freeze_base_model",))
        for word in ("nan", "inf"):
            self.check((*two, "score"), [("x", "y", "1"), ("u", "v", word)], "train.csv:3", f"'{word}'", "expected a number")

    def test_without_training_or_evaluation_it_predicts_or_ends(self):
        words = self.embed(self.out)
        for word in ("--do_train", "--do_eval"):
            words.remove(word)
        self.assertIn("nothing to do", self.works(words).stderr)
        self.works([*words, "--do_predict", "--test_file", str(self.dev)])
        self.assertEqual(len((self.out / "predict_results.txt").read_text().splitlines()), 13)

    def test_a_row_of_many_texts_is_shown_in_a_line(self):
        write_csv(self.train, [f"text{i}" for i in range(40)], [["some longer text here"] * 40] * 3)
        said = self.works(self.embed(self.out, "--max_steps", "1")).stderr
        [line] = [line for line in said.splitlines() if "row 1:" in line]
        self.assertNotIn("longer", line)

    def test_modules_that_are_not_known_are_named(self):
        self.works(self.embed(self.out))
        modules = read(self.out / "modules.json")
        modules[1]["type"] = "sentence_transformers.models.WordWeights"
        (self.out / "modules.json").write_text(json.dumps(modules))
        result = cl.run(self.embed(self.root / "next", model=self.out))
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("WordWeights", result.stderr)


if __name__ == "__main__":
    cl.main()
