#!/usr/bin/env python3
"""Tables as people have them: each is read right, warned of, or refused with a way out; none is silently wrong."""
import dataclasses

import command_line as cl


@dataclasses.dataclass
class Table:
    """A table and what comes of it: "right" (no warning), "warned" or "refused"; `says` are parts of what is said."""
    comes: str
    content: object              # text or bytes
    says: tuple
    file: str = "train.csv"
    flags: tuple = ()


ROWS = [("my card was charged twice", "billing"), ("the app crashes", "bug"), ("how do I export", "how-to")] * 2


def lines(*rows, header="text,label", end="\n"):
    return "".join(row + end for row in (header, *rows))


def good(header="text,label", row="{0},{1}", end="\n"):
    return lines(*(row.format(*pair, i + 1) for i, pair in enumerate(ROWS)), header=header, end=end)


COUNTS = "6 training rows; labels: billing 2, bug 2, how-to 2"
FIRST = "how-to: how do I export"
# What a warning of columns says.
TEXT = "the text is 'text'; left out: "

TABLES = {
    "plain": Table("right", good(), (COUNTS, FIRST)),
    "ids in front": Table("warned", good("id,text,label", "{2},{0},{1}"), (COUNTS, FIRST, TEXT + "'id' (looks like ids)")),
    "ids that are words": Table("warned", good("ticket_id,text,label", "T-{2},{0},{1}"),
                                (COUNTS, FIRST, TEXT + "'ticket_id' (looks like ids)", "--text_column_names")),
    "tickets": Table("warned", good("ticket_id,subject,body,queue,label", "T-{2},{0},please help,q,{1}"),
                     (COUNTS, "the text is 'subject', 'body', as a pair; left out: 'ticket_id' (looks like ids), 'queue'",
                      "how do I export | please help")),
    "tickets with flags": Table("right", good("ticket_id,subject,body,queue,kind", "T-{2},{0},please help,q,{1}"),
                                (COUNTS, "how do I export / please help"),
                                flags=("--text_column_names", "subject,body", "--text_column_delimiter", " / ",
                                       "--label_column_name", "kind")),
    "nothing but ids": Table("warned", good("ticket_id,label", "T-{2},{1}"), ("'ticket_id' (looks like ids)", "--text_column_names")),
    "numbers in front": Table("refused", good("stars,text,label", "5,{0},{1}"),
                              ("column 'stars': found '5', expected text", "--text_column_names")),
    "row numbers of pandas": Table("right", good(",text,label", "{2},{0},{1}"), (COUNTS, FIRST)),
    "an empty column": Table("right", good("text,note,label", "{0},,{1}"), (COUNTS, FIRST)),
    "quoted newlines": Table("right", good(row='"Hello,\n{0}",{1}'), (COUNTS, "how-to: Hello, how do I export")),
    "semicolons": Table("refused", good("text;label", "{0};{1}"), ("found one column, 'text;label'", "parted by commas")),
    "tabs in csv": Table("refused", good("text\tlabel", "{0}\t{1}"), ("parted by tabs as .tsv",)),
    "commas in tsv": Table("refused", good(), ("found one column, 'text,label'", "ends in .csv"), file="train.tsv"),
    "Excel's sep=": Table("refused", "sep=;\n" + good("text;label", "{0};{1}"), ("a line of Excel's", "leave that line out")),
    "Excel's sep=,": Table("refused", "sep=,\n" + good(), ("a line of Excel's", "leave that line out")),
    "UTF-16": Table("refused", good().encode("utf-16"), ("UTF-16", "iconv -f utf-16 -t utf-8")),
    "UTF-16 without a mark": Table("refused", good().encode("utf-16-le"), ("UTF-16", "iconv -f utf-16 -t utf-8")),
    "UTF-8 with a mark": Table("right", good().encode("utf-8-sig"), (COUNTS, FIRST)),
    "CRLF": Table("right", good(end="\r\n"), (COUNTS, FIRST)),
    "Latin-1": Table("refused", good(row="déjà vu {0},{1}").encode("latin-1"), ("no UTF-8", "iconv -f latin1 -t utf-8")),
    "zero bytes": Table("warned", good(row="a\0b {0},{1}"), (COUNTS, "zero bytes are in the texts of 6 rows", "damaged")),
    "numbers and words": Table("warned", lines("a b,1", "c,2", "d,1", "e,2", "f,other", "g,other"),
                               ("labels: 1 2, 2 2, other 2", "some labels are numbers ('1', '2') and some are words ('other')")),
    "1 and 1.0": Table("warned", lines("a b,1", "c,1.0", "d,2"),
                       ("labels: numbers from 1 to 2", "all are whole numbers (1, 2): --do_regression False")),
    "1 and 1.0 as classes": Table("right", lines("a b,1", "c,1.0", "d,2", "e,2"), ("labels: 1 2, 2 2",),
                                  flags=("--do_regression", "False")),
    "scores": Table("right", lines("a b,0.5", "c,1", "d,2"), ("labels: numbers from 0.5 to 2, on average 1.167",)),
    "one class": Table("warned", lines("a b,x", "c,x"), ("every row has the label 'x'",)),
    "a class of one row": Table("warned", good() + "red ship,other\n", ("labels of a single row: 'other'",)),
    "lists in cells": Table("warned", lines("a b,\"['x', 'y']\"", "c,\"['x', 'y']\"", "d,['x']", "e,['x']"),
                            ("look like lists are taken for one class each: '['x', 'y']', '['x']'", "JSON Lines")),
    "case and blanks": Table("warned", lines("a b,Bug", "c,bug", "d,bug ", "e,Bug", "f,bug", "g,bug "),
                             ("differ only in case, blanks or spelling are different classes: 'Bug', 'bug', 'bug '",)),
    "duplicate headers": Table("refused", good("text,text,label", "{0},{0},{1}"), ("are both named 'text'", "rename one")),
    "no header": Table("refused", lines(*(",".join(pair) for pair in ROWS[1:]), header=",".join(ROWS[0])),
                       ("no column 'label'; it has 'my card was charged twice', 'billing'", "the first line")),
    "no label": Table("refused", good("text,answer"), ("no column 'label'; it has 'text', 'answer'", "--label_column_name NAME")),
    "Label": Table("refused", good("text,Label"), ("--label_column_name Label",)),
    "category": Table("refused", good("text,category"), ("--label_column_name category",)),
    "category named": Table("right", good("text,category"), (COUNTS, FIRST), flags=("--label_column_name", "category")),
    "class among others": Table("refused", good("class,text,body", "{1},{0},x"), ("--label_column_name class",)),
    "blanks in the header": Table("refused", good("text, label", "{0}, {1}"), ("--label_column_name ' label'",)),
    "ragged rows": Table("refused", good() + "a, b,bug\n", ("train.csv:8: found 3 fields, expected 2", "quote")),
    "a last comma": Table("right", good("text,label,", "{0},{1},"), (COUNTS, FIRST)),
    "a last comma in rows": Table("refused", good(row="{0},{1},"), ("train.csv:2: found 3 fields, expected 2",)),
    "empty label cells": Table("refused", good() + "red ship,\n", ("train.csv:8: column 'label': found ''",)),
    "empty text cells": Table("warned", good() + ",bug\n", ("cells without text: 1, the first at", "train.csv:8")),
    "NaN": Table("refused", lines("a b,0.5", "c,nan"), ("train.csv:3: column 'label': found 'nan'", "leave the row out")),
    "infinity": Table("refused", lines("a b,0.5", "c,inf"), ("train.csv:3: column 'label': found 'inf'",)),
    "decimal commas": Table("warned", lines('a b,"0,5"', "c,1.5", "d,2.5"), ("some labels are numbers", "words ('0,5')")),
    "nested objects": Table("refused", '[{"text": {"de": "ja"}, "label": "a"}, {"text": {"de": "nein"}, "label": "b"}]',
                            ("train.json:1: column 'text' holds nested JSON",), file="train.json"),
    "more objects": Table("warned", '{"text": "a b", "meta": {"x": 1}, "label": "a"}\n{"text": "c", "meta": {"x": 2}, "label": "b"}\n',
                          (TEXT + "'meta'",), file="train.jsonl"),
    "an empty file": Table("refused", "", ("empty file",)),
    "only a header": Table("refused", "text,label\n", ("a header, but no row",)),
    "a very long cell": Table("right", good() + "red ship " * 20000 + ",bug\n", ("1 cut at 32 (--max_seq_length)",)),
    "an open quote": Table("refused", good() + '"red ship,bug\n', ("train.csv:8: a quote opens here and is never closed",)),
    "an Excel file": Table("refused", b"PK\x03\x04" + bytes(60), ("a zip archive, as torch.save and Excel write",)),
    "an Excel file by its name": Table("refused", good(), ("unknown kind of file; expected .tsv, .csv",), file="train.xlsx"),
    "many classes": Table("right", lines(*(f"red ship {i},class {i % 40}" for i in range(80))),
                          ("80 training rows, 40 labels", "labels: class 0 2, class 1 2", "more, the rarest class 9 2")),
}


class Tables(cl.CommandsCase):
    def said(self, table, *more):
        path = self.root / table.file
        path.write_bytes(table.content if isinstance(table.content, bytes) else table.content.encode())
        return cl.run([cl.program(), "glue", "--model_name_or_path", str(cl.MODEL), "--train_file", str(path), "--do_train",
                       "--max_steps", "1", "--max_seq_length", "32", "--output_dir", str(self.out), "--use_cpu",
                       "--overwrite_output_dir", "--ignore_mismatched_sizes", *table.flags, *more])

    def test_each_is_right_or_warned_of_or_refused(self):
        self.assertGreater(len(TABLES), 30)
        for name, table in TABLES.items():
            with self.subTest(name):
                result = self.said(table)
                about = [line for line in result.stderr.splitlines() if line.startswith("[WARNING]") and table.file in line]
                self.assertIn(result.returncode, (1, 2) if table.comes == "refused" else (0,), result.stderr)
                self.assertEqual(bool(about), table.comes == "warned", result.stderr)
                words = result.stderr.splitlines()[-1] if table.comes == "refused" else result.stderr
                for part in table.says:
                    self.assertIn(part, words)

    def test_validation_data(self):
        train = Table("right", good(), ())
        dev = self.root / "dev.csv"
        for content, words in ((good(), "6 of its 6 rows have texts that the training data have, too"),
                               (good(row="x {0},{1}"), None), ("text,label\nred ship,when\n", None)):
            dev.write_text(content)
            result = self.said(train, "--do_eval", "--validation_file", str(dev))
            if words:
                self.assertIn(words, result.stderr)
            else:
                self.assertNotIn("[WARNING] " + str(dev), result.stderr)
            self.assertEqual(result.returncode, 1 if "when" in content else 0, result.stderr)
        self.assertIn("dev.csv:2: column 'label': found 'when', expected one of the known labels", result.stderr)

    def test_what_is_said_is_once_short_and_can_be_turned_off(self):
        table = TABLES["tickets"]
        shown = self.said(table).stderr
        self.assertEqual(shown.count("the text is"), 1, shown)
        block = [line for line in shown.splitlines() if "training rows" in line or "tokens:" in line or "] row " in line]
        self.assertEqual(len(block), 5, shown)
        self.assertTrue(all(len(line) < 80 for line in block), block)
        self.assertNotIn("training rows", self.said(table, "--log_level", "warning").stderr)
        self.assertEqual(self.said(table, "--log_level", "error").stderr, "")


class Classify(cl.CommandsCase):
    """lathe classify has the rules of run_classification.py where it differs from run_glue.py."""

    def classify(self, *more):
        return cl.run([cl.program(), "classify", "--model_name_or_path", str(cl.MODEL), "--train_file", str(self.train),
                       "--validation_file", str(self.dev), "--do_train", "--max_steps", "1", "--output_dir", str(self.out),
                       "--use_cpu", "--overwrite_output_dir", "--ignore_mismatched_sizes", *map(str, more)])

    def test_labels_of_validation_data_are_added(self):
        self.dev.write_text("sentence1,label\nred ship,animal\n")
        result = self.classify("--do_eval")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("labels that no training row has are added, and cannot be learnt: animal", result.stderr)
        self.assertEqual(list(cl.read(self.out / "config.json")["id2label"].values()), ["animal", "person", "place", "thing"])
        self.train.write_text("sentence,note,label\nred ship,new,2\nold ship,old,10\n")
        self.dev.write_text("sentence,note,label\nred ship,new,2\nold ship,old,10\n")
        result = self.classify("--do_predict", "--test_file", self.dev)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("the text is 'sentence'; left out: 'note'", result.stderr)
        self.assertEqual(list(cl.read(self.out / "config.json")["id2label"].values()), ["10", "2"])
        self.assertEqual(len((self.out / "predict_results.txt").read_text().splitlines()), 3)

    def test_one_label_is_refused(self):
        self.train.write_text("sentence,label\nred ship,a\n")
        self.dev.write_text("sentence,label\nred ship,a\n")
        self.assertIn("found one label, 'a', expected two or more", self.classify().stderr)

    def test_splits_metrics_and_shuffling(self):
        self.train.write_text("sentence,label\n" + "".join(f"text {i},{'ab'[i % 2]}\n" for i in range(10)))
        self.dev.write_text("sentence,label\na b,a\nc,b\n")
        result = self.classify("--do_eval", "--test_file", self.dev, "--remove_splits", "validation", "--metric_name", "f1")
        self.assertIn("there are no validation data: the test data are evaluated", result.stderr)
        self.assertIn("eval_f1", cl.read(self.out / "eval_results.json"))
        result = self.classify("--remove_splits", "train")
        self.assertEqual(result.returncode, 2)
        self.assertIn("--do_train: found no train data, because --remove_splits leaves them out", result.stderr)
        result = self.classify("--do_eval", "--remove_splits", "train, validation")
        self.assertEqual(result.returncode, 2)
        self.assertIn("--remove_splits: found ' validation', expected some of 'train', 'validation', 'test'", result.stderr)
        result = self.classify("--remove_columns", "label")
        self.assertEqual(result.returncode, 2)
        self.assertIn("--remove_columns: found 'label', which holds the labels", result.stderr)
        result = self.classify("--text_column_delimiter", " / ")
        self.assertIn("--text_column_delimiter is not read: --text_column_names says", result.stderr)
        result = self.classify("--do_eval", "--metric_name", "mse")
        self.assertIn("--metric_name: found mse, expected one of accuracy, matthews_correlation, f1", result.stderr)
        result = self.classify("--shuffle_train_dataset", "--max_train_samples", "3")  # rows 5, 6, 0 of numpy's permutation
        for row, (text, label) in enumerate((("text 5", "b"), ("text 6", "a"), ("text 0", "a"))):
            self.assertIn(f"row {row + 1} is {label}: {text}", result.stderr)

    def test_it_is_the_script_under_its_name(self):
        link = self.root / "run_classification"
        link.symlink_to(cl.program())
        result = cl.run([str(link), "--help"])
        self.assertIn("--text_column_names", result.stdout)
        self.assertIn("as run_classification.py", result.stdout)
        result = self.lathe("launch", "-n", "2", "classify", *self.classify_words())
        self.assertEqual(result.stderr.count("48 training rows"), 1, result.stderr)

    def classify_words(self):
        return ["--model_name_or_path", cl.MODEL, "--train_file", self.train, "--do_train", "--max_steps", "1",
                "--per_device_train_batch_size", "8", "--output_dir", self.out, "--use_cpu", "--ignore_mismatched_sizes"]


class Questions(cl.CommandsCase):
    def test_what_is_learnt_from_is_said(self):
        rows = [{"id": str(i), "question": "who sings", "context": "in the hall anna sings " * (1 + 30 * i),
                 "answers": {"text": ["anna"], "answer_start": [12]}} for i in range(4)]
        path = self.root / "questions.jsonl"
        path.write_text("".join(cl.json.dumps(row) + "\n" for row in rows))
        result = self.lathe("qa", "--model_name_or_path", cl.GOLDEN / "question_answering", "--train_file", path, "--do_train",
                            "--max_steps", "1", "--max_seq_length", "64", "--doc_stride", "16", "--output_dir", self.out, "--use_cpu")
        for part in ("4 training questions about 4 contexts; each has an answer", "3 are cut into 2 to",
                     "question 1: who sings -> anna"):
            self.assertIn(part, result.stderr)


if __name__ == "__main__":
    cl.main()
