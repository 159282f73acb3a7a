#!/usr/bin/env python3
"""lathe predict on tables: what is read, what is added, and that nothing else changes."""
import csv
import gzip
import io
import json
import os
import signal
import subprocess

import command_line as cl
from command_line import GOLDEN, CommandsCase, read

MODEL = GOLDEN / "classification"
NAMES = list(read(MODEL / "config.json")["id2label"].values())
TEXTS = ["the old bridge", "who \"opened\" it,\r\nthe ship", "", "5\" metal\n"]


def rows_of(text):
    """As Python reads CSV, which is what pandas does."""
    return list(csv.reader(io.StringIO(text, newline="")))


class Tables(CommandsCase):
    def setUp(self):
        super().setUp()
        self.table = self.root / "t.csv"
        with open(self.table, "w", newline="", encoding="utf-8") as out:
            writer = csv.writer(out)
            writer.writerows([["id", "text", "from"], *([f"00{i}", text, "Ann"] for i, text in enumerate(TEXTS))])

    def predict(self, *words, model=MODEL, **keywords):
        return self.lathe("predict", model, *words, **keywords)

    def refused(self, *words, model=MODEL, code=2):
        result = cl.run([cl.program(), "predict", str(model), *map(str, words)])
        self.assertEqual((result.returncode, result.stdout), (code, ""), result.stderr)
        return result.stderr

    def probabilities(self, *texts):
        return [json.loads(line)["probabilities"] for line in self.predict("--json", *texts).stdout.splitlines()]

    def test_every_cell_is_kept_and_label_and_score_are_added(self):
        wanted = self.probabilities(*(text for text in TEXTS if "\t" not in text))
        result = self.predict("--file", self.table, "--output", self.root / "o.csv")
        self.assertEqual(result.stdout, "")
        self.assertRegex(result.stderr, r"(?m)^4 rows, \d+ tokens in [0-9.]+ s, \d+ tokens/s; label, score in .*o\.csv$")
        self.assertIn("cells without text: 1, the first at", result.stderr)
        written = (self.root / "o.csv").read_bytes().decode()
        self.assertTrue(written.startswith("id,text,from,label,score\r\n"), "CRLF stays")
        before, after = rows_of(self.table.read_bytes().decode()), rows_of(written)
        self.assertEqual([row[:3] for row in after], before)
        for row, p in zip(after[1:], wanted):
            self.assertEqual(row[3], max(p, key=p.get))
            self.assertAlmostEqual(float(row[4]), max(p.values()), places=6)
        shown = subprocess.run([cl.program(), "predict", str(MODEL), "--file", str(self.table)], capture_output=True, check=True)
        self.assertEqual(shown.stdout.decode(), written)

    def test_every_format_in_and_out(self):
        rows = [{"text": "the old bridge", "n": 1.50, "more": {"a": [None, "é"]}}, {"text": "who opened it", "n": None, "more": []}]
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        inputs = {"t.jsonl": lines, "t.json": json.dumps(rows, indent=1), "t.tsv": "text\tn\nthe old bridge\t1.50\n\"who opened it\t\n",
                  "t.csv": "\ufefftext,n\nthe old bridge,1.50\nwho opened it,\n"}
        for name, content in inputs.items():
            (self.root / name).write_text(content, encoding="utf-8")
        with gzip.open(self.root / "u.csv.gz", "wt", encoding="utf-8") as out:
            out.write(inputs["t.csv"])
        labels = []
        for name in [*inputs, "u.csv.gz"]:
            for ending in ("csv", "tsv", "jsonl"):
                out = self.root / f"{name}.out.{ending}"
                self.predict("--file", self.root / name, "--output", out)
                content = out.read_text(encoding="utf-8-sig")
                if ending == "jsonl":
                    got = [json.loads(line) for line in content.splitlines()]
                    labels.append([row["label"] for row in got])
                    if name == "t.jsonl":
                        self.assertEqual([{k: row[k] for k in rows[0]} for row in got], rows)
                        self.assertTrue(content.startswith(lines.splitlines()[0][:-1] + ', "label": "'))
                else:
                    table = content.splitlines()
                    separator = "\t" if ending == "tsv" else ","
                    self.assertTrue(table[1].startswith(f"the old bridge{separator}1.5"), table)
        self.assertTrue(all(row[0] == labels[0][0] for row in labels))
        self.assertTrue((self.root / "t.csv.out.csv").read_bytes().startswith(b"\xef\xbb\xbf"), "Excel's mark stays")

    def test_columns_of_that_name_are_not_overwritten(self):
        for header, wanted in (("text,label", ["predicted_label", "predicted_score"]),
                               ("text,predicted_label,score", ["predicted_2_label", "predicted_2_score"])):
            self.table.write_text(f"{header}\nthe old bridge,{'x' * header.count(',')}\n".replace("xx", "x,x"))
            result = self.predict("--file", self.table)
            self.assertEqual(result.stdout.splitlines()[0], ",".join([header, *wanted]))
            self.assertIn("it has a column of such a name already; the predictions are in '" + "', '".join(wanted), result.stderr)

    def test_top_k_values_and_several_labels(self):
        ranks = rows_of(self.predict("--file", self.table, "--top_k", "9").stdout)
        self.assertEqual(ranks[0][3:], [f"{what}_{k}" for k in range(1, len(NAMES) + 1) for what in ("label", "score")])
        for row in ranks[1:]:
            self.assertEqual(sorted(row[3::2]), sorted(NAMES))
            self.assertEqual(sorted(map(float, row[4::2]), reverse=True), [float(x) for x in row[4::2]])
        several = rows_of(self.predict("--file", self.table, model=GOLDEN / "multi_label").stdout)
        names = list(read(GOLDEN / "multi_label" / "config.json")["id2label"].values())
        self.assertEqual(several[0][3:], ["labels", *(f"score_{name}" for name in names)])
        for row in several[1:]:
            self.assertEqual(row[3], ", ".join(name for name, score in zip(names, row[4:]) if float(score) > 0.5))
        line = json.loads(self.predict("--file", self.table, "--json", model=GOLDEN / "multi_label").stdout.splitlines()[0])
        self.assertIsInstance(line["labels"], list)
        value = rows_of(self.predict("--file", self.table, model=GOLDEN / "regression").stdout)
        self.assertEqual(value[0], ["id", "text", "from", "score"])
        shown = self.predict("the old bridge", model=GOLDEN / "regression").stdout.split("\t")[0]
        self.assertAlmostEqual(float(value[1][3]), float(shown), places=4)
        self.assertIn("no labels to rank", self.refused("--file", self.table, "--top_k", "2", model=GOLDEN / "regression"))
        first = self.predict("the old bridge", "--top_k", "2").stdout.split("\t")[0]
        self.assertRegex(first, r"^\w+ 0\.\d{4}, \w+ 0\.\d{4}$")
        (self.root / "texts.txt").write_text(TEXTS[0] + "\n")
        (self.root / "texts.jsonl").write_text(json.dumps({"text": TEXTS[0]}))
        of_table, of_words, of_lines = (json.loads(self.predict(*words, "--json", "--top_k", "2").stdout) for words in
                                        (["--file", self.root / "texts.jsonl"], [TEXTS[0]], ["--file", self.root / "texts.txt"]))
        self.assertEqual(list(of_words), ["text", "label_1", "score_1", "label_2", "score_2"])
        self.assertEqual(of_words, of_lines)
        self.assertEqual(list(of_words), list(of_table))
        for key, value in of_words.items():
            (self.assertAlmostEqual if isinstance(value, float) else self.assertEqual)(value, of_table[key])
        self.assertIn("--top_k: found 1001, expected at least 0 and at most 1000", self.refused("--top_k", "1001", "a"))

    def test_standard_input(self):
        def piped(text, *more):
            return self.predict("--file", "-", *more, input=text)

        table = "id,text\n1,the old bridge\n"
        with gzip.open(self.root / "t.csv.gz", "wt") as out:
            out.write(table)
        with open(self.root / "t.csv.gz", "rb") as packed:
            result = cl.run([cl.program(), "predict", str(MODEL), "--file", "-"], stdin=packed)
        self.assertIn("standard input: expected a table with at least one row, found gzip data", result.stderr)
        self.assertEqual(piped(table).stdout.splitlines()[0], "id,text,label,score")
        self.assertEqual(piped(table.replace(",", "\t"), "--json").stdout[:11], '{"id": "1",')
        self.assertTrue(piped('{"text": "the old bridge"}\n').stdout.startswith("text,label,score\n"))
        result = piped("the old bridge, who\nwho opened it\n")
        self.assertEqual([line.split("\t")[2] for line in result.stdout.splitlines()], ["the old bridge, who", "who opened it"])
        self.assertIn("standard input: each line is taken for a text; for a table say --format", result.stderr)
        self.assertTrue(piped("a\nthe old bridge\n", "--format", "csv").stdout.startswith("a,label,score\n"))
        self.assertTrue(piped("body,x\nthe old bridge,\n", "--column", "body").stdout.startswith("body,x,label,score\n"))

    def test_the_kind_comes_from_the_name_or_else_from_the_beginning(self):
        pipe = self.root / "f.csv"
        os.mkfifo(pipe)
        writer = subprocess.Popen(["sh", "-c", f"printf 'id,body\\n1,hello\\n' > '{pipe}'"])
        self.assertTrue(self.predict("--file", pipe).stdout.startswith("id,body,label,score\n1,hello,"))
        self.assertEqual(writer.wait(timeout=60), 0)
        other = self.root / "tickets.dat"
        other.write_text("id,body\n1,hello\n")
        self.assertTrue(self.predict("--file", other, "--column", "body").stdout.startswith("id,body,label,score\n"))
        result = self.predict("--file", other)
        self.assertEqual([line.split("\t")[2] for line in result.stdout.splitlines()], ["id,body", "1,hello"])
        said = f"{other}: each line is taken for a text; for a table say --format"
        self.assertIn(said, result.stderr)
        self.assertNotIn(said, self.predict("--file", other, "--format", "lines").stderr)
        texts = self.root / "texts.txt"
        texts.write_text("id,body\n1,hello\n")
        self.assertEqual(self.predict("--file", texts).stderr, "")
        for more in ([texts], [other, "--format", "lines"]):
            self.assertIn(f"--column: found body, but {more[0]} is read as a text a line; for a table say --format csv",
                          self.refused("--column", "body", "--file", *more))

    def test_numbers_of_json_keep_their_digits(self):
        rows = '[\n  {"id": 12345678901234567890123, "text": "the old bridge", "n": 1.50},\n  {"id": 9223372036854775808}\n]'
        (self.root / "t.json").write_text(rows)
        shown = self.predict("--file", self.root / "t.json").stdout.splitlines()
        self.assertTrue(shown[1].startswith("12345678901234567890123,the old bridge,1.50,"), shown)
        self.assertTrue(shown[2].startswith("9223372036854775808,,,"), shown)
        shown = self.predict("--file", self.root / "t.json", "--json").stdout.splitlines()
        self.assertTrue(shown[0].startswith('{"id": 12345678901234567890123, "text": "the old bridge", "n": 1.50, "label": '), shown)

    def test_rows_without_the_text_may_fill_the_last_part(self):
        row = json.dumps({"id": 1, "text": "the old bridge", "more": ""}) + "\n"
        row = row.replace('""', '"' + "x" * ((1 << 17) - len(row)) + '"')  # eight are a part, which has 1 MiB
        (self.root / "t.jsonl").write_text(8 * row + '{"id": 2}\n{}\n')
        for ending in ("csv", "jsonl"):
            out = self.root / f"o.{ending}"
            result = self.predict("--file", self.root / "t.jsonl", "--output", out)
            self.assertRegex(result.stderr, r"(?m)^10 rows, ")
            self.assertIn(f"cells without text: 2, the first at {self.root / 't.jsonl'}:9", result.stderr)
        last = [json.loads(line) for line in (self.root / "o.jsonl").read_text().splitlines()[-2:]]
        self.assertEqual([list(row) for row in last], [["id", "label", "score"], ["label", "score"]])
        rows = (self.root / "o.csv").read_text().splitlines()
        self.assertRegex(rows[9], r"^2,,,\w+,0\.")
        self.assertRegex(rows[10], r"^,,,\w+,0\.")

    def test_pairs(self):
        (self.root / "p.csv").write_text("a,b\nthe old bridge,what is it\n")
        pair = self.predict("the old bridge\twhat is it", "--json").stdout
        p = json.loads(pair)["probabilities"]
        row = rows_of(self.predict("--file", self.root / "p.csv", "--column", "a,b").stdout)[1]
        self.assertAlmostEqual(float(row[3]), max(p.values()), places=6)
        (self.root / "p.txt").write_text("the old bridge\twhat is it\n")
        self.predict("--file", self.root / "p.txt", "--output", self.root / "o.csv")
        self.assertEqual(rows_of((self.root / "o.csv").read_text())[0], ["text", "text_pair", "label", "score"])
        # a model that was trained on pairs knows it
        self.train.write_text("first,second,label\n" + "".join(f"the old {w},is {w} small,{'ab'[i % 2]}\n"
                                                               for i, w in enumerate(cl.WORDS * 2)))
        self.works(cl.glue_command(self.out, self.train, self.train, "--num_train_epochs", "1"))
        self.assertEqual(read(self.out / "run.json")["texts"], {"columns": ["first", "second"], "pairs": True})
        for model in (self.out, next(self.out.glob("checkpoint-*"), self.out)):
            lines = self.predict("the old bridge", "is bridge small", model=model).stdout.splitlines()
            self.assertEqual([line.split("\t")[2:] for line in lines], [["the old bridge", "is bridge small"]])
        result = self.predict("--file", self.train, model=self.out)
        self.assertIn("the texts are in 'first' and 'second', as in the training", result.stderr)
        self.assertIn("found 1 text, expected two", self.refused("the old bridge", model=self.out))
        self.assertIn("expected 'first' and 'second', as in the training", self.refused("--file", self.table, model=self.out))
        self.assertIn("--column: found text, expected two names, A,B: the model was trained on pairs",
                      self.refused("--file", self.table, "--column", "text", model=self.out))
        (self.root / "single.txt").write_text("the old bridge\n")
        for more in ([], ["--output", self.root / "o.csv"]):
            self.assertIn("the model was trained on pairs; found one text a line, expected two, with a tab between",
                          self.refused("--file", self.root / "single.txt", *more, model=self.out))
            self.predict("--file", self.root / "p.txt", *more, model=self.out)
        # of one that was trained on one text two columns are a pair
        run = read(self.out / "run.json")
        run["texts"] = {"columns": ["first"], "pairs": False}
        (self.out / "run.json").write_text(json.dumps(run))
        first = rows_of(self.predict("--file", self.train, "--column", "first,second", model=self.out).stdout)[1]
        text = self.predict("\t".join(first[:2]), "--json", model=self.out).stdout
        self.assertAlmostEqual(float(first[4]), max(json.loads(text)["probabilities"].values()), places=6)
        (self.root / "p.txt").write_text("\t".join(first[:2]) + "\n")
        self.predict("--file", self.root / "p.txt", "--output", self.root / "o.csv", model=self.out)
        self.assertEqual(rows_of((self.root / "o.csv").read_text())[1][2:], first[3:])
        # one that was trained on joined columns joins them
        run["texts"]["columns"] = ["first", "second"]
        (self.out / "run.json").write_text(json.dumps(run))
        joined = rows_of(self.predict("--file", self.train, model=self.out).stdout)[1]
        result = self.predict("--file", self.train, "--column", "first,second", model=self.out)
        self.assertEqual(rows_of(result.stdout)[1], joined)
        self.assertIn("'first' and 'second' are joined to one text, as in the training", result.stderr)
        text = self.predict(" ".join(joined[:2]), "--json", model=self.out).stdout
        self.assertAlmostEqual(float(joined[4]), max(json.loads(text)["probabilities"].values()), places=6)

    def test_questions(self):
        model = GOLDEN / "question_answering"
        context = "the old bridge is small and the new ship is red"
        answer, score = self.predict("--question", "what is it", "--context", context, model=model).stdout.rstrip("\n").split("\t")
        self.assertIn(answer, context)
        (self.root / "q.csv").write_text(f"question,context\nwhat is it,{context}\nwho opened it,\n")
        rows = rows_of(self.predict("--file", self.root / "q.csv", "--top_k", "2", model=model).stdout)
        self.assertEqual(rows[0], ["question", "context", "answer_1", "score_1", "answer_2", "score_2"])
        self.assertEqual(rows[1][2], answer)
        self.assertAlmostEqual(float(rows[1][3]), float(score), places=4)
        self.assertEqual(rows[2][2:], [""] * 4, "an empty text has no answer")
        squad = {"data": [{"paragraphs": [{"context": context, "qas": [{"id": "7", "question": "what is it", "answers": []}]}]}]}
        (self.root / "dev.json").write_text(json.dumps(squad))
        rows = rows_of(self.predict("--file", self.root / "dev.json", model=model).stdout)
        self.assertEqual(rows[0], ["id", "question", "context", "answer", "score"])
        self.assertEqual([rows[1][0], rows[1][3]], ["7", answer])
        one = json.loads(self.predict("--question", "what is it", "--context", context, "--json", model=model).stdout)
        self.assertEqual((list(one), one["answer"]), (["question", "context", "answer", "score"], answer))
        self.assertIn("expected 'question' and 'context'", self.refused("--file", self.table, model=model))
        (self.root / "l.txt").write_text("what is it\n")
        for more in ([], ["--output", self.root / "o.csv"]):
            self.assertIn("l.txt: it is read as a text a line, expected 'question' and 'context' of a table",
                          self.refused("--file", self.root / "l.txt", *more, model=model))
        self.assertIn("--column: found context, expected two names, QUESTION,CONTEXT",
                      self.refused("--file", self.root / "q.csv", "--column", "context", model=model))
        (self.root / "q.csv").write_text(f"question,context\nwhat is it,{context}\n{'who ' * 500},{context}\n")
        result = cl.run([cl.program(), "predict", str(model), "--file", str(self.root / "q.csv")])
        self.assertEqual(result.returncode, 2)
        self.assertIn("question 'q.csv:3': ".replace("q.csv", str(self.root / "q.csv")), result.stderr)
        self.assertIn("; shorten the question, or raise --max_seq_length", result.stderr)
        # only a document of SQuAD's, and only for questions
        (self.root / "s.json").write_text(json.dumps([{"text": "the old bridge", "paragraphs": 1}]))
        rows = rows_of(self.predict("--file", self.root / "s.json").stdout)
        self.assertEqual(rows[0], ["text", "paragraphs", "label", "score"])
        (self.root / "s.json").write_text(2 * (json.dumps({"question": "what is it", "context": context, "paragraphs": 1}) + "\n"))
        rows = rows_of(self.predict("--file", self.root / "s.json", model=model).stdout)
        self.assertEqual([row[3] for row in rows], ["answer", answer, answer])
        self.assertIn("--question goes with --context", self.refused("--question", "x", model=model))
        self.assertIn("answers no questions", self.refused("--question", "x", "--context", "y", code=1))

    def test_what_does_not_work_says_the_way_out(self):
        self.assertIn("which is --file; expected another file", self.refused("--file", self.table, "--output", self.table))
        self.assertIn("expected a name that ends in .csv", self.refused("--file", self.table, "--output", self.root / "o.xlsx"))
        self.assertIn("is a folder", self.refused("--file", self.table, "--output", self.root))
        self.assertIn("has no column 'body'; it has 'id', 'text', 'from'", self.refused("--file", self.table, "--column", "body"))
        self.assertIn("--output goes with --file", self.refused("the old bridge", "--output", "o.csv"))
        out = self.root / "o.csv"
        out.write_text("before")
        bad = self.root / "bad.csv"
        bad.write_text("text,n\n" + "the old bridge,1\n" * 70000 + "who opened it\n")
        message = self.refused("--file", bad, "--output", out, code=1)
        self.assertIn(f"{bad}:70002: found 1 fields, expected 2", message)
        tabs = self.root / "tabs.csv"
        tabs.write_text("text\n\"the\told\"\n")
        self.assertIn("column 'text': found a tab or a line end", self.refused("--file", tabs, "--output", self.root / "o.tsv", code=1))
        unclear = self.root / "unclear.csv"
        unclear.write_text("subject,body\nthe old,bridge\n")
        self.assertIn("found the columns 'subject', 'body', expected", self.refused("--file", unclear))
        self.assertEqual(out.read_text(), "before")
        self.assertEqual([path for path in self.root.iterdir() if path.name.startswith(".tmp")], [])

    def test_a_stop_or_a_full_disk_leaves_what_was_there(self):
        out = self.root / "o.csv"
        out.write_text("before")
        reading = subprocess.Popen([cl.program(), "predict", str(MODEL), "--file", "-", "--format", "csv", "--output", str(out)],
                                   stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        reading.stdin.write("text\n" + "the old bridge\n" * 200000)
        reading.stdin.flush()
        reading.send_signal(signal.SIGINT)
        reading.wait(timeout=60)
        reading.stdin.close()
        reading.stderr.close()
        self.assertEqual(reading.returncode, -signal.SIGINT)
        large = self.root / "large.csv"
        large.write_text("text\n" + "the old bridge\n" * 40000)
        limited = cl.run(["bash", "-c", f"ulimit -f 100; exec '{cl.program()}' predict '{MODEL}' --file '{large}' --output '{out}'"])
        self.assertEqual(limited.returncode, 1, limited.stderr)
        self.assertIn("o.csv", limited.stderr)
        self.assertEqual(out.read_text(), "before")
        self.assertEqual([path for path in self.root.iterdir() if path.name.startswith(".tmp")], [])

    def test_parquet(self):
        try:
            import pyarrow
            import pyarrow.parquet as parquet
        except ImportError:
            self.skipTest("needs pyarrow")
        table = pyarrow.table({"when": pyarrow.array([1, 2], pyarrow.timestamp("s")), "text": ["the old bridge", "who opened it"],
                               "tags": [["a"], None], "n": pyarrow.array([7, None], pyarrow.int16())})
        parquet.write_table(table, self.root / "t.parquet")
        result = cl.run([cl.program(), "predict", str(MODEL), "--file", str(self.root / "t.parquet"), "--output",
                         str(self.root / "o.parquet")])
        if "liblathe_parquet" in result.stderr:
            self.skipTest("the part that reads Parquet was not built")
        self.assertEqual(result.returncode, 0, result.stderr)
        written = parquet.read_table(self.root / "o.parquet")
        self.assertEqual(written.select(table.column_names).to_pydict(), table.to_pydict())
        self.assertEqual(written.schema.names, [*table.column_names, "label", "score"])
        given = parquet.read_schema(self.root / "t.parquet")
        self.assertEqual([field.type for field in written.schema], [*(field.type for field in given), pyarrow.utf8(), pyarrow.float32()])
        self.assertIn(written.column("label")[0].as_py(), NAMES)
        shown = rows_of(self.predict("--file", self.root / "t.parquet").stdout)
        self.assertEqual(shown[0], [*table.column_names, "label", "score"])
        self.predict("--file", self.table, "--output", self.root / "p.parquet", model=GOLDEN / "multi_label")
        several = parquet.read_table(self.root / "p.parquet")
        self.assertEqual(several.column("id").to_pylist(), ["000", "001", "002", "003"])
        self.assertEqual(several.column("text").to_pylist(), TEXTS)
        self.assertEqual(several.schema.field("labels").type, pyarrow.list_(pyarrow.utf8()))


if __name__ == "__main__":
    cl.main()
