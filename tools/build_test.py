"""What keeps a build or a package from being made wrongly without a word."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[1]
# Not of the make that runs this.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name not in ("CUDA", "MLX", "MAKEFLAGS", "MAKELEVEL")}


def run(*command):
    """Exit code, and what was said in one line."""
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, env=ENVIRONMENT)
    return result.returncode, " ".join((result.stdout + result.stderr).split())


class Build(unittest.TestCase):
    def setUp(self):
        temp = tempfile.TemporaryDirectory()
        self.addCleanup(temp.cleanup)
        self.folder = pathlib.Path(temp.name)

    def test_not_in_the_source_folder(self):
        shutil.copy(ROOT / "CMakeLists.txt", self.folder)
        code, said = run("cmake", "-S", str(self.folder), "-B", str(self.folder))
        self.assertNotEqual(code, 0)
        self.assertIn("cmake -B build", said)

    def test_a_step_is_left_out_only_where_nothing_of_it_has_changed(self):
        (self.folder / "tools").mkdir()
        for name in ("changed.sh", "changed.txt"):
            shutil.copy(ROOT / "tools" / name, self.folder / "tools")
        kernel = self.folder / "lathe" / "backends" / "cuda" / "a.cu"
        kernel.parent.mkdir(parents=True)
        kernel.write_text("1")
        git = ("git", "-C", str(self.folder), "-c", "user.name=a", "-c", "user.email=a@b")
        for words in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "a")):
            self.assertEqual(run(*git, *words)[0], 0)
        script = str(self.folder / "tools" / "changed.sh")
        self.assertEqual(run(script, "oldest")[0], 0)  # no commit is a day old
        since_head = ("env", "LATHE_TEST_SINCE=HEAD", script)
        self.assertEqual(run(*since_head, "oldest")[0], 1)
        kernel.write_text("2")
        self.assertEqual([run(*since_head, step)[0] for step in ("oldest", "threads")], [0, 1])
        kernel.with_name("b.cu").write_text("3")
        self.assertEqual(run(*git, "checkout", "-q", "--", ".")[0], 0)
        self.assertEqual(run(*since_head, "oldest")[0], 0)  # a file that is not yet in a commit
        code, said = run(*since_head, "nothing")
        self.assertEqual((code, "changed.txt knows" in said), (2, True), said)

    def test_each_preset_has_a_folder_and_the_compiler_that_it_needs(self):
        presets = json.loads((ROOT / "CMakePresets.json").read_text(encoding="utf-8"))["configurePresets"]
        folders = [preset.get("binaryDir", preset["name"]) for preset in presets if not preset.get("hidden")]
        self.assertEqual(len(set(folders)), len(folders), folders)
        for preset in presets:
            values = preset.get("cacheVariables", {})
            self.assertEqual("LATHE_FUZZ" in values, "clang" in values.get("CMAKE_CXX_COMPILER", ""), preset["name"])

    def test_a_python_that_was_asked_for_and_has_no_nanobind(self):
        lists = self.folder / "CMakeLists.txt"
        lists.write_text(f'cmake_minimum_required(VERSION 3.25)\nproject(p LANGUAGES NONE)\ninclude({ROOT}/cmake/python.cmake)\n')
        code, said = run("cmake", "-S", str(self.folder), "-B", str(self.folder / "b"), "-DLATHE_PYTHON_PROGRAM=/no/python3")
        self.assertNotEqual(code, 0)
        self.assertIn("LATHE_PYTHON_PROGRAM is /no/python3, wanted is", said)

    def test_the_wheel_of_a_build_without_the_module_of_this_python(self):
        package = self.folder / "python" / "lathe"
        package.mkdir(parents=True)
        (package / "_lathe.cpython-39-x86_64-linux-gnu.so").touch()  # of another
        code, said = run(sys.executable, str(ROOT / "tools" / "make_wheel.py"), str(self.folder), str(self.folder / "dist"))
        self.assertEqual(code, 1)
        self.assertRegex(said, r"^make_wheel.py: \S+ is not there: the build found no nanobind for ")

    def test_packages_are_built_with_what_make_was_given(self):
        for target in ("deb", "tarball", "wheel"):
            self.assertIn("-DLATHE_CUDA=ON", run("make", "-n", "-C", str(ROOT), target, "CUDA=1")[1])
            self.assertNotIn("-DLATHE_CUDA", run("make", "-n", "-C", str(ROOT), target)[1])

    def in_a_new_folder(self, *files):
        """A folder whose name has a blank, with the Makefile, empty files, and scripts that say their words; to configure fails."""
        folder = self.folder / "a blank"
        for name in files:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).touch()
        (folder / "tools").mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / "Makefile", folder)
        for name in ("setup.sh", "configure.sh"):
            script = folder / "tools" / name
            script.write_text(f'#!/bin/sh\nfor word in "$@"; do echo "{name} [$word]"; done\n[ {name} = setup.sh ]\n')
            script.chmod(0o755)
        return str(folder)

    def test_the_wheel_is_for_the_python_of_its_venv_whatever_the_folder_is_called(self):
        said = run("make", "-C", self.in_a_new_folder("build/venv-wheel/bin/python3.13"), "wheel")[1]
        self.assertIn("setup.sh [--wheel]", said)
        self.assertIn("configure.sh [-DLATHE_PYTHON_PROGRAM=build/venv-wheel/bin/python3.13]", said)

    def test_the_demo_says_first_how_long_it_takes(self):
        said = run("make", "-s", "-C", self.in_a_new_folder(), "demo")[1]
        self.assertRegex(said, rf"^This takes about \d+ minutes on {os.cpu_count()} cores: ")
        self.assertRegex(run("make", "-s", "-C", self.in_a_new_folder("build/lathe"), "demo")[1], "^This takes about a minute[.] ")

    def test_only_the_part_for_parquet_in_the_build_that_is_there(self):
        self.assertIn("configure.sh [-DCMAKE_BUILD_TYPE=Release]", run("make", "-C", self.in_a_new_folder(), "parquet")[1])
        said = run("make", "-C", self.in_a_new_folder("build/.configured"), "parquet")[1]
        self.assertIn("setup.sh [--parquet]", said)
        self.assertNotIn("configure.sh", said)


if __name__ == "__main__":
    unittest.main()
