#!/usr/bin/env python3
"""The installed package: its programs run, and the examples build against it from outside of Lathe's tree."""
import os
import pathlib
import shutil
import tempfile
import unittest

import command_line as cl

BUILD = pathlib.Path(os.environ.get("LATHE_BINARY_DIR", cl.ROOT / "build"))


def cached(name):
    """A value of the build's CMakeCache.txt, "" if it has none."""
    for line in (BUILD / "CMakeCache.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith(name + ":"):
            return line.split("=", 1)[1]
    return ""


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temp = tempfile.TemporaryDirectory()
        cls.root = pathlib.Path(cls.temp.name)
        cls.prefix = cls.root / "prefix"
        result = cl.run(["cmake", "--install", str(BUILD), "--prefix", str(cls.prefix)])
        assert result.returncode == 0, result.stdout + result.stderr
        # A project of its own, out of reach of the tree's headers.
        cls.project = cls.root / "project"
        shutil.copytree(cl.ROOT / "examples", cls.project)
        include = cls.prefix / "include"
        cls.headers = sorted(p.relative_to(include).as_posix() for p in include.rglob("*.*"))
        with open(cls.project / "CMakeLists.txt", "a", encoding="utf-8") as lists:
            lists.write("add_executable(all_headers all_headers.cc)\n"
                        "target_link_libraries(all_headers PRIVATE lathe::lathe)\n")
        with open(cls.project / "all_headers.cc", "w", encoding="utf-8") as source:
            source.writelines(f"#include <{name}>\n" for name in cls.headers if name.endswith(".h"))
            source.write("int main() {}\n")

    @classmethod
    def tearDownClass(cls):
        cls.temp.cleanup()

    def configure(self, folder, *more):
        command = ["cmake", "-S", str(self.project), "-B", str(folder), f"-DCMAKE_PREFIX_PATH={self.prefix}",
                   "-DCMAKE_BUILD_TYPE=Debug", f"-DCMAKE_CXX_COMPILER={cached('CMAKE_CXX_COMPILER')}",
                   f"-DCMAKE_CXX_FLAGS={cached('CMAKE_CXX_FLAGS')}", *more]
        return cl.run(command)

    def succeed(self, result):
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return result.stdout

    def test_examples_build_and_run_against_the_package(self):
        build = self.root / "build"
        self.succeed(self.configure(build))
        self.succeed(cl.run(["cmake", "--build", str(build)]))
        out = self.succeed(cl.run([str(build / "simple_model"), "cpu", "2"]))
        self.assertIn("device cpu", out)
        self.assertIn("gradient of fc3.bias[0] 0.100000", out)  # each of ten outputs weighs 1/10 in the mean

        train, dev, model = self.root / "train.csv", self.root / "dev.csv", self.root / "model"
        cl.write_csv(train, 48, 1)
        cl.write_csv(dev, 12, 2)
        out = self.succeed(cl.run([str(build / "finetune"), str(cl.MODEL), str(train), str(dev), str(model)]))
        self.assertIn("'eval_accuracy': ", out)
        self.assertTrue((model / "model.safetensors").is_file())
        self.assertTrue((model / "tokenizer.json").is_file())

    def test_a_missing_library_is_named_with_the_way_out(self):
        result = self.configure(self.root / "without", "-DCMAKE_DISABLE_FIND_PACKAGE_nlohmann_json=ON")
        self.assertNotEqual(result.returncode, 0)
        message = " ".join(result.stderr.split())  # CMake wraps lines
        self.assertIn("lathe needs nlohmann_json; install it", message)

    def test_programs_run_by_their_own_names_and_by_those_of_the_scripts(self):
        binaries = self.prefix / "bin"
        self.assertIn("--task_name", self.succeed(cl.run([str(binaries / "run_glue"), "--help"])))
        self.assertIn("--doc_stride", self.succeed(cl.run([str(binaries / "run_qa"), "--help"])))
        self.assertIn("usage: lathe COMMAND", self.succeed(cl.run([str(binaries / "lathe"), "--help"])))
        self.assertIn("layer_norm", self.succeed(cl.run([str(binaries / "lathe-ops"), "support", "-b", "cpu"])))

    def test_headers_are_the_public_ones(self):
        self.assertIn("lathe/lathe.h", self.headers)
        self.assertIn("lathe/ops/list.inc", self.headers)
        for inside in ("lathe/app/", "lathe/backends/cpu/", "lathe/backends/ref/"):
            self.assertEqual([h for h in self.headers if h.startswith(inside)], [])
        self.assertEqual([h for h in self.headers if "test" in h.rsplit("/", 1)[1] or h.endswith(".cc")], [])


if __name__ == "__main__":
    unittest.main()
