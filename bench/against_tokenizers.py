#!/usr/bin/env python3
"""Encoding texts on one thread, by Lathe and by the `tokenizers` package, in turns; prints a line per tokenizer and text.

    against_tokenizers.py TOKENIZER_BENCH [rounds, default 5] [data folder, default ../shared/data]

WordPiece has BERT's vocabulary, BPE RoBERTa's; Unigram 30,000 parts of the words of XQuAD and SQuAD, after a map of characters.
Each side's time is its fastest pass of three in a round; the ratio is the median over the rounds.
"""
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
bench, rounds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 5
ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.argv[1:] = sys.argv[3:]
sys.path.insert(0, str(ROOT / "tools"))
import make_byte_level_goldens as byte_level  # noqa: E402
import make_tokenizer_goldens as word_piece  # noqa: E402
import make_unigram_goldens as unigram  # noqa: E402

DATA = word_piece.DATA
PASSES = 3


def squad(name):
    return [p["context"].replace("\n", " ") for a in json.loads((DATA / name).read_text("utf-8"))["data"] for p in a["paragraphs"]]


def tokenizers():
    n, p = unigram.normalizers, unigram.pre_tokenizers
    unigram.texts = lambda: squad("squad/dev-v1.1-a.json") + [t for x in "en de vi ru zh".split() for t in squad(f"xquad/xquad.{x}-a.json")]
    yield "WordPiece", word_piece.bert(word_piece.read_vocab("bert-base-uncased"))
    yield "BPE", byte_level.real_tokenizers()["roberta-base"][0]
    yield "Unigram", unigram.assembled(unigram.vocabulary(30000), n.Precompiled(unigram.nmt_nfkc()),
                                       p.Sequence([p.WhitespaceSplit(), p.Metaspace()]))


def main():
    mrpc = [field for line in (DATA / "glue/MRPC/train.tsv").read_text("utf-8").split("\n")[1:] for field in line.split("\t")[3:]]
    texts = {"MRPC": mrpc, "SQuAD": squad("squad/dev-v1.1-a.json"),
             "XQuAD": [t for x in "de el en hi ru vi zh".split() for t in squad(f"xquad/xquad.{x}-a.json")]}
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, tokenizer in tokenizers():
            (root / name).mkdir()
            tokenizer.save(str(root / name / "tokenizer.json"))
            for title, lines in texts.items():
                (root / "texts").write_text("\n".join(lines) + "\n", encoding="utf-8")
                ratios, seconds = [], []
                for _ in range(rounds):
                    ours = json.loads(subprocess.run([bench, root / name, root / "texts", str(PASSES)], check=True,
                                                     capture_output=True, text=True).stdout)
                    theirs, tokens = float("inf"), 0
                    for _ in range(PASSES):
                        begin = time.perf_counter()
                        tokens = sum(len(tokenizer.encode(line).ids) for line in lines)
                        theirs = min(theirs, time.perf_counter() - begin)
                    assert tokens == ours["tokens"], (tokens, ours)
                    ratios.append(theirs / ours["seconds"])
                    seconds.append(ours["seconds"])
                print(f"{name:9} {title:5} {len(lines):6} texts {tokens:8} tokens  {tokens / min(seconds) / 1e6:6.2f} M tokens/s  "
                      f"{statistics.median(ratios):5.2f} x  ({min(ratios):.2f} to {max(ratios):.2f})", flush=True)


if __name__ == "__main__":
    main()
