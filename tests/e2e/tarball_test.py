#!/usr/bin/env python3
"""The tarball in a root folder that holds nothing but glibc: it trains and predicts there. With libstdc++ it reads Parquet, too.
Skipped where no such root can be entered."""
import os
import pathlib
import re
import shutil
import sys
import tarfile
import tempfile
import unittest

import command_line as cl

BUILD = pathlib.Path(os.environ.get("LATHE_BINARY_DIR", cl.ROOT / "build"))
GLIBC = re.compile(r"(ld-linux.*|lib(c|m|dl|rt|pthread))\.so\.\d+$")


class Tarball(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temp = tempfile.TemporaryDirectory()
        cls.root = pathlib.Path(cls.temp.name) / "root"
        made = cl.run([str(cl.ROOT / "packaging" / "linux" / "tarball.sh"), str(BUILD), cls.temp.name])
        assert made.returncode == 0, made.stdout + made.stderr
        print(made.stdout.strip())
        cls.file = next(pathlib.Path(cls.temp.name).glob("lathe-linux-*.tar.gz"))
        with tarfile.open(cls.file) as archive:
            archive.extractall(cls.root)
        cls.folder = next(cls.root.iterdir())
        cls.bring("bin/lathe")
        for name in ("tmp", "data"):
            (cls.root / name).mkdir()
        cl.write_csv(cls.root / "data" / "train.csv", 48, 1)
        shutil.copytree(cl.MODEL, cls.root / "model")

    @classmethod
    def tearDownClass(cls):
        cls.temp.cleanup()

    @classmethod
    def bring(cls, *names):
        """Libraries of this machine that files of the tarball need, where the loader looks for them."""
        said = "".join(cl.run(["ldd", str(cls.folder / name)]).stdout for name in names)
        for path in map(pathlib.Path, set(re.findall(r"(/\S+) \(0x", said))):
            if cls.folder not in path.parents:
                to = cls.root / str(path).lstrip("/")
                to.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, to)

    def inside(self, *words):
        return cl.run(["unshare", "--user", "--map-root-user", "--root", str(self.root), f"/{self.folder.name}/bin/lathe", *words],
                      env={"HOME": "/tmp"})

    def train(self, file):
        return self.inside("glue", "--model_name_or_path", "/model", "--train_file", f"/data/{file}", "--do_train", "--max_steps", "3",
                           "--max_seq_length", "32", "--learning_rate", "1e-3", "--output_dir", "/tmp/out", "--overwrite_output_dir",
                           "--ignore_mismatched_sizes", "--use_cpu")

    def test_1_with_glibc_it_trains_and_predicts(self):
        libraries = [path.name for path in self.root.rglob("*.so*") if self.folder not in path.parents]
        self.assertEqual([name for name in libraries if not GLIBC.match(name)], [])
        trained = self.train("train.csv")
        self.assertEqual(trained.returncode, 0, trained.stderr)
        said = self.inside("predict", "/tmp/out", "who opened the old bridge")
        self.assertRegex(said.stdout, r"^(person|place|thing)\t0\.\d+")

    def test_2_with_the_library_of_cxx_it_reads_parquet(self):
        try:
            import pyarrow.csv
            import pyarrow.parquet
        except ImportError:
            self.skipTest("needs pyarrow (tools/setup.sh --test)")
        if not list(self.folder.rglob("liblathe_parquet.so")):
            self.skipTest("the part that reads Parquet was not built")
        table = pyarrow.csv.read_csv(self.root / "data" / "train.csv")
        pyarrow.parquet.write_table(table, self.root / "data" / "train.parquet")
        self.assertIn("libstdc++.so.6", self.train("train.parquet").stderr)   # it says what is missing
        self.bring(*(f"lib/lathe/{path.name}" for path in (self.folder / "lib" / "lathe").iterdir()))
        trained = self.train("train.parquet")
        self.assertEqual(trained.returncode, 0, trained.stderr)

    def test_3_it_holds_programs_docs_and_licences(self):
        for name in ("bin/run_glue", "share/man/man1/lathe.1", "share/doc/lathe/LICENSE"):
            self.assertTrue((self.folder / name).is_file(), name)
        if list(self.folder.rglob("libarrow*")):
            self.assertTrue((self.folder / "share/doc/lathe/arrow/LICENSE.txt").is_file())
        self.assertLess(self.file.stat().st_size, 50e6)


if __name__ == "__main__":
    if sys.platform != "linux" or cl.run(["unshare", "--user", "--map-root-user", "true"]).returncode != 0:
        print("skipped: needs Linux, and a kernel that gives a user namespaces")
        sys.exit(77)
    cl.main()
