"""The checker finds each kind of violation and no other, in trees made for it."""
import pathlib
import tempfile
import unittest

import check_layers

TABLE = """
lathe_layer(core       FOLDER lathe/core)
lathe_layer(ops        FOLDER lathe/ops           SEES core)
lathe_layer(io         FOLDER lathe/io            SEES core)
lathe_layer(cuda       FOLDER lathe/backends/cuda SEES ops)
lathe_layer(backends   FOLDER lathe/backends      SEES cuda)
lathe_layer(app        FOLDER lathe/app           SEES io backends)
"""


def found(**files):
    """Violations in a tree of {folder__name: text}; every file is a .cc."""
    with tempfile.TemporaryDirectory() as temp:
        root = pathlib.Path(temp)
        (root / "CMakeLists.txt").write_text(TABLE)
        for name, text in files.items():
            path = root / "lathe" / (name.replace("__", "/") + ".cc")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return check_layers.check(root)


class CheckLayers(unittest.TestCase):
    def test_allowed_ways(self):
        self.assertEqual([], found(
            core__a='#include <vector>\n#include "lathe/core/b.h"\n', ops__a='#include "lathe/core/b.h"\n',
            app__a='#include "lathe/io/a.h"\n#include "lathe/core/b.h"\n#include "lathe/backends/register.h"\n',
            backends__register='#include "lathe/backends/cuda/device.h"\n',
            backends__cuda__a='#include <cuda_runtime.h>\n#include "lathe/ops/a.h"\n',
            lathe='#include "lathe/app/a.h"\n'))

    def test_upwards_and_sideways(self):
        self.assertEqual(["lathe/core/a.cc:2: lathe/core does not see lathe/ops"],
                         found(core__a='#include "lathe/core/b.h"\n  #  include "lathe/ops/a.h"\n'))
        self.assertEqual(["lathe/io/a.cc:1: lathe/io does not see lathe/ops"], found(io__a='#include "lathe/ops/a.h"\n'))

    def test_a_device_folder_is_seen_by_backends_alone(self):
        self.assertEqual(["lathe/app/a.cc:1: lathe/backends/cuda is seen only by lathe/backends"],
                         found(app__a='#include "lathe/backends/cuda/device.h"\n'))

    def test_device_libraries(self):
        for header in ("cuda_runtime.h", "cublasLt.h", "cudnn.h", "nccl.h", "mlx/mlx.h", "mpi.h", "Metal/Metal.hpp"):
            self.assertEqual(1, len(found(ops__a=f"#include <{header}>\n")), header)

    def test_include_not_from_the_root(self):
        self.assertEqual(1, len(found(ops__a='#include "a.h"\n')))

    def test_a_source_that_is_too_long(self):
        self.assertEqual(["lathe/io/a.cc: 451 lines, at most 450; give each of its jobs a file"],
                         found(io__a="int x;\n" * 451, io__b="int x;\n" * 450))

    def test_parsers_that_an_input_can_crash(self):
        text = "const auto x = nlohmann::json::parse(text);  // Json::parse\n#include <regex>\nJson::accept(x);\n"
        self.assertEqual(["1: JSON is parsed by lathe/io/json_file.h", "2: <regex> recurses for each character of what it matches",
                          "3: JSON is parsed by lathe/io/json_file.h"],
                         [line.split(":", 1)[1] for line in found(app__a=text)])
        self.assertEqual([], found(app__a_test=text, io__json_file=text, app__b="// as json::parse\nparse_json(x);\n"))

    def test_folder_that_is_no_layer(self):
        wrong = "lathe/{}: is no layer; a line lathe_layer(...) in CMakeLists.txt makes it one"
        self.assertEqual([wrong.format("extra")], found(extra__a='#include "lathe/core/b.h"\n'))
        self.assertEqual([wrong.format("backends/vulkan")], found(backends__vulkan__device='#include "lathe/ops/a.h"\n'))
        self.assertEqual([], found(backends__gloo__gloo_transport='#include <gloo/context.h>\n', core__parts__a="\n"))
        self.assertEqual(1, len(found(ops__a='#include "lathe/extra/b.h"\n')))

    def test_crowded_folder(self):
        room = {f"core__a{i}": "\n" for i in range(30)}
        self.assertEqual([], found(**room, core__a1_test="\n", core__a2_fuzz="\n", core__inside__b="\n"))
        self.assertEqual(["lathe/core: 31 names, at most 30; give what belongs together a folder inside"],
                         found(**room, core__b="\n"))

    def test_two_types_of_one_name(self):
        self.assertEqual(["lathe/ops/b.cc:2: lathe::A is defined at lathe/core/a.cc:3, too"], found(
            core__a="namespace lathe {\nclass A;\nstruct A final : B {\n};\n}  // namespace lathe\n",
            ops__b="namespace lathe {\nclass alignas(64) A {\n};\n}  // namespace lathe\n"))

    def test_types_that_share_a_name_rightly(self):
        self.assertEqual([], found(
            core__a="namespace lathe {\nclass A {\n};\nstruct K<int> {};\nstruct K<double> {};\n}  // namespace lathe\n",
            core__b="namespace lathe {\nstruct A::State {\n};\nstruct B::State {\n};\n"
                    "namespace {\nstruct A {\n};\n}  // namespace\n}  // namespace lathe\n",
            ops__c="namespace lathe::op {\nenum class A { kOne };\nA f(struct A);\n}  // namespace lathe::op\n"))

    def test_kernel_that_does_not_follow(self):
        self.assertEqual(["lathe/core/a.cc:2: a kernel begins with follow();"],
                         found(core__a="\n__global__ void f(int n) {\n  g();\n  follow();\n}\n"))
        self.assertEqual([], found(core__a="__global__ void f(int n);\n__global__ void f(int n) {\n  follow();\n}\n"))
        self.assertEqual([], found(core__a="__global__ void f(int n) {\n  g_that_follows<1>(n);\n}\n"))

    def test_own_tree_has_all_layers(self):
        root = pathlib.Path(__file__).parent.parent
        text = (root / "CMakeLists.txt").read_text(encoding="utf-8")
        layers = check_layers.read_layers(text)
        self.assertEqual(text.count("\nlathe_layer("), len(layers))
        self.assertEqual({"lathe/core"}, layers["lathe/core"])
        self.assertNotIn("lathe/ops", layers["lathe/io"])


if __name__ == "__main__":
    unittest.main()
