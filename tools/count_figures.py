#!/usr/bin/env python3
"""count_figures.py [--limit PERCENT]: which share of the words of README.md and docs/*.md stands in measurements.

A measurement is a table, a paragraph or an item of a list with three figures or more. A figure is a number in the text;
numbers in code, links and names (bf16, H200, transformers 5.23) are none. docs/arguments.md and docs/limits.md are left
out: the numbers there are defaults and limits, which is what these pages are for. Prints each page with its words and measurements; with --limit it fails above that
share."""
import argparse
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
LEFT_OUT = {"arguments.md", "limits.md"}
NO_TEXT = re.compile(r"^```.*?^```$|^<.*?>$|`[^`\n]*`|\]\([^)]*\)", re.MULTILINE | re.DOTALL)
VERSION = re.compile(r"\b(?:[Vv]ersion|transformers|torch|PyTorch|MLX|tokenizers|macOS|Debian|Ubuntu|CUDA|Python|clang|g\+\+|C\+\+)[ -]\d[\d.]*")
FIGURE = re.compile(r"(?<![\w.,/#-])(?:\d[\d,]*(?:\.\d+)?|\.\d+)(?:e-?\d+)?(?!\w|\.\d)")
ITEM = re.compile(r"^(?:[-*]|\d+\.) ", re.MULTILINE)
LIMIT_OF_FIGURES = 3


def blocks(text):
    """Paragraphs and tables, each item of a list on its own."""
    for block in re.split(r"\n\s*\n", NO_TEXT.sub(" ", text)):
        if block.lstrip().startswith("|"):
            yield block
        else:
            starts = [match.start() for match in ITEM.finditer(block)]
            for begin, end in zip([0, *starts], [*starts, len(block)]):
                yield block[begin:end]


def count(text):
    """Words of a page, and those of them that stand in measurements."""
    words = measured = 0
    for block in blocks(text):
        here = len(re.findall(r"[^\s|]*\w[^\s|]*", block))
        words += here
        if len(FIGURE.findall(VERSION.sub("", block))) >= LIMIT_OF_FIGURES:
            measured += here
    return words, measured


def pages(root=ROOT):
    return [root / "README.md", *(page for page in sorted((root / "docs").glob("*.md")) if page.name not in LEFT_OUT)]


def share(root=ROOT):
    """Of all pages together, in percent."""
    counts = [count(page.read_text(encoding="utf-8")) for page in pages(root)]
    return 100 * sum(measured for _, measured in counts) / max(1, sum(words for words, _ in counts))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--limit", type=float)
    parser.add_argument("--root", type=pathlib.Path, default=ROOT)
    arguments = parser.parse_args()
    for page in pages(arguments.root):
        words, measured = count(page.read_text(encoding="utf-8"))
        print(f"{page.relative_to(arguments.root)}: {measured} of {words} words")
    found = share(arguments.root)
    print(f"{found:.1f} % of the words are measurements")
    return 1 if arguments.limit is not None and found > arguments.limit else 0


if __name__ == "__main__":
    sys.exit(main())
