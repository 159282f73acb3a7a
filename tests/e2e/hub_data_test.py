#!/usr/bin/env python3
"""The commands that tutorials print, on a machine with nothing prepared: --task_name mrpc and --dataset_name squad from a Hub,
then offline, with the scores of the same data in local files; other data sets; and Parquet that is damaged or cannot be read."""
import json
import pathlib
import random
import shutil
import unittest

import command_line as cl
from hub_server import HubCase, Repository

try:
    import pyarrow
    import pyarrow.parquet
except ImportError:
    pyarrow = None

PART = next(pathlib.Path(cl.program()).parent.glob("liblathe_parquet.*"), None)
CONVERTED = "refs/convert/parquet"
needs_parquet = unittest.skipUnless(pyarrow and PART, "needs pyarrow (tools/setup.sh --test) and the part built with it")


def sentence(draw, words=7):
    return " ".join(draw.choice(cl.WORDS) for _ in range(words))


def pairs(rows, seed, labelled=True):
    draw = random.Random(seed)
    return [{"sentence1": sentence(draw), "sentence2": sentence(draw), "label": draw.randint(0, 1) if labelled else -1, "idx": i}
            for i in range(rows)]


def write_mrpc(path, rows):
    with open(path, "w", encoding="utf-8") as out:
        out.write("Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n")
        for row in rows:
            out.write(f"{row['label']}\t1\t2\t{row['sentence1']}\t{row['sentence2']}\n")


def questions(rows, seed):
    draw = random.Random(seed)
    out = []
    for i in range(rows):
        words = sentence(draw, 14).split()
        first = draw.randrange(10)
        out.append({"id": f"q{seed}-{i}", "title": "Bridges", "context": " ".join(words), "question": sentence(draw, 5),
                    "answers": {"text": [" ".join(words[first:first + 2])],
                                "answer_start": [len(" ".join(words[:first])) + (first > 0)]}})
    return out


def write_squad(path, rows):
    paragraphs = [{"context": row["context"], "qas": [
        {"id": row["id"], "question": row["question"], "answers": [
            {"text": text, "answer_start": start} for text, start in zip(row["answers"]["text"], row["answers"]["answer_start"])]}]}
        for row in rows]
    path.write_text(json.dumps({"version": "1.1", "data": [{"title": "Bridges", "paragraphs": paragraphs}]}))


def parquet(rows, **keywords):
    sink = pyarrow.BufferOutputStream()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), sink, **keywords)
    return sink.getvalue().to_pybytes()


def scores(folder):
    """What a run measured, without the times."""
    results = json.loads((folder / "all_results.json").read_text())
    return {k: v for k, v in results.items() if "runtime" not in k and "per_second" not in k}


class DataCase(HubCase):
    def setUp(self):
        super().setUp()
        self.hub.moved["bert-base-cased"] = "google-bert/bert-base-cased"

    def command(self, command, out, *more):
        return [cl.program(), command, "--do_train", "--do_eval", "--per_device_train_batch_size", "8", "--learning_rate",
                "1e-3", "--num_train_epochs", "2", "--max_seq_length", "48", "--output_dir", str(self.root / out), "--use_cpu",
                "--ignore_mismatched_sizes", *more]

    def run_on_hub(self, command, out, *more, **environment):
        if command == "qa":
            more = [*more, "--doc_stride", "16"]
        line = self.command(command, out, "--model_name_or_path", "bert-base-cased", *more)
        if command in ("qa", "embed"):  # which have no sizes that could differ
            line.remove("--ignore_mismatched_sizes")
        return cl.run(line, env=self.environment(**environment))

    def add_dataset(self, name, files, revision=CONVERTED):
        if name not in self.hub.datasets:
            self.hub.datasets[name] = Repository({"README.md": b"a card\n"})
        self.hub.datasets[name].commit(files, revision)


@needs_parquet
class Tutorials(DataCase):
    def test_mrpc(self):
        train, dev = pairs(64, 1), pairs(24, 2)
        self.add_dataset("nyu-mll/glue", {
            "mrpc/train/0000.parquet": parquet(train, compression="snappy"), "mrpc/validation/0000.parquet": parquet(dev),
            "mrpc/test/0000.parquet": parquet(pairs(9, 3, False)), "sst2/train/0000.parquet": b"not asked for"})
        first = self.succeeds(self.run_on_hub("glue", "hub", "--task_name", "mrpc", "--do_predict"))
        self.assertIn("0000.parquet", first.stderr)
        asked = len(self.hub.requests)
        self.succeeds(self.run_on_hub("glue", "offline", "--task_name", "mrpc", "--do_predict", HF_HUB_OFFLINE="1"))
        self.assertEqual(len(self.hub.requests), asked)
        local = self.root / "MRPC"
        local.mkdir()
        write_mrpc(local / "train.tsv", train)
        write_mrpc(local / "dev.tsv", dev)
        self.succeeds(self.run_on_hub("glue", "local", "--task_name", "mrpc", "--data_dir", str(local)))
        expected = scores(self.root / "local")
        self.assertIn("eval_f1", expected)
        self.assertEqual(scores(self.root / "hub"), expected)
        self.assertEqual(scores(self.root / "offline"), expected)
        self.assertEqual(len((self.root / "hub" / "predict_results_mrpc.txt").read_text().splitlines()), 10)
        self.check_cache()

    def test_squad(self):
        train, dev = questions(48, 1), questions(16, 2)
        # Two files of a split, and strings that lie in a dictionary.
        self.hub.datasets["rajpurkar/squad"] = Repository({"README.md": b"a card\n"})
        self.hub.moved["squad"] = "rajpurkar/squad"
        self.add_dataset("rajpurkar/squad", {
            "plain_text/train/0000.parquet": parquet(train[:30]), "plain_text/train/0001.parquet": parquet(train[30:]),
            "plain_text/validation/0000.parquet": parquet(dev, row_group_size=5)})
        self.succeeds(self.run_on_hub("qa", "hub", "--dataset_name", "squad"))
        self.hub.web.close()
        self.succeeds(self.run_on_hub("qa", "offline", "--dataset_name", "squad"))   # nothing is asked of anybody
        local = self.root / "squad"
        local.mkdir()
        write_squad(local / "train-v1.1.json", train)
        write_squad(local / "dev-v1.1.json", dev)
        self.succeeds(self.run_on_hub("qa", "local", "--dataset_name", "squad", "--data_dir", str(local)))
        expected = scores(self.root / "local")
        self.assertIn("eval_exact_match", expected)
        self.assertEqual(scores(self.root / "hub"), expected)
        self.assertEqual(scores(self.root / "offline"), expected)
        self.check_cache()

    def test_questions_of_the_test_split_are_predicted(self):
        splits = {"train": questions(16, 1), "validation": questions(8, 2), "test": questions(6, 3)}
        for name in ("someone/three", "someone/two"):
            self.add_dataset(name, {f"default/{split}/0000.parquet": parquet(rows) for split, rows in splits.items()
                                    if name == "someone/three" or split != "test"})
        self.succeeds(self.run_on_hub("qa", "three", "--dataset_name", "someone/three", "--do_predict"))
        predicted = json.loads((self.root / "three" / "predict_predictions.json").read_text())
        self.assertEqual(list(predicted), [row["id"] for row in splits["test"]])
        result = self.run_on_hub("qa", "two", "--dataset_name", "someone/two", "--do_predict")
        self.assertEqual(result.returncode, 1)
        self.assertIn("has no split test", result.stderr)
        local = self.root / "squad"
        local.mkdir()
        write_squad(local / "train-v1.1.json", splits["train"])
        write_squad(local / "dev-v1.1.json", splits["validation"])
        result = self.run_on_hub("qa", "local", "--dataset_name", "squad", "--data_dir", str(local), "--do_predict")
        self.assertEqual(result.returncode, 2)
        self.assertIn("--test_file", result.stderr)

    def test_regression_and_two_validation_sets(self):
        draw = random.Random(5)
        rows = [{"sentence1": sentence(draw), "sentence2": sentence(draw), "label": draw.randrange(20) / 4} for _ in range(16)]
        table = pyarrow.Table.from_pylist(rows, pyarrow.schema([("sentence1", "string"), ("sentence2", "string"),
                                                               ("label", "float32")]))
        sink = pyarrow.BufferOutputStream()
        pyarrow.parquet.write_table(table, sink)
        mnli = parquet([{"premise": sentence(draw), "hypothesis": sentence(draw), "label": i % 3} for i in range(12)])
        self.add_dataset("nyu-mll/glue", {
            "stsb/train/0000.parquet": sink.getvalue().to_pybytes(), "stsb/validation/0000.parquet": sink.getvalue().to_pybytes(),
            "mnli/train/0000.parquet": mnli, "mnli/validation_matched/0000.parquet": mnli,
            "mnli/validation_mismatched/0000.parquet": mnli})
        self.succeeds(self.run_on_hub("glue", "stsb", "--task_name", "stsb"))
        self.assertIn("eval_pearson", scores(self.root / "stsb"))
        self.succeeds(self.run_on_hub("glue", "mnli", "--task_name", "mnli"))
        self.assertIn("eval_accuracy_mm", scores(self.root / "mnli"))


class OtherDataSets(DataCase):
    def csv(self, rows, seed):
        path = self.root / f"{seed}.csv"
        cl.write_csv(path, rows, seed)
        return path.read_bytes()

    def test_csv_files_by_the_names_of_their_splits(self):
        train, dev = self.csv(48, 1), self.csv(12, 2)
        self.add_dataset("someone/questions", {"data/train-00000.csv": train, "data/dev.csv": dev, "notes.txt": b"x",
                                               "dataset_infos.json": b"{}"}, "main")
        self.succeeds(self.run_on_hub("glue", "hub", "--dataset_name", "someone/questions"))
        asked = len(self.hub.requests)
        self.succeeds(self.run_on_hub("glue", "offline", "--dataset_name", "someone/questions", HF_HUB_OFFLINE="1"))
        self.assertEqual(len(self.hub.requests), asked)
        self.succeeds(self.run_on_hub("glue", "local", "--train_file", str(self.root / "1.csv"), "--validation_file",
                                      str(self.root / "2.csv")))
        self.assertEqual(scores(self.root / "hub"), scores(self.root / "local"))
        self.assertEqual(scores(self.root / "offline"), scores(self.root / "local"))

    def rows_of(self, result):
        """How many rows a run learnt from."""
        return int(self.succeeds(result).stdout.split("train_samples ")[1].split("=")[1].split()[0])

    def learn(self, out, *more, **environment):
        return self.run_on_hub("glue", out, "--dataset_name", "someone/parts", "--do_eval", "false", "--max_steps", "1", *more,
                               **environment)

    def test_files_of_which_some_were_fetched(self):
        self.add_dataset("someone/parts", {f"train-{i}.csv": self.csv(12, 10 + i) for i in range(3)}, "main")
        self.assertEqual(self.rows_of(self.learn("all")), 36)
        listing = next(self.root.rglob("datasets--someone--parts/.lathe/*.json"))
        self.assertIn("train-1.csv", json.loads(listing.read_text()))
        next(self.root.rglob("snapshots/*/train-1.csv")).unlink()
        self.fails(self.learn("offline", HF_HUB_OFFLINE="1"), "train not all on this machine")
        self.assertEqual(self.rows_of(self.learn("again")), 36)
        # As Python leaves them: the Hub is asked what else there is; offline they are taken, and it is said.
        next(self.root.rglob("snapshots/*/train-1.csv")).unlink()
        listing.unlink()
        taken = self.learn("taken", HF_HUB_OFFLINE="1")
        self.assertEqual(self.rows_of(taken), 24)
        self.assertIn("train is taken as it lies in the cache, 2 files", taken.stderr + taken.stdout)
        self.assertEqual(self.rows_of(self.learn("asked")), 36)

    def test_a_cache_that_cannot_be_written_and_is_whole(self):
        self.add_dataset("someone/parts", {f"train-{i}.csv": self.csv(12, 10 + i) for i in range(2)}, "main")
        self.assertEqual(self.rows_of(self.learn("first")), 24)
        # As Python leaves it: the Hub is asked what else there is.
        next(self.root.rglob("datasets--someone--parts/.lathe/*.json")).unlink()
        locks = self.home / "hub" / ".locks"
        shutil.rmtree(locks)
        locks.write_text("no folder can be made here")
        self.assertEqual(self.rows_of(self.learn("again")), 24)

    def test_a_converted_branch_without_parquet(self):
        self.add_dataset("someone/parts", {"train.csv": self.csv(12, 1)}, "main")
        self.add_dataset("someone/parts", {"README.md": b"nothing yet"})
        self.assertEqual(self.rows_of(self.learn("main")), 12)

    @needs_parquet
    def test_a_configuration_that_is_here_is_not_taken_for_another(self):
        def rows(count):
            return parquet([{"sentence1": f"text {i}", "label": "ab"[i % 2]} for i in range(count)])
        self.add_dataset("someone/parts", {"default/train/0000.parquet": rows(10), "other/train/0000.parquet": rows(4)})
        self.assertEqual(self.rows_of(self.learn("other", "--dataset_config_name", "other")), 4)
        next(self.root.rglob("datasets--someone--parts/.lathe/*.json")).unlink()
        self.fails(self.learn("offline", HF_HUB_OFFLINE="1"), "HF_HUB_OFFLINE")
        self.assertEqual(self.rows_of(self.learn("default")), 10)
        self.assertEqual(self.rows_of(self.learn("default again", HF_HUB_OFFLINE="1")), 10)

    def test_what_is_not_there(self):
        self.add_dataset("someone/questions", {"train.csv": self.csv(12, 1)}, "main")
        self.fails(self.run_on_hub("glue", "o", "--dataset_name", "someone/questions"), "no split validation", "it has train")
        for config in ("rain", ""):
            result = self.run_on_hub("glue", "o", "--dataset_name", "someone/questions", "--dataset_config_name", config)
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn(f'--dataset_config_name: data set "someone/questions": found "{config}", expected', result.stderr)
        self.fails(self.run_on_hub("glue", "o", "--dataset_name", "someone/none"), 'data set "someone/none"', "check the spelling")
        self.fails(self.run_on_hub("glue", "o", "--dataset_name", "someone/none", HF_HUB_OFFLINE="1"), "HF_HUB_OFFLINE")
        self.add_dataset("a/many", {"x/train/0000.parquet": b"", "y/train/0000.parquet": b""})
        result = self.run_on_hub("glue", "o", "--dataset_name", "a/many")
        self.assertEqual(result.returncode, 2)
        self.assertIn("--dataset_config_name", result.stderr)
        self.assertIn("x, y", result.stderr)
        self.add_dataset("a/large", {"x/partial-train/0000.parquet": b""})
        self.fails(self.run_on_hub("glue", "o", "--dataset_name", "a/large"), "only the beginning of train")

    def test_without_the_part(self):
        self.add_dataset("a/one", {"x/train/0000.parquet": b"PAR1", "x/validation/0000.parquet": b"PAR1"})
        self.fails(self.run_on_hub("glue", "o", "--dataset_name", "a/one", LATHE_PARQUET="/nowhere.so"), "`make parquet`",
                   "csv, tsv, json")


@needs_parquet
class ParquetColumns(DataCase):
    def learn(self, table, *more):
        paths = [self.root / "train.parquet", self.root / "dev.parquet"]
        for path in paths:
            pyarrow.parquet.write_table(table, path)
        return cl.run(self.command("glue", "o", "--model_name_or_path", str(cl.MODEL), "--train_file", str(paths[0]),
                                   "--validation_file", str(paths[1]), "--overwrite_output_dir", *more),
                      env=self.environment())

    def config(self):
        return json.loads((self.root / "o" / "config.json").read_text())

    def texts(self, rows=8):
        return [row["sentence1"] for row in pairs(rows, 1)]

    def test_minus_one_of_a_class_label_is_no_label(self):
        features = {"sentence1": {"dtype": "string", "_type": "Value"}, "label": {"names": ["a", "b"], "_type": "ClassLabel"}}
        table = pyarrow.table({"sentence1": self.texts(), "label": [0, 1, -1, 1, 0, -1, -1, 1]})
        marked = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
        test = self.root / "test.parquet"
        pyarrow.parquet.write_table(marked, test)
        said = self.learn(marked, "--do_predict", "--test_file", str(test))
        self.assertEqual(said.returncode, 0, said.stderr)
        for split in ("train", "dev"):
            self.assertEqual(said.stderr.count(f"{split}.parquet: rows without a label (-1 of a ClassLabel): 3 of 8"), 1, said.stderr)
        self.assertEqual(self.config()["id2label"], {"0": "0", "1": "1"})
        results = json.loads((self.root / "o" / "all_results.json").read_text())
        self.assertEqual((results["train_samples"], results["eval_samples"]), (5, 5))
        self.assertEqual(len((self.root / "o" / "predict_results_None.txt").read_text().splitlines()), 1 + 8)
        self.assertEqual(self.learn(table).returncode, 0)     # without the entry it is a class like others
        self.assertEqual(self.config()["id2label"], {"0": "-1", "1": "0", "2": "1"})

    def test_decimals_and_half_floats_are_numbers(self):
        numbers = [f"{i}.{i}7" for i in range(8)]
        for values in (pyarrow.array(numbers).cast(pyarrow.decimal128(6, 3)), pyarrow.array(numbers).cast(pyarrow.decimal256(40, 3)),
                       pyarrow.array([float(n) for n in numbers]).cast(pyarrow.float16())):
            said = self.learn(pyarrow.table({"sentence1": self.texts(), "label": values}))
            self.assertEqual(said.returncode, 0, said.stderr)
            self.assertEqual(self.config()["problem_type"], "regression", values.type)
        whole = pyarrow.array([i % 2 for i in range(8)]).cast(pyarrow.decimal128(20, 0))
        self.assertEqual(self.learn(pyarrow.table({"sentence1": self.texts(), "label": whole})).returncode, 0)
        self.assertEqual(self.config()["id2label"], {"0": "0", "1": "1"})

    def test_maps_and_list_views_are_no_text(self):
        pairs_of = pyarrow.array([[("a", "b")]] * 8, pyarrow.map_(pyarrow.string(), pyarrow.string()))
        views = pyarrow.array([["a", "b"]] * 8, pyarrow.list_view(pyarrow.string()))
        for column in (pairs_of, views):
            said = self.learn(pyarrow.table({"sentence1": column, "label": [0, 1] * 4}))
            self.assertIn("column 'sentence1' holds nested JSON", self.fails(said).stderr, column.type)
        self.assertEqual(self.learn(pyarrow.table({"sentence1": self.texts(), "label": views})).returncode, 0)
        self.assertEqual(self.config()["problem_type"], "multi_label_classification")

    def test_bytes_that_are_no_text_lie_beside_texts(self):
        table = pyarrow.table({"sentence1": self.texts(), "sentence2": self.texts(), "label": [0, 1] * 4,
                               "sha": [b"\xff\x00\xd8"] * 8})
        said = self.learn(table)
        self.assertEqual(said.returncode, 0, said.stderr)
        said = self.learn(table.drop(["sentence2"]))
        self.assertEqual(said.returncode, 0, said.stderr)
        said = self.learn(table.select(["sha", "label"]))
        self.assertIn("column 'sha' holds nested JSON or bytes that are no UTF-8", self.fails(said).stderr)

    def test_bytes_that_are_no_text_are_named_with_their_row(self):
        texts = [text.encode() for text in self.texts()]
        texts[5] = b"caf\xe9"
        said = self.learn(pyarrow.table({"sentence1": texts, "label": [0, 1] * 4}))
        self.assertIn("train.parquet:6: column 'sentence1' holds nested JSON or bytes that are no UTF-8", self.fails(said).stderr)
        # Of the type string, and not among the first rows that are read at once.
        many = [b"text"] * 70000 + texts
        column = pyarrow.Array.from_buffers(pyarrow.string(), len(many), pyarrow.array(many, pyarrow.binary()).buffers())
        said = self.learn(pyarrow.table({"sentence1": column, "label": [0, 1] * (len(many) // 2)}))
        self.assertIn("train.parquet: cannot be read as Parquet: row 70006, column 'sentence1': ", self.fails(said).stderr)

    def test_nested_columns_that_nobody_asks_for_are_not_read(self):
        deep = pyarrow.array([1] * 8)
        for _ in range(60):     # more than are converted
            deep = pyarrow.StructArray.from_arrays([deep], ["x"])
        asked = pyarrow.table({"sentence1": self.texts(), "label": [["a"], ["b"]] * 4})
        self.assertEqual(self.learn(asked.add_column(0, "deep", deep)).returncode, 0)
        self.assertEqual(self.config()["problem_type"], "multi_label_classification")
        self.assertIn("column 'deep' holds nested JSON", self.fails(self.learn(asked.select(["label"]).append_column("deep", deep))).stderr)
        path = self.root / "questions.parquet"
        rows = pyarrow.Table.from_pylist([row | {"id": i} for i, row in enumerate(questions(8, 1))])
        pyarrow.parquet.write_table(rows.add_column(1, "deep", deep), path)
        said = cl.run([cl.program(), "qa", "--model_name_or_path", str(cl.MODEL.parent / "question_answering"), "--do_eval",
                       "--validation_file", str(path), "--max_seq_length", "48", "--doc_stride", "16", "--use_cpu",
                       "--output_dir", str(self.root / "answers")], env=self.environment())
        self.assertEqual(said.returncode, 0, said.stderr)
        answers = json.loads((self.root / "answers" / "eval_predictions.json").read_text())
        self.assertEqual(list(answers), [str(i) for i in range(8)])

    def test_flat_columns_that_nobody_asks_for_are_not_read(self):
        bytes_ = pyarrow.array([b"caf\xe9"] * 8, pyarrow.binary())
        damaged = pyarrow.Array.from_buffers(pyarrow.string(), 8, bytes_.buffers())     # reading it is refused
        texts, labels = self.texts(), [0, 1] * 4
        for table in (pyarrow.table({"text": texts, "other": texts, "label": labels, "html": damaged}),
                      pyarrow.table({"a": texts, "b": texts, "html": damaged, "sentence1": texts, "label": labels, "sentence2": texts})):
            said = self.learn(table)
            self.assertEqual(said.returncode, 0, said.stderr)
        self.assertIn("texts in sentence1 and sentence2", said.stderr)
        nothing = pyarrow.array([None] * 8, pyarrow.string())
        said = self.learn(pyarrow.table({"a": nothing, "b": texts, "c": texts, "label": labels, "sentence1": texts}))
        self.assertIn("texts in b and c", said.stderr)
        said = self.learn(pyarrow.table({"a": nothing, "b": texts, "html": damaged, "label": labels}))
        self.assertIn("row 1, column 'html': ", self.fails(said).stderr)
        # What the training texts lie in is all that is read of other files, and a task names its columns.
        train, test = self.root / "told.csv", self.root / "test.parquet"
        train.write_text("text,label\n" + "".join(f"{text},{label}\n" for text, label in zip(texts, labels)))
        pyarrow.parquet.write_table(pyarrow.table({"html": damaged, "text": texts, "label": labels}), test)
        said = cl.run(self.command("glue", "told", "--model_name_or_path", str(cl.MODEL), "--train_file", str(train),
                                   "--validation_file", str(test)), env=self.environment())
        self.assertEqual(said.returncode, 0, said.stderr)
        sst2 = pyarrow.table({"html": damaged, "sentence": texts, "label": labels})
        pyarrow.parquet.write_table(sst2, test)
        self.add_dataset("nyu-mll/glue", {f"sst2/{split}/0000.parquet": test.read_bytes() for split in ("train", "validation")})
        said = self.run_on_hub("glue", "sst2", "--task_name", "sst2")
        self.assertEqual(said.returncode, 0, said.stderr)

    def test_texts_that_are_null(self):
        texts = self.texts()
        texts[3] = None
        said = self.learn(pyarrow.table({"sentence1": texts, "label": [0, 1] * 4}))
        self.assertIn("train.parquet:4: column 'sentence1': found no text", self.fails(said).stderr)

    def test_empty_shards_are_left_out(self):
        rows = [{"sentence1": text, "label": "ab"[i % 2]} for i, text in enumerate(self.texts())]
        empty = pyarrow.Table.from_pylist(rows).slice(0, 0)
        sink = pyarrow.BufferOutputStream()
        pyarrow.parquet.write_table(empty, sink)
        empty = sink.getvalue().to_pybytes()
        self.add_dataset("someone/shards", {"x/train/0000.parquet": empty, "x/train/0001.parquet": parquet(rows),
                                            "x/train/0002.parquet": empty, "x/validation/0000.parquet": parquet(rows)})
        said = self.run_on_hub("glue", "o", "--dataset_name", "someone/shards")
        self.assertEqual(said.returncode, 0, said.stderr)
        self.assertEqual(json.loads((self.root / "o" / "all_results.json").read_text())["train_samples"], 8)
        self.add_dataset("someone/none", {"x/train/0000.parquet": empty, "x/train/0001.parquet": empty,
                                          "x/validation/0000.parquet": parquet(rows)})
        self.fails(self.run_on_hub("glue", "none", "--dataset_name", "someone/none"), "0000.parquet", "an empty file")


@needs_parquet
class DamagedParquet(DataCase):
    def read(self, content):
        path = self.root / "x.parquet"
        path.write_bytes(content)
        line = self.command("glue", "o", "--model_name_or_path", str(cl.MODEL), "--validation_file", str(path),
                            "--overwrite_output_dir")
        line.remove("--do_train")
        return cl.run(line, env=self.environment())

    def rows(self):
        return [{"sentence1": row["sentence1"], "label": f"LABEL_{row['label']}"} for row in pairs(40, 1)]

    def test_from_the_hub(self):
        self.add_dataset("a/one", {"x/train/0000.parquet": b"PAR1 nonsense PAR1", "x/validation/0000.parquet": b""})
        self.fails(self.run_on_hub("glue", "o", "--dataset_name", "a/one"), "0000.parquet", "cannot be read as Parquet")

    def test_cut_and_changed_files_end_with_a_message(self):
        whole = parquet(self.rows())
        self.assertEqual(self.read(whole).returncode, 0)
        draw = random.Random(7)
        for i in range(40):
            content = bytearray(whole)
            if i % 4 == 0:
                content = content[:draw.randrange(len(content))]
            for _ in range(draw.randint(1, 6)):
                if content:
                    content[draw.randrange(len(content))] = draw.randrange(256)
            result = self.read(bytes(content))
            self.assertIn(result.returncode, (0, 1, 2), (i, result.stderr))   # never a signal

    def test_columns_that_are_no_text(self):
        nested = [row | {"sentence1": {"deep": [1, 2]}} for row in self.rows()]
        self.assertIn("nested JSON", self.fails(self.read(parquet(nested))).stderr)


if __name__ == "__main__":
    cl.main()
