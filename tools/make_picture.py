#!/usr/bin/env python3
"""make_picture.py [--check]: docs/images/terminal_*.svg, a terminal, from the lines of docs/images/terminal.txt.

The text is what a terminal showed, with … where lines are left out; a line that begins with `$ ` (and `> ` after it) was
typed. --check writes nothing and
fails where a picture is older than the text. Standard library only."""
import argparse
import html
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
TEXT = ROOT / "docs" / "images" / "terminal.txt"
COLOURS = {"light": dict(ink="#1c2127", typed="#0b57a4", paper="#f4f5f7", line="#d9dde3"),
           "dark": dict(ink="#dfe3e8", typed="#7cb7f2", paper="#15181c", line="#38404a")}
CHARACTER, LINE, MARGIN, TOP = 7.83, 19, 18, 44   # of a monospaced font of 13 pixels


def picture(text, colours):
    lines = text.rstrip("\n").split("\n")
    width = max(map(len, lines)) * CHARACTER + 2 * MARGIN
    height = TOP + len(lines) * LINE + MARGIN / 2
    rows = "\n".join(
        f'<text x="{MARGIN}" y="{TOP + LINE * number + 14}"{" class=" + chr(34) + "typed" + chr(34) if line[:2] in ("$ ", "> ") else ""}'
        f' xml:space="preserve" textLength="{len(line) * CHARACTER:.1f}">{html.escape(line)}</text>'
        for number, line in enumerate(lines) if line)
    dots = "".join(f'<circle cx="{MARGIN + 4 + 18 * i}" cy="20" r="5.5"/>' for i in range(3))
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" role="img" '
            f'aria-label="A fine-tuning in a terminal">\n'
            f"<style>text {{ font: 13px ui-monospace, monospace; fill: {colours['ink']} }} "
            f".typed {{ fill: {colours['typed']}; font-weight: 600 }} circle {{ fill: {colours['line']} }}</style>\n"
            f'<rect width="{width:.0f}" height="{height:.0f}" rx="8" fill="{colours["paper"]}"/>\n{dots}\n{rows}\n</svg>\n')


def made():
    """Path → text of each picture."""
    text = TEXT.read_text(encoding="utf-8")
    return {TEXT.with_name(f"terminal_{theme}.svg"): picture(text, colours) for theme, colours in COLOURS.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    old = 0
    for path, text in made().items():
        if not check:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            print(f"{path.relative_to(ROOT)} is older than terminal.txt: run tools/make_picture.py", file=sys.stderr)
            old = 1
    return old


if __name__ == "__main__":
    sys.exit(main())
