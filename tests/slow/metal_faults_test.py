#!/usr/bin/env python3
"""Faults planted in the texts of own Metal kernels, one at a time and by rule, and how many of them the tests catch:
barriers and collectives deleted, indices shifted, widths changed. Prints every fault that nothing notices."""
import argparse
import pathlib
import re
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "metal"))
import kernel_library as kernels

WANTED = .95
FIRST = {"attention": ("_8_", "lengths 3 1 5"), "attention_bwd": ("_8_", "lengths 3 1 5")}  # text and case that catch most
# Seconds of one core, many times what sound kernels take: some faults are loops without an end.
LIMIT_CASE, LIMIT_OP, LIMIT_SANITIZED = 5, 30, 200
FOLDER = kernels.ROOT / "lathe/backends/mlx/metal"
OPS = {"dropout_add_layer_norm": "dropout_add_layer_norm", "layer_norm_dropout_bwd": "layer_norm_dropout_bwd",
       "sum_parts": "layer_norm_dropout_bwd", "common": "dropout_add_layer_norm", "attention_block": "attention",
       "attention_forward": "attention", "attention_dq": "attention_bwd", "attention_dkv": "attention_bwd"}
KERNELS = {"dropout_add_layer_norm": ["dropout_add_layer_norm"], "layer_norm_dropout_bwd": ["layer_norm_dropout_bwd", "sum_parts"],
           "attention": ["attention"], "attention_bwd": ["attention_dq", "attention_dkv"]}
WIDTHS = r"\b(?:kLanes|kRun|kBlock|kBlockThreads|kSide|K|rows|cols|columns|width|stride|parts|runs|simdgroups_per_threadgroup)\b|(?<![\w.\[])\d+(?:u|\.0f)?\b(?![\w.])|\b0x[0-9A-F]+u"


def text_of(kernel):
    text = (FOLDER / f"{kernel}.metal").read_text()
    return text[len('R"metal('):text.rindex(')metal"')]


def code_spans(text):
    """The place of a line's code, without comments."""
    at = 0
    for line in text.splitlines(keepends=True):
        yield at, at + len(line.split("//")[0])
        at += len(line)


def closing(text, at):
    """The bracket that closes the one at `at`."""
    depth = 0
    for k in range(at, len(text)):
        depth += {"[": 1, "(": 1, "]": -1, ")": -1}.get(text[k], 0)
        if depth == 0:
            return k
    raise ValueError(text[at:])


def is_declaration(text, at):
    """Whether the bracket at `at` holds the size of an array that is declared here: one too large is no fault."""
    line = text[text.rfind("\n", 0, at) + 1:at]
    return re.search(r"\b(?:float|uint|simdgroup_float8x8)(?: \w+(?:\[[^\]]*\])?,)* \w+$", line) is not None


def faults(text):
    """(rule, offset, end, replacement)"""
    for begin, end in code_spans(text):
        for m in re.finditer(r"threadgroup_barrier\([^)]*\);", text[begin:end]):
            yield "no barrier", begin + m.start(), begin + m.end(), ""
        for m in re.finditer(r"simd_sum|simd_shuffle_xor", text[begin:end]):
            yield "no collective", begin + m.start(), begin + m.end(), ""
        for m in re.finditer(r"simdgroup_(?:load|store|multiply|multiply_accumulate)\(.*\);", text[begin:end]):
            yield "no matrix", begin + m.start(), begin + m.end(), ""
        for m in re.finditer(r"\w\[", text[begin:end]):
            at = begin + m.end() - 1
            close = closing(text, at)
            inside = text[at + 1:close]
            if is_declaration(text, at):
                yield "array one smaller", at + 1, close, f"({inside}) - 1"
            else:
                yield "index + 1", at + 1, close, f"({inside}) + 1"
                yield "index - 1", at + 1, close, f"({inside}) - 1"
        for m in re.finditer(WIDTHS, text[begin:end]):
            at = begin + m.start()
            before = text[text.rfind("\n", 0, at) + 1:at]
            named = re.search(r"\b(?:const uint|uint|, )\s*$", before) and re.match(r"\w+\s*=", text[at:])
            if named or any(o < at < closing(text, o) and is_declaration(text, o)
                            for o in (k.start() for k in re.finditer(r"(?<=\w)\[", text[:at]))):
                continue
            yield "width + 1", at, begin + m.end(), f"({m[0]} + 1)"


class Hunt:
    def __init__(self, folder):
        self.folder = folder
        self.names = [n for n in kernels.write_texts(folder) if "__float_" in n or "sum_parts" in n]
        self.texts = {n: (folder / f"{n}.metal").read_text() for n in self.names}

    def caught_by(self, kernel, mutated):
        """What notices the fault; None if nothing does."""
        op = OPS[kernel]
        names = [n for n in self.names if any(f"kernel_{k}_" in n for k in KERNELS[op])]
        original = text_of(kernel)
        for name in names:
            (self.folder / f"{name}.metal").write_text(self.texts[name].replace(original, mutated))
        library = self.folder / "fault.so"
        if op in FIRST:
            part, case = FIRST[op]
            if kernels.build(self.folder, [n for n in names if part in n], library):
                return "compiler"
            if not kernels.test(library, 0, "f32", op, case, cpu_seconds=LIMIT_CASE)[0]:
                return "order 0"
        if kernels.build(self.folder, names, library):
            return "compiler"
        for order in (0, 1):
            if not kernels.test(library, order, "f32", op, cpu_seconds=LIMIT_OP)[0]:
                return f"order {order}"
        if kernels.build(self.folder, names, library, sanitize=True):
            return "compiler"
        return None if kernels.test(library, 0, "f32", op, sanitize=True, cpu_seconds=LIMIT_SANITIZED)[0] else "ThreadSanitizer"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=1, metavar="N", help="plant only every Nth fault")
    parser.add_argument("--first", type=int, default=0, metavar="K", help="with --every: from the Kth on, so that K from 0 to "
                        "N - 1 are all of them")
    parser.add_argument("kernel", nargs="*", default=list(OPS))
    args = parser.parse_args()
    counts, missed, planted = {}, [], 0
    with tempfile.TemporaryDirectory() as temp:
        hunt = Hunt(pathlib.Path(temp))
        for kernel in args.kernel:
            text = text_of(kernel)
            for rule, begin, end, replacement in list(faults(text))[args.first::args.every]:
                planted += 1
                by = hunt.caught_by(kernel, text[:begin] + replacement + text[end:])
                counts[by] = counts.get(by, 0) + 1
                if by is None:
                    line = text.count("\n", 0, begin) + 1
                    missed.append(f"{kernel}.metal:{line}: {rule}: {text[begin:end]!r} in {text.splitlines()[line - 1].strip()!r}")
                    print("missed", missed[-1], flush=True)
    print(f"{planted} faults planted, {planted - len(missed)} caught ({1 - len(missed) / planted:.1%}):",
          ", ".join(f"{n} by {by}" for by, n in sorted(counts.items(), key=str) if by))
    return 0 if 1 - len(missed) / planted >= WANTED else 1


if __name__ == "__main__":
    why = kernels.missing()
    if why:
        print("skipped:", why)
        sys.exit(77)
    sys.exit(main())
