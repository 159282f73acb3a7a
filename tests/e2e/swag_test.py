#!/usr/bin/env python3
"""lathe swag from tables of endings to the one that is chosen: training, going on, scores; and what bad input is told."""
import csv
import json
import random

import command_line as cl
from command_line import GOLDEN, CommandsCase, read

SWAG = cl.ROOT / "tests" / "golden" / "swag"
MLM = cl.ROOT / "tests" / "golden" / "mlm"


def rows(count, seed, most=4):
    """The right ending is the one with a river."""
    draw = random.Random(seed)
    some = lambda n: " ".join(draw.choice(cl.WORDS) for _ in range(n))
    out = []
    for _ in range(count):
        endings = [some(draw.randint(2, 5)) for _ in range(draw.randint(2, most) if most > 4 else most)]
        label = draw.randrange(len(endings))
        endings[label] += " river"
        out.append({"sent1": some(6), "sent2": some(1), "endings": endings, "label": label})
    return out


def write_csv(path, samples):
    most = max(len(row["endings"]) for row in samples)
    with open(path, "w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["sent1", "sent2", *(f"ending{i}" for i in range(most)), "label"])
        for row in samples:
            table.writerow([row["sent1"], row["sent2"], *row["endings"], *[""] * (most - len(row["endings"])), row["label"]])


class SwagCase(CommandsCase):
    def setUp(self):
        super().setUp()
        self.train, self.dev = self.root / "train.csv", self.root / "dev.csv"
        write_csv(self.train, rows(64, 1))
        write_csv(self.dev, rows(12, 2))

    def swag(self, folder, *more, model=GOLDEN / "masked_lm", train=None, dev=None):
        return [cl.program(), "swag", "--model_name_or_path", str(model), "--train_file", str(train or self.train),
                "--validation_file", str(dev or self.dev), "--do_train", "--do_eval", "--per_device_train_batch_size", "8",
                "--learning_rate", "1e-2", "--num_train_epochs", "6", "--output_dir", str(folder), "--use_cpu", *more]

    def weights(self, folder):
        return (folder / "model.safetensors").read_bytes()


class Swag(SwagCase):
    def test_train_choose_and_go_on_with_the_same_bits(self):
        steps = ("--save_steps", "16", "--eval_strategy", "steps", "--eval_steps", "10", "--report_to", "html")
        result = self.works(self.swag(self.out, *steps))
        for part in ("training data: ", "64 training rows, 4 endings each; right are 0 ", "row 1 is ", "next: lathe predict"):
            self.assertIn(part, result.stderr)
        results = read(self.out / "all_results.json")
        self.assertEqual((results["train_samples"], results["eval_samples"]), (64, 12))
        self.assertEqual(results["eval_accuracy"], 1.0)
        self.assertEqual(read(self.out / "config.json")["architectures"], ["BertForMultipleChoice"])
        self.assertIn("\n- Accuracy: 1.0\n", (self.out / "README.md").read_text())
        self.assertIn("river", (self.out / "report.html").read_text())
        again = self.root / "again"
        self.works(self.swag(again, *steps, "--resume_from_checkpoint", str(self.out / "checkpoint-16")))
        self.assertEqual(self.weights(again), self.weights(self.out))
        self.check_predictions(results["eval_loss"])

    def check_predictions(self, eval_loss):
        texts = ["the old bridge is small", "it turns metal", "it runs river", "who opened"]
        lines = [line.split("\t") for line in self.lathe("predict", self.out, *texts).stdout.splitlines()]
        self.assertEqual((lines[0][0], lines[0][2]), ("1", "it runs river"))
        self.assertEqual(sorted(line[0] for line in lines), ["0", "1", "2"])
        found = json.loads(self.lathe("predict", self.out, *texts, "--json").stdout)
        self.assertEqual((found["context"], found["endings"], found["label"]), (texts[0], texts[1:], 1))
        self.assertAlmostEqual(sum(found["probabilities"]), 1, delta=1e-6)
        table = self.lathe("predict", self.out, "--file", self.dev, "--json").stdout.splitlines()
        wanted = rows(12, 2)
        for line, row in zip(map(json.loads, table), wanted, strict=True):
            self.assertEqual(line["predicted_label"], row["label"])
            of_endings = line["predicted_probabilities"]
            self.assertEqual(max(of_endings), of_endings[row["label"]])
        self.check_the_likeliest(texts)
        self.lathe("predict", self.out, "--file", self.dev, "--output", self.root / "found.csv")
        with open(self.root / "found.csv", newline="") as file:
            self.assertEqual([row["predicted_label"] for row in csv.DictReader(file)], [str(row["label"]) for row in wanted])

    def check_the_likeliest(self, texts):
        """--top_k: as many lines, keys and columns; of a row with fewer endings the others are empty."""
        lines = self.lathe("predict", self.out, *texts).stdout.splitlines()
        self.assertEqual(self.lathe("predict", self.out, *texts, "--top_k", "2").stdout.splitlines(), lines[:2])
        self.assertEqual(self.lathe("predict", self.out, *texts, "--top_k", "9").stdout.splitlines(), lines)
        every = json.loads(self.lathe("predict", self.out, *texts, "--json").stdout)["probabilities"]
        found = json.loads(self.lathe("predict", self.out, *texts, "--json", "--top_k", "2").stdout)
        self.assertEqual(list(found), ["context", "endings", "label_1", "score_1", "label_2", "score_2"])
        self.assertEqual([(found[f"label_{k}"], found[f"score_{k}"]) for k in (1, 2)],
                         sorted(enumerate(every), key=lambda pair: -pair[1])[:2])
        table = self.root / "some.csv"
        table.write_text("sent1,sent2,ending0,ending1,ending2\nthe old,it,is small,river,runs\nthe old,it,river,runs,\n")
        rows = list(csv.DictReader(self.lathe("predict", self.out, "--file", table, "--top_k", "3").stdout.splitlines()))
        self.assertEqual([row["label_1"] for row in rows], ["1", "0"])
        self.assertEqual([(row["label_3"] == "", row["score_3"] == "") for row in rows], [(False, False), (True, True)])
        self.assertNotIn("probabilities", rows[0])

    def test_test_data_are_predicted_with_labels_and_without(self):
        predict = ("--do_predict", "--test_file")
        self.works(self.swag(self.out, *predict, str(self.dev)))
        results = read(self.out / "all_results.json")
        self.assertEqual((results["predict_samples"], results["predict_accuracy"], results["predict_loss"]),
                         (12, results["eval_accuracy"], results["eval_loss"]))
        wanted = "index\tprediction\n" + "".join(f"{i}\t{row['label']}\n" for i, row in enumerate(rows(12, 2)))
        self.assertEqual((self.out / "predict_results.txt").read_text(), wanted)
        bare, minus = self.root / "bare.csv", self.root / "minus.csv"
        lines = [line.rsplit(",", 1)[0] for line in self.dev.read_text().splitlines()]
        bare.write_text("\n".join(lines) + "\n")
        minus.write_text(lines[0] + ",label\n" + "".join(line + ",-1\n" for line in lines[1:]))
        for path, more, count in ((bare, (), 12), (minus, ("--max_predict_samples", "5"), 5)):
            folder = self.root / path.stem
            result = self.works([cl.program(), "swag", "--model_name_or_path", str(self.out), *predict, str(path), *more,
                                 "--output_dir", str(folder), "--use_cpu"])
            self.assertIn(f"predictions: {folder / 'predict_results.txt'}", result.stderr)
            self.assertEqual((folder / "predict_results.txt").read_text().splitlines(), wanted.splitlines()[:count + 1])
            found = read(folder / "predict_results.json")
            self.assertEqual(found["predict_samples"], count)
            self.assertFalse({"predict_loss", "predict_accuracy"} & set(found))

    def test_it_does_what_the_script_does(self):
        for family in ("bert", "roberta", "xlm_roberta", "distilbert", "modernbert"):
            with self.subTest(family):
                out = self.root / family
                self.works(self.swag(out, "--weight_decay", "0.01", "--learning_rate", "1e-3", "--max_steps", "20",
                                     "--adam_epsilon", "1e-5",
                                     "--per_device_train_batch_size", "4", "--per_device_eval_batch_size", "3",
                                     "--logging_steps", "1", "--save_strategy", "no", "--max_seq_length", "24",
                                     "--config_overrides", "initializer_range=0.2",
                                     model=MLM / family, train=SWAG / "train.csv", dev=SWAG / "dev.csv"))
                trace = read(SWAG / f"{family}.json")
                history = [e for e in read(out / "trainer_state.json")["log_history"] if "loss" in e]
                for entry, loss in zip(history, trace["losses"], strict=True):
                    self.assertAlmostEqual(entry["loss"], loss, delta=5e-6)
                results = read(out / "eval_results.json")
                self.assertAlmostEqual(results["eval_loss"], trace["eval_loss"], delta=2e-5)  # as in swag_traces_test
                with open(SWAG / "dev.csv", newline="") as file:
                    labels = [int(row["label"]) for row in csv.DictReader(file)]
                best = [max(range(4), key=row.__getitem__) for row in trace["logits"]]
                self.assertAlmostEqual(results["eval_accuracy"], sum(map(int.__eq__, best, labels)) / 11, delta=1e-7)

    def test_files_of_all_kinds_give_the_same_model_with_any_number_of_endings(self):
        samples = rows(40, 3, most=6)
        self.assertGreater(len({len(row["endings"]) for row in samples}), 3)
        write_csv(self.train, samples)
        result = self.works(self.swag(self.out, "--group_by_length"))
        self.assertIn("40 training rows, 2 to 6 endings each", result.stderr)
        lists, named = self.root / "train.jsonl", self.root / "named.json"
        lists.write_text("".join(json.dumps(row) + "\n" for row in samples))
        named.write_text(json.dumps([{"c": r["sent1"], "q": r["sent2"], "e": r["endings"], "gold": r["label"]}
                                     for r in samples]))
        flags = ("--context_column_name", "c", "--question_column_name", "q", "--endings_column_name", "e",
                 "--label_column_name", "gold")
        for path, more in ((lists, ()), (named, flags)):
            folder = self.root / path.stem
            self.works(self.swag(folder, "--group_by_length", *more, train=path, dev=path))
            self.assertEqual(self.weights(folder), self.weights(self.out), path)
        found = json.loads(self.lathe("predict", self.root / "named", "--file", named, "--json").stdout.splitlines()[0])
        self.assertEqual(len(found["probabilities"]), len(samples[0]["endings"]))

    def test_an_adapter_trains_and_chooses(self):
        """A pooler that is new needs to be trained, too."""
        peft = ("--use_peft", "--lora_r", "4")
        self.refused(self.swag(self.out, *peft), 1, "has no bert.pooler.dense.weight", "--lora_modules_to_save pooler.dense")
        self.works(self.swag(self.out, *peft, "--lora_modules_to_save", "pooler.dense"))
        self.assertTrue((self.out / "adapter_model.safetensors").exists())
        self.lathe("predict", self.out, "the old bridge", "is small", "river")

    def refused(self, command, code, *parts):
        result = cl.run([str(word) for word in command])
        self.assertEqual(result.returncode, code, result.stderr)
        for part in parts:
            self.assertIn(part, result.stderr)

    def test_bad_input_is_told_with_its_place_and_the_way_out(self):
        bad = self.root / "bad.csv"
        head = "sent1,sent2,ending0,ending1,label\n"
        for row, parts in (("a,b,c,d,2", ("column 'label': found '2'", "0 to 1", "--label_column_name")),
                           ("a,b,c,d,", ("column 'label': found no label",)),
                           ("a,b,c,d,B", ("found 'B', expected the number of the right ending",)),
                           ("a,b,,d,1", ("ending 0 is empty (column 'ending0')", "mend or drop the row")),
                           (",,c,d,1", ("column 'sent1': found an empty text and none in 'sent2'", "mend or drop the row")),
                           ("a,b,c,,0", ("found 1 ending in columns 'ending0' to 'ending1', expected two or more",))):
            bad.write_text(head + "the,old,bridge,is,0\n" + row + "\n")
            self.refused(self.swag(self.out, train=bad), 1, f"{bad}:3: ", *parts)
            self.assertFalse(self.out.exists())
        bad.write_text("text,ending0,ending1,label\na,b,c,0\n")
        self.refused(self.swag(self.out, train=bad), 1, f"{bad}: no column 'sent1': found 'text', 'ending0'",
                     "--context_column_name names another one")
        command = self.swag(self.out)
        at = command.index("--train_file")
        self.refused(command[:at] + command[at + 2:], 2, "--do_train: found neither --dataset_name nor --train_file")
        self.refused(self.swag(self.out, "--do_predict"), 2, "--do_predict: found neither --dataset_name nor --test_file")
        bad.write_text(head + "the,old,bridge,is,0\nthe,old,bridge,is,-1\n")  # labels of all rows, or of none
        self.refused(self.swag(self.out, "--do_predict", "--test_file", str(bad)), 1, f"{bad}:3: column 'label': found '-1'")
        lists = self.root / "bad.jsonl"
        for value, parts in ((["one"], ("found 1 ending in column 'endings'",)), ("one, two", ("found 'one, two'", "a list")),
                             (["one", ""], ("ending 1 is empty (column 'endings')",)), (None, ("found no list of texts",))):
            lists.write_text(json.dumps({"sent1": "a", "endings": ["b", "c", "d"], "label": 2}) + "\n"
                             + json.dumps({"sent1": "a", "endings": value, "label": 0}) + "\n")
            self.refused(self.swag(self.out, train=lists), 1, f"{lists}:2: ", *parts)
        self.refused(self.swag(self.out, "--endings_column_name", "answers", train=lists), 1, "no column 'answers': found 'sent1'",
                     "--endings_column_name (a column of lists) names the column")
        self.assertFalse(self.out.exists())
        self.works(self.swag(self.out, "--max_steps", "1"))
        self.refused([cl.program(), "predict", self.out, "a context", "one ending"], 2,
                     "found two texts, expected a context and two or more endings")
        lines = self.root / "lines.txt"
        lines.write_text("the old bridge\n")
        self.refused([cl.program(), "predict", self.out, "--file", lines], 2, "found lines of text, expected a table")
        self.refused([cl.program(), "predict", self.out, "a", "b", " "], 2, "found an empty text")
        bad.write_text("sent1,sent2,ending0,ending1\nthe,old,bridge,is\nthe,old,,is\n")
        self.refused([cl.program(), "predict", self.out, "--file", bad], 1, f"{bad}:3: ending 0 is empty (column 'ending0')")
        bad.write_text("sent1,question,ending0,ending1\nthe,old,bridge,is\n")
        self.refused([cl.program(), "predict", self.out, "--file", bad, "--column", "text,ending0"], 1,
                     "no column 'text': found 'sent1', 'question', 'ending0', 'ending1'; --column CONTEXT,ENDINGS")


if __name__ == "__main__":
    cl.main()
