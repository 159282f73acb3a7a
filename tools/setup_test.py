"""tools/setup.sh with an apt, a pip and a Python that only say what they were asked."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

TOOLS = pathlib.Path(__file__).parent
# `python3 -m venv --clear FOLDER` makes a folder with a Python and a pip; else it says where its library is.
PYTHON = """#!/bin/sh
if [ "$1" = -m ]; then
  mkdir -p "$4/bin"
  cp "$FAKES/python3" "$FAKES/pip" "$4/bin/"
  echo "made $4" >>"$FAKES/log"
  echo "$LIBRARY" >"$4/library"
else cat "$(dirname "$0")/../library" 2>/dev/null || echo "$LIBRARY"
fi
"""


class Setup(unittest.TestCase):
    def setUp(self):
        temp = tempfile.TemporaryDirectory()
        self.addCleanup(temp.cleanup)
        self.fakes = pathlib.Path(temp.name) / "fakes"
        shutil.copytree(TOOLS, pathlib.Path(temp.name) / "tools", ignore=shutil.ignore_patterns("*.py", "__pycache__"))
        self.script = str(pathlib.Path(temp.name) / "tools" / "setup.sh")
        self.fakes.mkdir()
        self.fake("python3", PYTHON)
        for name in ("apt-get", "sudo", "pip"):
            self.fake(name, "#!/bin/sh\n")
        self.fake("dpkg-query", "#!/bin/sh\necho install ok installed\n")

    def fake(self, name, text):
        path = self.fakes / name
        path.write_text(text)
        path.chmod(0o755)

    def setup(self, *options, library="/usr/lib/python3.11/os.py"):
        environment = dict(os.environ, PATH=f"{self.fakes}:{os.environ['PATH']}", FAKES=str(self.fakes), LIBRARY=library)
        return subprocess.run([self.script, *options], capture_output=True, text=True, timeout=60, env=environment)

    def wanted(self, *options):
        """The packages that it would install where there are none."""
        self.fake("dpkg-query", "#!/bin/sh\n")
        result = self.setup(*options, "--dry-run")
        self.assertEqual(result.returncode, 0, result.stderr)
        return next(line for line in result.stdout.splitlines() if line.startswith("Missing packages:")).split()

    def test_what_the_package_is_made_with(self):
        self.assertLessEqual({"dpkg-dev", "file"}, set(self.wanted("--deb")))
        self.assertNotIn("dpkg-dev", self.wanted())

    def test_who_makes_a_venv_has_the_package_for_it(self):
        self.assertIn("python3-venv", self.wanted())   # that of Apache Arrow, which every set-up makes

    def test_without_wheels_a_package_fails_and_tests_are_skipped(self):
        self.fake("pip", "#!/bin/sh\nexit 1\n")
        for option in ("--wheel", "--docs"):
            result = self.setup(option)
            self.assertEqual(result.returncode, 1, option)
            self.assertIn("pip could not fetch the wheels of tools/requirements-", result.stderr)
            self.assertNotIn("skipped", result.stderr)
        for option in ("--test", "--mlx", "--cross"):
            result = self.setup(option)
            self.assertEqual(result.returncode, 0, option)
            self.assertIn("Tests that need them will be reported as skipped.", result.stderr)

    def test_a_venv_is_made_once_for_each_python(self):
        for library in ("/usr/lib/python3.11/os.py", "/usr/lib/python3.11/os.py", "/opt/lib/python3.13/os.py"):
            self.assertEqual(self.setup("--wheel", library=library).returncode, 0)
        made = (self.fakes / "log").read_text().splitlines()
        self.assertEqual(made, ["made build/venv-wheel", "made build/venv-parquet"] * 2)

    def test_apache_arrow_comes_along_and_it_says_so(self):
        said = self.setup()
        self.assertEqual(said.returncode, 0, said.stderr)
        self.assertIn("Missing Python wheels in build/venv-parquet: pyarrow>=18   # Apache Arrow, which reads Parquet: 50 MB", said.stdout)
        self.assertEqual(self.setup().stdout, "")

    def test_without_apache_arrow_all_else_goes_on(self):
        self.fake("pip", "#!/bin/sh\nexit 1\n")
        for options, code in (((), 0), (("--parquet",), 1)):
            said = self.setup(*options)
            self.assertEqual(said.returncode, code, said.stderr)
            self.assertIn("cannot be read until 'make parquet' has fetched Apache Arrow", said.stderr)

    def test_apache_arrow_of_the_tests_is_enough(self):
        header = self.fakes.parent / "build/venv/lib/python3.11/site-packages/pyarrow/include/parquet/arrow/reader.h"
        header.parent.mkdir(parents=True)
        header.touch()
        self.assertEqual(self.setup("--parquet").stdout, "")


if __name__ == "__main__":
    unittest.main()
