#!/usr/bin/env python3
"""Compares `lathe tokenize` with Python's tokenizer, live, on texts of your own.

    compare_tokenizers.py MODEL_DIR [--lathe build/lathe] [--max_length N] [--crate] [file ...]

Every line of the files (standard input without any) is a text; a tab makes it a pair.  The opponent is transformers'
AutoTokenizer, or with --crate (or where transformers is missing) `tokenizers` on tokenizer.json.  Exit code 0: all
equal; 1: a difference, which is printed; 77: `lathe tokenize` is not there.

Needs of the command: `lathe tokenize MODEL_DIR --file F [--max_length N]` prints one JSON object a line, with ids,
type_ids, offsets and word_ids.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def backend(folder, crate):
    if not crate:
        try:
            from transformers import AutoTokenizer

            return AutoTokenizer.from_pretrained(folder).backend_tokenizer
        except ImportError:
            pass
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(pathlib.Path(folder) / "tokenizer.json"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("files", nargs="*")
    parser.add_argument("--lathe", default=str(ROOT / "build/lathe"))
    parser.add_argument("--max_length", type=int)
    parser.add_argument("--crate", action="store_true")
    args = parser.parse_intermixed_args()

    texts = [pathlib.Path(f).read_bytes() for f in args.files] or [sys.stdin.buffer.read()]
    lines = [line for text in texts for line in text.decode("utf-8", "replace").split("\n")]
    lines = [line.rstrip("\r") for line in lines if line.strip()]
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", newline="\n") as file:
        file.write("".join(line + "\n" for line in lines))
        file.flush()
        command = [args.lathe, "tokenize", args.folder, "--file", file.name]
        command += ["--max_length", str(args.max_length)] if args.max_length else []
        try:
            done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8")
        except FileNotFoundError:
            print(f"{args.lathe}: not there; build it or name it with --lathe")
            return 77
    if done.returncode != 0:
        print(done.stderr)
        return 77 if "tokenize" in done.stderr and done.returncode == 2 else 1
    found = [json.loads(line) for line in done.stdout.splitlines()]
    tokenizer = backend(args.folder, args.crate)
    tokenizer.no_padding()
    tokenizer.no_truncation()
    if args.max_length:
        tokenizer.enable_truncation(args.max_length)
    if len(found) != len(lines):
        print(f"{len(lines)} texts, {len(found)} results")
        return 1
    different = 0
    for line, ours in zip(lines, found):
        theirs = tokenizer.encode(*line.split("\t")[:2])
        words = [-1 if word is None else word for word in theirs.word_ids]
        wanted = {"ids": theirs.ids, "type_ids": theirs.type_ids, "offsets": [list(o) for o in theirs.offsets], "word_ids": words}
        for key, value in wanted.items():
            if ours[key] != value:
                different += 1
                print(f"{key} of {line!r}:\n  lathe        {ours[key]}\n  Hugging Face {value}")
                break
    print(f"{len(lines)} texts, {sum(len(o['ids']) for o in found)} tokens, {different} different")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
