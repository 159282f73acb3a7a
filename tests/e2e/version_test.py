#!/usr/bin/env python3
"""One version everywhere: the program, CMake's project, the changelog's head, and what packages are called."""
import os
import pathlib
import re
import unittest

import command_line as cl

BUILD = pathlib.Path(os.environ.get("LATHE_BINARY_DIR", cl.ROOT / "build"))


def found(pattern, path):
    return re.search(pattern, path.read_text(encoding="utf-8"), re.MULTILINE).group(1)


class Version(unittest.TestCase):
    def test_all_agree(self):
        version = cl.run([cl.program(), "--version"]).stdout.split()[1]
        self.assertRegex(version, r"^\d+\.\d+\.\d+$")
        self.assertEqual(found(r"^project\(lathe VERSION (\S+)", cl.ROOT / "CMakeLists.txt"), version)
        self.assertEqual(found(r"^## (\S+)", cl.ROOT / "CHANGELOG.md"), version)
        self.assertEqual(found(r'CPACK_PACKAGE_VERSION "(.*)"', BUILD / "CPackConfig.cmake"), version)
        self.assertEqual(found(r'PACKAGE_VERSION "(.*)"', BUILD / "lathe-config-version.cmake"), version)
        self.assertIn(f'"lathe {version}"', cl.run([cl.program(), "arguments", "--man"]).stdout)
        formula = cl.ROOT / "packaging" / "homebrew" / "lathe.rb"
        self.assertIn(f"v{version}.tar.gz", formula.read_text(encoding="utf-8"))


if __name__ == "__main__":
    cl.main()
