#!/usr/bin/env python3
"""The Debian package: its dependencies and content, what lintian says, and that its program runs from an empty folder.
Skipped if there is no dpkg."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

import command_line as cl

BUILD = pathlib.Path(os.environ.get("LATHE_BINARY_DIR", cl.ROOT / "build"))
# embedded-library: zlib is linked statically, as all libraries but libc are. maintscript-calls-ldconfig: CPack does so where
# a private folder of /usr/lib holds a library. The rest is about a package that belongs to Debian.
TOLERATED = {"embedded-library", "maintscript-calls-ldconfig", "bogus-mail-host",
             "bogus-mail-host-in-debian-changelog", "initial-upload-closes-no-bugs"}


def make_deb(folder, umask=-1):
    """The package, built from the files of the build."""
    result = cl.run(["cpack", "-G", "DEB", "--config", str(BUILD / "CPackConfig.cmake"), "-B", str(folder)], umask=umask)
    assert result.returncode == 0, result.stdout + result.stderr
    return next(folder.glob("lathe_*.deb"))


class Deb(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temp = tempfile.TemporaryDirectory()
        cls.root = pathlib.Path(cls.temp.name) / "root"
        cls.deb = make_deb(pathlib.Path(cls.temp.name) / "dist", umask=0o077)  # nobody else may see what is made
        subprocess.run(["dpkg", "-x", str(cls.deb), str(cls.root)], check=True)

    @classmethod
    def tearDownClass(cls):
        cls.temp.cleanup()

    def field(self, name):
        return subprocess.run(["dpkg-deb", "-f", str(self.deb), name], check=True, capture_output=True,
                              text=True).stdout.strip()

    def test_depends_on_no_more_than_its_libraries(self):
        names = {wanted.split()[0] for wanted in self.field("Depends").split(", ")}
        self.assertIn("libc6", names)
        self.assertLessEqual(names, {"libc6", "libgcc-s1", "libstdc++6", "libgloo0", "libgloo-cuda"})
        self.assertIn("libcurl4", self.field("Recommends"))

    def test_holds_programs_manual_and_docs_alone(self):
        files = sorted(p.relative_to(self.root).as_posix() for p in self.root.rglob("*") if not p.is_dir())
        for wanted in ("usr/bin/lathe", "usr/bin/run_glue", "usr/share/man/man1/lathe.1.gz",
                       "usr/share/doc/lathe/copyright", "usr/share/doc/lathe/changelog.gz",
                       "usr/share/bash-completion/completions/lathe"):
            self.assertIn(wanted, files)
        self.assertEqual([f for f in files if not f.startswith(("usr/bin/", "usr/lib/lathe/", "usr/share/"))], [])
        self.assertEqual([f for f in files if f.endswith((".a", ".h"))], [])

    def test_everybody_may_read_all_of_it(self):
        listed = subprocess.run(["dpkg-deb", "-c", str(self.deb)], check=True, capture_output=True, text=True).stdout
        modes = {line.split()[0] for line in listed.splitlines()}
        self.assertLessEqual(modes, {"drwxr-xr-x", "-rwxr-xr-x", "-rw-r--r--", "lrwxrwxrwx"})

    def test_is_not_made_without_what_finds_its_libraries(self):
        layout = cl.ROOT / "packaging" / "debian" / "layout.cmake"
        result = cl.run([shutil.which("cmake"), "-DCPACK_GENERATOR=DEB", f"-DCPACK_TEMPORARY_DIRECTORY={self.temp.name}/none",
                         "-P", str(layout)], env={"PATH": self.temp.name})
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("dpkg-shlibdeps is not here", result.stderr)

    def test_an_archive_is_laid_out_as_it_is_installed(self):
        folder = pathlib.Path(self.temp.name) / "archive"
        result = cl.run(["cpack", "-G", "TGZ", "--config", str(BUILD / "CPackConfig.cmake"), "-B", str(folder)])
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        with tarfile.open(next(folder.glob("*.tar.gz"))) as archive:
            self.assertTrue([name for name in archive.getnames() if name.endswith("/doc/lathe/LICENSE")])

    def test_the_sources_are_those_of_the_tree(self):
        folder = pathlib.Path(self.temp.name) / "source"
        result = cl.run(["cpack", "--config", str(BUILD / "CPackSourceConfig.cmake"), "-B", str(folder)])
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        with tarfile.open(next(folder.glob("*.tar.gz"))) as archive:
            names = {name.partition("/")[2] for name in archive.getnames()}
        self.assertEqual({"LICENSE", "CMakeLists.txt", "lathe/lathe.h", "tools/setup.sh"} - names, set())
        self.assertEqual([name for name in names if re.match(r"build|dist/|site/|\.git/|.*\.pyc$", name)], [])

    def test_program_runs_from_where_it_was_unpacked(self):
        program = self.root / "usr" / "bin" / "lathe"
        self.assertLess(program.stat().st_size, 30e6)
        self.assertLess(min(cl.processor_seconds([str(program), "--help"])[0] for _ in range(5)), 0.050)
        demo = cl.run([str(program), "tokenize", str(cl.MODEL), "the old bridge"])
        self.assertEqual(demo.returncode, 0, demo.stderr)

    def test_lintian_finds_nothing_new(self):
        if shutil.which("lintian") is None:
            self.skipTest("lintian is not installed")
        out = cl.run(["lintian", "--allow-root", str(self.deb)]).stdout
        found = [line for line in out.splitlines()
                 if line[:2] in ("E:", "W:") and line.split()[2] not in TOLERATED]
        self.assertEqual(found, [])


if __name__ == "__main__":
    if shutil.which("dpkg-deb") is None:
        print("skipped: dpkg is not installed")
        sys.exit(77)
    cl.main()
