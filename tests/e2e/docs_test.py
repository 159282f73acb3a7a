#!/usr/bin/env python3
"""The docs: their shell and Python blocks run as they stand, what they name is there, the site's links lead somewhere, and
nothing on it comes from elsewhere."""
import html.parser
import os
import pathlib
import re
import shutil
import sys
import tempfile
import unittest

import command_line as cl

BUILD = pathlib.Path(os.environ.get("LATHE_BINARY_DIR", cl.ROOT / "build"))
try:
    import markdown_it
except ImportError:
    markdown_it = None


def blocks(page, language):
    text = (cl.ROOT / "docs" / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


class Blocks(unittest.TestCase):
    """Each page in a folder of its own with `lathe` on the path. Its models are tiny ones there, and MRPC has 40 rows."""

    # Page: the pages that make what it uses, and what its commands say or write into a file.
    PAGES = {
        "quick_start": ((), ('"label": "good"', "going on from again/checkpoint-2")),
        "from_run_glue": ((), ("eval_f1",)),
        "tickets": ((), ("labels: billing 11, bug 11, how-to 10", "T-2046,Bill,", "max_train_samples")),
        "train": ((), ("eval_f1",)),
        "own_data": ((), ("eval_accuracy",)),
        "evaluate": (("train",), ("eval_int8_change_accuracy",)),
        "predict": (("own_data", "quick_start", "train"), ("index\tprediction",)),
        "ner": ((), ("tags: B-LOC 3", "next: lathe predict names", '"entities": [')),
        "mlm": ((), ("6 training samples", "next: lathe predict words", '"fills": [', "a new model, bert with 2 layers of 64")),
        "clm": ((), ("7 training samples, 112 tokens, 16 each", "perplexity", "adapter")),
        "swag": ((), ("6 training rows, 3 endings each", "next: lathe predict chooser", '"probabilities": [')),
        "embed": ((), ("6 training rows of 2 texts", "next: lathe encode embedder", "eval_cosine_ndcg@10")),
        "reranking": ((), ("8 training rows; labels: 0 4, 1 4", "eval_ndcg@10", "next: lathe predict ranker", "ranking, scores in ranked.tsv")),
        "encode": ((), ("no modules.json", '"text": "A new bank", "embedding": [', "4 texts, ")),
        "resume": ((), ("going on from long/checkpoint-2",)),
        "report": ((), ("report: seen/report.html",)),
        "memory": ((), ("train_loss",)),
        "devices": ((), ("train_loss",)),
        "commands": ((), ('"task_name": "mrpc"',)),
    }

    @classmethod
    def setUpClass(cls):
        temp = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temp.cleanup)
        cls.temp = pathlib.Path(temp.name)
        cls.folders = {}
        mrpc = cls.temp / "data" / "glue" / "MRPC"
        mrpc.mkdir(parents=True)
        rows = "".join(f"{i % 2}\t{i}\t{i}\tthe old bridge {i}\tthe bridge is old\n" for i in range(40))
        for split in ("train", "dev", "test"):
            (mrpc / f"{split}.tsv").write_text("Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n" + rows, encoding="utf-8")
        cls.environment = dict(os.environ, PATH=f"{BUILD}:{os.environ['PATH']}", LATHE_DATA_DIR=str(mrpc.parents[1]),
                               PYTHONPATH=str(BUILD / "python"), HF_HUB_OFFLINE="1")

    def run_page(self, page, after, language, command):
        """What all blocks of a page say, run in a folder with the models and with all that the pages before it made."""
        found = blocks(f"{page}.md", language)
        self.assertTrue(found, page)
        folder = self.temp / page
        for model in ("bert-base-cased", "sentence-transformers/all-MiniLM-L6-v2"):  # as the Hub has them: no classifier
            shutil.copytree(cl.MODEL.parent / "masked_lm", folder / model)
        shutil.copytree(cl.ROOT / "tests" / "golden" / "clm" / "llama", folder / "HuggingFaceTB" / "SmolLM2-135M")
        for other in after:
            shutil.copytree(self.folders[other], folder, dirs_exist_ok=True)
        result = cl.run([*command, "\n".join(found)], cwd=folder, env=self.environment)
        self.assertEqual(result.returncode, 0, f"{page}\n{result.stdout[-3000:]}{result.stderr[-3000:]}")
        self.folders[page] = folder
        return result.stdout + result.stderr

    def test_shell(self):
        for page, (after, says) in self.PAGES.items():
            with self.subTest(page):
                said = self.run_page(page, after, "sh", ["bash", "-euc"])
                for part in says:
                    self.assertIn(part, said)

    def test_every_page_with_shell_is_run(self):
        pages = {path.stem for path in (cl.ROOT / "docs").glob("*.md") if blocks(path.name, "sh")}
        self.assertEqual(pages, set(self.PAGES))

    def test_python(self):
        if not list((BUILD / "python" / "lathe").glob("_lathe.*")):
            self.skipTest("the Python package was not built")
        self.assertIn("'score': ", self.run_page("python", (), "python", [sys.executable, "-c"]))


class Names(unittest.TestCase):
    """What README.md, CONTRIBUTING.md and the docs write in code is there by that name; a script makes the page of figures."""

    FOREIGN = {"--no-python", "--rdzv_id", "--over", "--backend"}  # of torchrun, and of MLX's launcher
    PLACEHOLDERS = re.compile(r"foo|KIND|NAME")

    @classmethod
    def setUpClass(cls):
        pages = [cl.ROOT / "README.md", cl.ROOT / "CONTRIBUTING.md",
                 *(page for page in (cl.ROOT / "docs").glob("*.md") if page.name != "RESULTS.md")]
        cls.texts = {page: page.read_text(encoding="utf-8") for page in pages}
        files = [path for top in ("lathe", "python", "tests", "tools", "bench", "cmake", "packaging")
                 for path in (cl.ROOT / top).rglob("*")
                 if path.is_file() and path.suffix in (".cc", ".h", ".cu", ".metal", ".py", ".sh", ".cmake", ".txt", "")
                 and "golden" not in path.parts and "fuzz" not in path.parts and path.name != "docs_test.py"]
        cls.files = {path.name for path in files}
        cls.source = "\n".join(path.read_text(encoding="utf-8", errors="replace") for path in files)

    def in_code(self, pattern):
        """(page, what of its code matches)"""
        for page, text in self.texts.items():
            spans = re.findall(r"^```.*?\n(.*?)^```$|`([^`\n]+)`", text, re.MULTILINE | re.DOTALL)
            for found in sorted({name for span in spans for name in re.findall(pattern, "".join(span))}):
                if not self.PLACEHOLDERS.search(found):
                    yield page.name, found

    def test_files(self):
        tops = "lathe|docs|tools|tests|bench|examples|packaging|python|cmake"
        for page, path in self.in_code(rf"(?<![\w/.~$-])(?:{tops})/[\w./*-]+"):
            roots = (cl.ROOT, cl.ROOT / "python")  # the Python package is lathe, too
            self.assertTrue(any(list(root.glob(path.rstrip("/."))) for root in roots), f"{page}: {path}")
        for page, text in self.texts.items():
            for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
                self.assertTrue((page.parent / link).exists(), f"{page.name}: {link}")

    def test_tests(self):
        for page, name in self.in_code(r"(?<!-)\b[a-z]\w*_test\b"):
            self.assertTrue({f"{name}.cc", f"{name}.py"} & self.files, f"{page}: {name}")
        tests = set(re.findall(r"^TEST(?:_F)?\((\w+), (\w+)\)", self.source, re.MULTILINE))
        for page, name in self.in_code(r"^[A-Z]\w+\.[A-Z]\w+$"):
            self.assertTrue(tuple(name.split(".")) in tests, f"{page}: {name}")
        for page, suite in self.in_code(r"-R unit\.(\w+)"):
            self.assertTrue(suite in dict(tests), f"{page}: {suite}")

    def test_flags_variables_and_targets(self):
        said = self.source + cl.run([cl.program(), "completion", "bash"]).stdout + "".join(
            cl.run([cl.program(), command, "--help", "all"]).stdout for command in ("glue", "qa", "ner", "mlm", "clm", "swag", "embed", "rerank"))
        makefile = (cl.ROOT / "Makefile").read_text(encoding="utf-8")
        flag = r"(?<![\w-])--[a-z][\w-]*"
        for pattern, known in ((flag, self.FOREIGN | set(re.findall(flag, said))),
                               (r"\b(?:LATHE|HF|PYTORCH|TRANSFORMERS)(?:_[A-Z]+)+\b",
                                set(re.findall(r"[A-Z]+(?:_[A-Z]+)+", said))),
                               (r"^make ([a-z-]+)", set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE)))):
            for page, name in self.in_code(pattern):
                self.assertTrue(name in known, f"{page}: {name}")


def make_site(folder):
    made = cl.run([sys.executable, str(cl.ROOT / "tools" / "make_docs.py"), str(folder)])
    assert made.returncode == 0, made.stdout + made.stderr


class Page(html.parser.HTMLParser):
    """What a page refers to, and the anchors that it has."""

    def __init__(self, text):
        super().__init__()
        self.links, self.anchors, self.loaded = [], set(), []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.anchors.add(values.get("id"))
        if tag == "a":
            self.links.append(values["href"])
        self.loaded += [values[key] for key in ("src", "srcset", "href") if key in values and tag != "a"]


@unittest.skipIf(markdown_it is None, "needs the wheel markdown-it-py (tools/setup.sh --test)")
class Site(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temp = tempfile.TemporaryDirectory()
        cls.site = pathlib.Path(cls.temp.name)
        make_site(cls.site)
        cls.pages = {path.name: Page(path.read_text(encoding="utf-8")) for path in cls.site.glob("*.html")}

    @classmethod
    def tearDownClass(cls):
        cls.temp.cleanup()

    def test_links_lead_somewhere_and_nothing_is_loaded(self):
        for name, page in self.pages.items():
            self.assertEqual([address[:40] for address in page.loaded if not address.startswith("data:")], [], name)
            for link in page.links:
                path, _, anchor = link.partition("#")
                if not path.startswith("http"):
                    self.assertIn(path or name, self.pages, f"{name}: {link}")
                    self.assertTrue(not anchor or anchor in self.pages[path or name].anchors, f"{name}: {link}")

    def test_every_flag_is_there(self):
        text = (self.site / "flags.html").read_text(encoding="utf-8")
        for flag in ("--learning_rate", "--doc_stride", "--task_name", "--ddp_backend"):
            self.assertIn(f'<code class="flag">{flag}</code>', text)
        self.assertEqual(text.count("<h1"), 1, "one table, once")

    def test_tables_are_whole(self):
        for path in self.site.glob("*.html"):
            self.assertNotIn("<p>|", path.read_text(encoding="utf-8"), path.name)


if __name__ == "__main__":
    cl.on_one_core()
    cl.main()
