"""Instructions that not every machine has stay within lathe/backends/cpu/isa: a Release build is looked at."""
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = pathlib.Path(os.environ.get("LATHE_BINARY_DIR", ROOT / "build"))
KERNELS = "lathe/backends/cpu/isa/"
# -march=native, -mavx2, -mfma, …; not what says nothing of instructions, as -m64 and -mmacosx-version-min do.
FLAG = re.compile(r"-m(arch|cpu|tune|avx|fma|f16c|amx|sse|bmi|x86-64)")


def cached(name):
    line = re.search(rf"^{name}:\w+=(.*)$", (BUILD / "CMakeCache.txt").read_text(encoding="utf-8"), re.MULTILINE)
    return line.group(1) if line else ""


def leaking_flags(words):
    return [word for word in words if FLAG.match(word)]


def shared_symbols(nm_text):
    """Of `nm`: those of which a linker keeps one of many, whichever object it comes from."""
    return [line for line in nm_text.splitlines() if re.match(r"[0-9a-f]+ [WVu] ", line)]


class InstructionSets(unittest.TestCase):
    def setUp(self):
        commands = BUILD / "compile_commands.json"
        if not commands.exists() or cached("CMAKE_BUILD_TYPE") != "Release":
            self.skipTest(f"{BUILD} is no Release build: what is not inlined there is shared")
        whole = cached("CMAKE_CXX_FLAGS")  # of a whole build: whoever gives them needs them
        self.commands = {}
        for entry in json.loads(commands.read_text(encoding="utf-8")):
            file = pathlib.Path(entry["file"])
            if ROOT in file.parents:
                words = shlex.split(entry["command"])
                self.commands[file.relative_to(ROOT).as_posix()] = [word for word in words if word not in whole.split()]

    def test_no_flag_outside_of_the_kernels(self):
        self.assertTrue([file for file, words in self.commands.items() if file.startswith(KERNELS) and leaking_flags(words)])
        for file, words in self.commands.items():
            if not file.startswith(KERNELS) or file.endswith("_portable.cc"):
                self.assertEqual(leaking_flags(words), [], file)

    def test_kernels_share_no_inline_code(self):
        nm, seen = shutil.which(cached("CMAKE_NM")), 0
        if nm is None:
            self.skipTest(f"CMake found no nm for {BUILD}")
        for file, words in self.commands.items():
            object_file = BUILD / words[words.index("-o") + 1]
            if not file.startswith(KERNELS) or not object_file.exists():
                continue
            seen += 1
            text = subprocess.run([nm, "-C", str(object_file)], capture_output=True, text=True,
                                  timeout=60, check=True).stdout
            self.assertEqual(shared_symbols(text), [],
                             f"{file}: the linker may keep this code for all of the program; move it into an unnamed namespace")
        self.assertGreater(seen, 0)

    def test_what_is_found(self):
        self.assertEqual(leaking_flags(["-O3", "-march=native", "-mavx2", "-m64", "-Wall"]), ["-march=native", "-mavx2"])
        self.assertEqual(shared_symbols("0000 W std::max\n     U memcpy\n     w weak\n0010 t own\n0020 u one\n0000 D kRows"),
                         ["0000 W std::max", "0020 u one"])


if __name__ == "__main__":
    result = unittest.main(exit=False).result
    sys.exit(1 if not result.wasSuccessful() else 77 if result.skipped else 0)
