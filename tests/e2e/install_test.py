#!/usr/bin/env python3
"""The installed package: its programs run, and the examples build against it from outside of Lathe's tree."""
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
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
        result = cl.run(["cmake", "--install", str(BUILD), "--prefix", str(cls.prefix), "--strip"])
        assert result.returncode == 0, result.stdout + result.stderr
        cls.manifest = set((BUILD / "install_manifest.txt").read_text(encoding="utf-8").splitlines())
        # A project of its own, out of reach of the tree's headers.
        cls.project = cls.root / "project"
        shutil.copytree(cl.ROOT / "examples", cls.project)
        include = cls.prefix / "include"
        cls.headers = sorted(p.relative_to(include).as_posix() for p in include.rglob("*.*"))
        with open(cls.project / "CMakeLists.txt", "a", encoding="utf-8") as lists:
            lists.write("add_executable(all_headers all_headers.cc)\n"
                        "target_link_libraries(all_headers PRIVATE lathe::lathe)\n"
                        "add_library(plugin MODULE finetune.cc)\n"
                        "target_link_libraries(plugin PRIVATE lathe::lathe)\n")
        with open(cls.project / "all_headers.cc", "w", encoding="utf-8") as source:
            source.writelines(f"#include <{name}>\n" for name in cls.headers if name.endswith(".h"))
            source.write('#include <cstdio>\n'
                         'int main() { for (auto& place : lathe::part_places("part.so")) std::puts(place.c_str()); }\n')

    @classmethod
    def tearDownClass(cls):
        cls.temp.cleanup()

    def configure(self, folder, *more, project=None):
        command = ["cmake", "-S", str(project or self.project), "-B", str(folder), f"-DCMAKE_PREFIX_PATH={self.prefix}",
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

        out = self.succeed(cl.run([str(build / "all_headers")]))
        self.assertEqual(pathlib.Path(out.split("\n")[-2]), self.prefix / cached("CMAKE_INSTALL_LIBDIR") / "lathe" / "part.so")

        train, dev, model = self.root / "train.csv", self.root / "dev.csv", self.root / "model"
        cl.write_csv(train, 48, 1)
        cl.write_csv(dev, 12, 2)
        out = self.succeed(cl.run([str(build / "finetune"), str(cl.MODEL), str(train), str(dev), str(model)]))
        self.assertIn("'eval_accuracy': ", out)
        self.assertTrue((model / "model.safetensors").is_file())
        self.assertTrue((model / "tokenizer.json").is_file())

    def test_libraries_of_the_machine_are_shared_ones_unless_asked_otherwise(self):
        for wish, wanted in (("OFF", ".so"), ("ON", ".a")):
            build = self.root / f"static_{wish}"
            self.succeed(self.configure(build, f"-DLATHE_STATIC={wish}"))
            found = re.search(r"LATHE_LIBRARY_z:FILEPATH=(.*)", (build / "CMakeCache.txt").read_text(encoding="utf-8"))
            self.assertEqual(pathlib.Path(found[1]).suffix, wanted)

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
        self.assertIn("usage: lathe-ops", self.succeed(cl.run([str(binaries / "lathe-ops"), "--help"])))

    def test_the_core_binary_is_small_and_answers_at_once(self):
        program = self.prefix / "bin" / "lathe"
        self.assertLess(program.stat().st_size, 30e6)
        seconds = []
        for _ in range(11):
            took, said = cl.processor_seconds([str(program), "--help"])
            seconds.append(took)
            self.assertTrue(said.startswith("lathe "), said)
        print(f"{program.stat().st_size / 1e6:.1f} MB, --help takes {1e3 * statistics.median(seconds):.1f} ms of a processor")
        self.assertLess(statistics.median(seconds), 0.050)

    def test_docs_licence_manual_and_completions_are_there(self):
        share = self.prefix / "share"
        for name in ("doc/lathe/LICENSE", "doc/lathe/README.md", "doc/lathe/docs/train.md", "man/man1/lathe.1",
                     "bash-completion/completions/lathe", "zsh/site-functions/_lathe",
                     "bash-completion/completions/run_glue", "bash-completion/completions/run_qa",
                     "fish/vendor_completions.d/lathe.fish", "fish/vendor_completions.d/run_glue.fish",
                     "fish/vendor_completions.d/run_qa.fish"):
            self.assertGreater((share / name).stat().st_size, 500, name)
        page = (share / "man" / "man1" / "lathe.1").read_text(encoding="utf-8")
        table = json.loads(self.succeed(cl.run([str(self.prefix / "bin" / "lathe"), "arguments", "--json"])))
        for row in table["training"] + table["glue"] + table["qa"] + table["ner"] + table["mlm"] + table["clm"] + table["swag"] + table["embed"] + table["rerank"]:
            if row["support"] in ("works", "no effect"):
                self.assertIn(f"\\fB\\-\\-{row['name']}\\fR", page)

    def test_the_docs_show_files_that_are_there(self):
        docs = self.prefix / "share" / "doc" / "lathe" / "docs"
        links = re.findall(r"\]\(([^)#:]+)", (docs / "cpp.md").read_text(encoding="utf-8"))
        self.assertIn("../examples/finetune.cc", links)
        for link in links:
            self.assertTrue((docs / link).is_file(), link)

    def test_the_manifest_names_each_file(self):
        files = {str(path) for path in self.prefix.rglob("*") if path.is_symlink() or path.is_file()}
        self.assertEqual(files, self.manifest)

    def test_a_transport_that_does_not_load_says_why(self):
        program, part = self.root / "broken" / "bin" / "lathe", self.root / "broken" / "lib" / "lathe" / "liblathe_gloo.so"
        for path in (program, part):
            path.parent.mkdir(parents=True)
        shutil.copy(self.prefix / "bin" / "lathe", program)
        part.write_text("no library\n")
        said = cl.run([str(program), "doctor"]).stdout
        self.assertRegex(said, r"lib/lathe/liblathe_gloo\.so does not load \(.+\)")
        self.assertIn("liblathe_mpi.so is not here", said)

    def test_a_component_that_the_package_does_not_have(self):
        project = self.root / "wings"
        project.mkdir()
        (project / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.25)\nproject(wings LANGUAGES CXX)\n"
                                                "find_package(lathe REQUIRED COMPONENTS wings)\n")
        result = self.configure(project / "build", project=project)
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("lathe_FOUND to FALSE", " ".join(result.stderr.split()))

    def test_folders_of_another_layout(self):
        """Absolute ones, too; configured by itself."""
        build, programs = self.root / "layout", self.root / "programs"
        self.succeed(self.configure(build, "-DLATHE_TESTS=OFF", "-DLATHE_EXAMPLES=OFF", "-DLATHE_PYTHON=OFF",
                                    f"-DCMAKE_INSTALL_BINDIR={programs}", "-DCMAKE_INSTALL_INCLUDEDIR=headers", project=cl.ROOT))
        targets = next(build.glob("CMakeFiles/Export/*/lathe-targets.cmake")).read_text(encoding="utf-8")
        self.assertIn('"${_IMPORT_PREFIX}/headers"', targets)
        script = (build / "cmake_install.cmake").read_text(encoding="utf-8")
        self.assertIn(f'"{programs}/run_glue', script)
        self.assertNotIn(f"${{CMAKE_INSTALL_PREFIX}}/{programs}", script)

    def complete(self, shell, script):
        """The words that a shell offers; None where it is not installed."""
        if shutil.which(shell) is None:
            return None
        share = self.prefix / "share"
        environment = dict(os.environ, SHARE=str(share), XDG_DATA_DIRS=str(share),
                           PATH=f"{self.prefix / 'bin'}:{os.environ['PATH']}")
        out = cl.run([shell, "-c", script], cwd=share, env=environment)  # files are offered, too
        self.assertEqual(out.stderr, "")
        return [line.split("\t")[0] for line in out.stdout.split("\n") if line]

    def in_bash(self, *words):
        return self.complete("bash", f"""source $SHARE/bash-completion/completions/{words[0]}
            COMP_WORDS=({' '.join(f"'{w}'" for w in words)}) COMP_CWORD={len(words) - 1}
            _lathe; printf '%s\\n' "${{COMPREPLY[@]}}" """)

    def in_fish(self, *words):
        return self.complete("fish", f"complete -C '{' '.join(words)}'")  # of a program on the path, by a file below $XDG_DATA_DIRS

    def in_zsh(self, *words):
        """The builtins that offer words are replaced by ones that print those that fit."""
        return self.complete("zsh", f"""compdef() {{ : }}
            offer() {{ local w; for w in "$@"; do [[ $w == "${{words[CURRENT]}}"* ]] && print -r -- "${{w%%:*}}"; done }}
            _describe() {{ offer "${{(@P)@[-1]}}" }}
            compadd() {{ shift; offer "$@" }}
            _files() {{ : }}
            source $SHARE/zsh/site-functions/_lathe
            words=({' '.join(f"'{w}'" for w in words)}) CURRENT={len(words)}
            _lathe""")

    def test_shells_complete_commands_flags_and_values(self):
        for shell, words in (("bash", self.in_bash), ("zsh", self.in_zsh), ("fish", self.in_fish)):
            with self.subTest(shell):
                if words("lathe", "la") is None:
                    self.skipTest(f"{shell} is not installed")
                self.assertEqual(words("lathe", "la"), ["launch"])
                self.assertEqual(sorted(words("lathe", "glue", "--per_device_")),
                                 ["--per_device_eval_batch_size", "--per_device_train_batch_size"])
                self.assertEqual(sorted(words("lathe", "glue", "--eval_strategy", "")), ["epoch", "no", "steps"])
                self.assertEqual(words("lathe", "qa", "--doc_s"), ["--doc_stride"])
                self.assertEqual(words("lathe", "launch", "-n", "2", "glue", "--learning_r"), ["--learning_rate"])
                self.assertEqual(sorted(words("lathe", "launch", "-n", "2", "")), ["classify", "clm", "embed", "glue", "mlm", "ner", "qa", "rerank", "swag"])
                self.assertEqual(words("lathe", "bench", "inf"), ["infer"])
                self.assertEqual(words("lathe", "runs", "com"), ["compare"])
                self.assertEqual(sorted(words("lathe", "completion", "")), ["bash", "fish", "zsh"])
                self.assertEqual(words("run_glue", "--max_seq"), ["--max_seq_length"])
                self.assertEqual(words("run_qa", "--doc_s"), ["--doc_stride"])

    def test_headers_are_the_public_ones(self):
        self.assertIn("lathe/lathe.h", self.headers)
        for inside in ("lathe/app/", "lathe/backends/cpu/", "lathe/backends/ref/"):
            self.assertEqual([h for h in self.headers if h.startswith(inside)], [])
        self.assertEqual([h for h in self.headers if "test" in h.rsplit("/", 1)[1] or h.endswith(".cc")], [])
        for_tests = [h for h in self.headers if "For tests: " in (self.prefix / "include" / h).read_text(encoding="utf-8")]
        self.assertEqual(for_tests, [])


if __name__ == "__main__":
    cl.main()
