#!/usr/bin/env python3
"""wrap_docs.py FILE...: breaks lines of Markdown that are longer than 120 characters.

A paragraph or item of a list with such a line is filled anew to 118. Tables, code and headings stay, and no code or link is
broken."""
import pathlib
import re
import sys
import textwrap

LIMIT, WIDTH = 120, 118
ITEM = re.compile(r"\s*(?:[-*]|\d+\.)\s+")


def stands(line):
    """Whether a line is no part of a paragraph or item."""
    return not line.strip() or line.startswith(("|", "#", "```")) or line.lstrip().startswith("<")


def filled(block):
    """The lines of one paragraph or item, filled."""
    bullet = ITEM.match(block[0])
    indent = bullet.group(0) if bullet else re.match(r"\s*", block[0]).group(0)
    text = " ".join([block[0][len(indent):].strip(), *(line.strip() for line in block[1:])])
    whole = re.sub(r"`[^`]*`|\]\([^)]*\)", lambda match: match.group(0).replace(" ", "\0"), text)
    lines = textwrap.wrap(whole, WIDTH, initial_indent=indent, subsequent_indent=" " * len(indent), break_long_words=False,
                          break_on_hyphens=False)
    return [line.replace("\0", " ") for line in lines]


def wrapped(text):
    made, block, code = [], [], False
    for line in [*text.split("\n"), "```"]:   # the last one ends a block
        if block and (stands(line) or ITEM.match(line)):
            made += filled(block) if max(map(len, block)) > LIMIT else block
            block = []
        if line.startswith("```"):
            code = not code
        if code or stands(line):
            made.append(line)
        else:
            block.append(line)
    return "\n".join(made[:-1])


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    for name in sys.argv[1:]:
        path = pathlib.Path(name)
        path.write_text(wrapped(path.read_text(encoding="utf-8")), encoding="utf-8")
