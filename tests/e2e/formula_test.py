#!/usr/bin/env python3
"""The Homebrew formula is Ruby, and release.sh gives it a tarball's place and hash; the Mac's tarball asks for a Mac."""
import hashlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import command_line as cl

PACKAGING = cl.ROOT / "packaging"


class Formula(unittest.TestCase):
    def test_release_writes_place_and_hash(self):
        with tempfile.NamedTemporaryFile(suffix=".tar.gz") as tarball:
            tarball.write(b"a release")
            tarball.flush()
            out = cl.run([str(PACKAGING / "homebrew" / "release.sh"), "https://example.org/lathe-0.1.0.tar.gz", tarball.name])
        self.assertEqual(out.returncode, 0, out.stderr)
        self.assertIn('  url "https://example.org/lathe-0.1.0.tar.gz"\n', out.stdout)
        self.assertIn(f'  sha256 "{hashlib.sha256(b"a release").hexdigest()}"\n', out.stdout)
        self.assertIn('depends_on "mlx"', out.stdout)
        if shutil.which("ruby") is None:
            self.skipTest("ruby is not installed")
        checked = subprocess.run(["ruby", "-wc"], input=out.stdout, capture_output=True, text=True)
        self.assertEqual((checked.stdout.strip(), checked.stderr), ("Syntax OK", ""))

    @unittest.skipIf(sys.platform == "darwin", "this is a Mac")
    def test_tarball_asks_for_a_mac(self):
        out = cl.run([str(PACKAGING / "macos" / "tarball.sh"), "build", "dist"])
        self.assertEqual(out.returncode, 1)
        self.assertIn("the tarball is made on a Mac", out.stderr)


if __name__ == "__main__":
    cl.main()
