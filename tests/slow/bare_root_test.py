#!/usr/bin/env python3
"""The Debian package, the tarball and the wheel, each in a root that debootstrap makes: apt and pip install them, and they
train on real data there, and on Parquet. Needs root, debootstrap, the network, and LATHE_DATA_DIR."""
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import command_line as cl
from deb_test import make_deb

try:
    import pyarrow.parquet
except ImportError:
    print("skipped: needs pyarrow (tools/setup.sh --test)")
    sys.exit(77)

DATA = os.environ.get("LATHE_DATA_DIR", str(cl.ROOT.parent / "shared" / "data"))
# In the root itself, so that no time of entering it counts.
TIMED = """for i in 1 2 3 4 5; do s=$(date +%s%N); {0} --help | head -1 >/dev/null; e=$(date +%s%N); echo $((e - s)); done"""
BUILD = pathlib.Path(os.environ.get("LATHE_BINARY_DIR", cl.ROOT / "build"))
MODULE = """
from lathe import pipeline
answer = pipeline("text-classification", model="/tmp/mrpc")("The bridge is old.")
print(answer[0]["label"])
"""


class BareRoot(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        temp = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temp.cleanup)
        cls.bare = pathlib.Path(temp.name) / "root"
        release = subprocess.run(["sh", "-c", ". /etc/os-release; echo $VERSION_CODENAME"], capture_output=True,
                                 text=True).stdout.strip()
        subprocess.run(["debootstrap", "--variant=minbase", release, str(cls.bare)], check=True, timeout=900,
                       stdout=subprocess.DEVNULL)

    def setUp(self):
        temp = tempfile.TemporaryDirectory()
        self.addCleanup(temp.cleanup)
        self.root = pathlib.Path(temp.name) / "root"
        subprocess.run(["cp", "-a", str(self.bare), str(self.root)], check=True)
        shutil.copytree(cl.MODEL, self.root / "model")
        shutil.copytree(pathlib.Path(DATA) / "glue" / "MRPC", self.root / "data" / "glue" / "MRPC")
        shutil.copy("/etc/resolv.conf", self.root / "etc" / "resolv.conf")

    def inside(self, *command):
        # /proc is mounted in a namespace of the command's own, so that nothing is left of it in the folder.
        enter = 'mount -t proc proc "$0/proc" && exec chroot "$0" "$@"'
        result = cl.run(["unshare", "--mount", "sh", "-c", enter, str(self.root), "env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
                         "DEBIAN_FRONTEND=noninteractive", "LATHE_DATA_DIR=/data", "HOME=/root", *command])
        self.assertEqual(result.returncode, 0, result.stdout[-2000:] + result.stderr[-2000:])
        return result.stdout

    def starts_at_once(self, program):
        seconds = [int(line) / 1e9 for line in self.inside("sh", "-c", TIMED.format(program)).split()]
        print(f"first line after {1e3 * statistics.median(seconds):.1f} ms")
        self.assertLess(statistics.median(seconds), 0.050)

    def trains_and_predicts(self, program):
        self.inside(program, "glue", "--model_name_or_path", "/model", "--task_name", "mrpc", "--do_train", "--do_eval",
                    "--max_seq_length", "64", "--per_device_train_batch_size", "32", "--learning_rate", "1e-3",
                    "--num_train_epochs", "1", "--output_dir", "/tmp/mrpc/", "--overwrite_output_dir",
                    "--ignore_mismatched_sizes")
        self.assertIn("\t0.", self.inside(program, "predict", "/tmp/mrpc", "The bridge is old."))
        pyarrow.parquet.write_table(pyarrow.table({"text": cl.WORDS * 2, "label": [0, 1] * len(cl.WORDS)}), self.root / "train.parquet")
        self.inside(program, "glue", "--model_name_or_path", "/model", "--train_file", "/train.parquet", "--do_train", "--max_steps",
                    "2", "--max_seq_length", "16", "--output_dir", "/tmp/parquet", "--ignore_mismatched_sizes")

    def test_the_package_installs_trains_predicts_and_is_removed(self):
        with tempfile.TemporaryDirectory() as dist:
            shutil.copy(make_deb(pathlib.Path(dist)), self.root / "lathe.deb")
        self.inside("apt-get", "install", "-y", "-qq", "--no-install-recommends", "/lathe.deb")
        self.starts_at_once("lathe")
        self.trains_and_predicts("lathe")
        self.inside("lathe", "launch", "-n", "2", "glue", "--model_name_or_path", "/model", "--task_name", "mrpc",
                    "--do_train", "--max_steps", "3", "--max_seq_length", "64", "--output_dir", "/tmp/two",
                    "--ignore_mismatched_sizes")   # Gloo, which the package depends on
        self.inside("dpkg", "--purge", "lathe")
        self.assertEqual(list((self.root / "usr").rglob("lathe*")), [])

    def test_the_tarball_trains_and_predicts(self):
        made = cl.run([str(cl.ROOT / "packaging" / "linux" / "tarball.sh"), str(BUILD), str(self.root)])
        self.assertEqual(made.returncode, 0, made.stdout + made.stderr)
        self.inside("sh", "-c", "tar -C /opt -xzf /lathe-linux-*.tar.gz && mv /opt/lathe-linux-* /opt/lathe")
        self.starts_at_once("/opt/lathe/bin/lathe")
        self.trains_and_predicts("/opt/lathe/bin/lathe")

    @unittest.skipUnless(list((BUILD / "python" / "lathe").glob("_lathe.*")), "the Python package was not built")
    def test_the_wheel_installs_trains_and_predicts(self):
        made = cl.run([sys.executable, str(cl.ROOT / "tools" / "make_wheel.py"), str(BUILD), str(self.root / "wheels")])
        self.assertEqual(made.returncode, 0, made.stdout + made.stderr)
        # What it needs is fetched out here, where pip knows its index.
        wheel = next((self.root / "wheels").glob("lathe-*.whl"))
        wanted = cl.run([sys.executable, "-m", "pip", "download", "--quiet", "--only-binary=:all:", "--dest", str(wheel.parent), str(wheel)])
        self.assertEqual(wanted.returncode, 0, wanted.stderr)
        self.inside("apt-get", "install", "-y", "-qq", "--no-install-recommends", "python3-venv")
        self.inside("python3", "-m", "venv", "/venv")
        self.inside("/venv/bin/pip", "install", "--quiet", "--no-index", "--find-links", "/wheels", "lathe")
        self.starts_at_once("/venv/bin/lathe")
        self.trains_and_predicts("/venv/bin/lathe")
        label = self.inside("/venv/bin/lathe", "predict", "/tmp/mrpc", "The bridge is old.").split("\t")[0]
        self.assertEqual(self.inside("/venv/bin/python", "-c", MODULE).strip(), label)


if __name__ == "__main__":
    if os.geteuid() != 0 or shutil.which("debootstrap") is None or not pathlib.Path(DATA).is_dir():
        print("skipped: needs root, debootstrap and LATHE_DATA_DIR")
        sys.exit(77)
    cl.main()
