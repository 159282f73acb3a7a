#!/usr/bin/env python3
"""plant_faults.py [--build build/release] [--only PATTERN]: whether the tests find faults that are planted on purpose.

tests/planted_faults.jsonl holds one fault a line: `file`, the text `old` that stands there once, the text `new` in its
place, and `found_by`: a test program with its arguments, or a Python test with the names of its tests. For each
fault this changes the file, builds what the test needs, runs it and puts the file back. It fails where a test passes
all the same, or where a row no longer fits the code. Standard library only."""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
FAULTS = ROOT / "tests" / "planted_faults.jsonl"


def run(command, log, build=None):
    """The exit code; what the command prints goes to the end of `log`."""
    with open(log, "a", encoding="utf-8") as out:
        environment = None if build is None else {**os.environ, "LATHE_BINARY_DIR": str(build)}
        return subprocess.run(command, cwd=ROOT, stdout=out, stderr=out, env=environment, check=False).returncode


def targets_of(test):
    """What is built for a test: its program, or for Python tests the command line program."""
    return ["program_lathe"] if test[0].endswith(".py") else [test[0]]


def finds(test, build, log):
    """Whether the test fails. None: it cannot be built, which says nothing about the test."""
    if run(["cmake", "--build", str(build), "--target", *targets_of(test)], log) != 0:
        return None
    program = [str(ROOT / "tools" / "python.sh")] if test[0].endswith(".py") else []
    name = test[0] if test[0].endswith(".py") else str(build / test[0])
    return run([*program, name, *test[1:]], log, build) != 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--build", default="build/release", help="a configured folder with all tests")
    parser.add_argument("--only", default="", help="faults whose line this regular expression finds")
    options = parser.parse_args()
    build = (ROOT / options.build).resolve()
    log = build / "planted_faults.log"
    log.write_text("", encoding="utf-8")
    rows = [json.loads(line) for line in FAULTS.read_text(encoding="utf-8").splitlines()
            if re.search(options.only, line)]
    missed = 0
    for number, row in enumerate(rows, 1):
        path = ROOT / row["file"]
        right = path.read_text(encoding="utf-8")
        if right.count(row["old"]) != 1:
            verdict = f"NOT PLANTED: found {right.count(row['old'])} times, expected once: {row['old']!r}"
        else:
            began = time.monotonic()
            try:
                path.write_text(right.replace(row["old"], row["new"]), encoding="utf-8")
                found = finds(row["found_by"], build, log)
            finally:
                path.write_text(right, encoding="utf-8")
            verdict = {True: "found", False: "MISSED", None: "DOES NOT BUILD"}[found]
            verdict += f" by {' '.join(row['found_by'])} in {time.monotonic() - began:.0f} s"
        missed += not verdict.startswith("found")
        print(f"{number:3} of {len(rows)}  {row['file']}: {verdict}", flush=True)
    print(f"{len(rows) - missed} of {len(rows)} found; what was built and run: {log}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
