#!/usr/bin/env python3
"""`lathe encode` next to SentenceTransformer.encode, on the same texts and machine, in turns.

    encode_against_sentence_transformers.py --model DIR --file TEXTS [--lathe build/lathe] [--device cpu|cuda]
                                            [--dtype fp32|bf16] [--rounds 3] [--limit N] [--machine NAME --commit HASH --note TEXT]

TEXTS has one text on every line. The other side is what users run: SentenceTransformer(model).encode(texts) with its
defaults (batches of 32, sorted by length), in bf16 with torch_dtype; its time is that of the call, Lathe's that of the
whole command, from the start of the process to the file on the disk. A line of JSON, as in bench/results.
"""
import argparse
import datetime
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--file", required=True)
    parser.add_argument("--lathe", default="build/lathe")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limit", type=int)
    for name in ("machine", "commit", "note"):
        parser.add_argument("--" + name, default="")
    options = parser.parse_args()
    import numpy
    import sentence_transformers
    import torch

    texts = pathlib.Path(options.file).read_text(encoding="utf-8").splitlines()[:options.limit]
    keywords = {"model_kwargs": {"torch_dtype": torch.bfloat16}} if options.dtype == "bf16" else {}
    peer = sentence_transformers.SentenceTransformer(options.model, device=options.device, **keywords)
    peer.encode(texts[:64])
    times = {"lathe": [], "sentence_transformers": []}
    with tempfile.TemporaryDirectory() as folder:
        source, vectors = pathlib.Path(folder) / "texts.txt", pathlib.Path(folder) / "vectors.npy"
        source.write_text("".join(text + "\n" for text in texts), encoding="utf-8")
        command = [options.lathe, "encode", options.model, "--file", source, "--output", vectors, "--device", options.device]
        for _ in range(options.rounds):
            began = time.perf_counter()
            subprocess.run([str(part) for part in command] + (["--bf16"] if options.dtype == "bf16" else []), check=True,
                           capture_output=True)
            times["lathe"].append(time.perf_counter() - began)
            began = time.perf_counter()
            theirs = peer.encode(texts)
            times["sentence_transformers"].append(time.perf_counter() - began)
            print({side: round(each[-1], 2) for side, each in times.items()}, file=sys.stderr, flush=True)
        mine = numpy.load(vectors)
    theirs = numpy.asarray(theirs, dtype=numpy.float32)
    cosine = (mine * theirs).sum(1) / numpy.linalg.norm(mine, axis=1) / numpy.linalg.norm(theirs, axis=1)
    ratios = [b / a for a, b in zip(times["lathe"], times["sentence_transformers"])]
    rate = {side: round(len(texts) / statistics.median(each), 1) for side, each in times.items()}
    print(json.dumps({
        "subject": "against", "case": "next to sentence-transformers, texts of real lengths",
        "variant": f"encode, MiniLM, {options.dtype}",
        "machine": options.machine, "commit": options.commit, "date": datetime.date.today().isoformat(),
        "command": f"bench/encode_against_sentence_transformers.py --device {options.device} --dtype {options.dtype} "
                   f"--rounds {options.rounds}",
        "opponent": f"sentence-transformers {sentence_transformers.__version__}, PyTorch {torch.__version__}, "
                    f"{torch.get_num_threads()} threads",
        "lathe_per_s": rate["lathe"], "torch_per_s": rate["sentence_transformers"],
        "ratio": round(statistics.median(ratios), 2), "ratio_low": round(min(ratios), 2), "ratio_high": round(max(ratios), 2),
        "note": f"{len(texts):,} texts{options.note}; least cosine of the two vectors of a text {cosine.min():.6f}."}))


if __name__ == "__main__":
    main()
