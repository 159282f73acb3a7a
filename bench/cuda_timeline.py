#!/usr/bin/env python3
"""When each kernel of a program's last run of a graph ran on the GPU, in microseconds, and what all of a name took together.

    bench/cuda_timeline.py LIBRARY COMMAND...

    ninja -C build/release cuda_timeline
    bench/cuda_timeline.py build/release/libcuda_timeline.so build/release/lathe bench step --device cuda --dtype bf16 --steps 6

A kernel that is launched ahead begins to wait before the one in front ends, so times overlap, and waiting counts. A run
begins where its inputs are spread, by the first kernel of that name."""
import collections
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

FIRST = "scatter_kernel"  # lathe/backends/cuda/kernels/transfer.cu


def short(name):
    """Without namespaces and parameters."""
    name = re.sub(r"\(anonymous namespace\)::|lathe::cuda::|lathe::|^void ", "", name)
    return re.sub(r"\(.*$", "", name)


def last_run(path):
    """(begin, end, stream, blocks, threads, name) of the last run's kernels, in order of their beginning."""
    rows = [line.split("\t") for line in pathlib.Path(path).read_text().splitlines()]
    for number, row in enumerate(rows, 1):
        if len(row) != 6:
            sys.exit(f"cuda_timeline: {path}: line {number} has {len(row)} fields, expected 6: the disk may be full")
    names = sorted({row[5] for row in rows})
    plain = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True).stdout
    of = dict(zip(names, map(short, plain.splitlines())))
    kernels = sorted((*map(int, row[:5]), of[row[5]]) for row in rows)
    begins = [i for i, k in enumerate(kernels) if k[5].startswith(FIRST) and not kernels[i - 1][5].startswith(FIRST)]
    return kernels[begins[-1]:] if begins else kernels


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    if not pathlib.Path(sys.argv[1]).is_file():
        sys.exit(f"cuda_timeline: {sys.argv[1]} is not there; ninja -C build/release cuda_timeline builds it")
    for tool in (sys.argv[2], "c++filt"):
        if shutil.which(tool) is None:
            sys.exit(f"cuda_timeline: {tool} is no program that can be run")
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "timeline"
        environment = {**os.environ, "CUDA_INJECTION64_PATH": str(pathlib.Path(sys.argv[1]).resolve()),
                       "LATHE_TIMELINE": str(path)}
        code = subprocess.run(sys.argv[2:], env=environment).returncode
        if code != 0:
            sys.exit(code)
        if not path.exists() or path.stat().st_size == 0:
            sys.exit(f"cuda_timeline: {sys.argv[2]} ran no kernel, or the driver did not load {sys.argv[1]}")
        run = last_run(path)
    start = run[0][0]
    print("    begin       end      took  stream  blocks  threads  kernel")
    for begin, end, stream, blocks, threads, name in run:
        print(f"{(begin - start) / 1e3:9.1f} {(end - start) / 1e3:9.1f} {(end - begin) / 1e3:9.1f} {stream:7} {blocks:7} "
              f"{threads:8}  {name}")
    total = collections.defaultdict(lambda: [0, 0])
    for begin, end, *_, name in run:
        total[name][0] += 1
        total[name][1] += end - begin
    print("\n     took  times      each  kernel")
    for name, (times, ns) in sorted(total.items(), key=lambda item: -item[1][1]):
        print(f"{ns / 1e3:9.1f} {times:6} {ns / 1e3 / times:9.1f}  {name}")


if __name__ == "__main__":
    main()
