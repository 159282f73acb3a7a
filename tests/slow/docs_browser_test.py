#!/usr/bin/env python3
"""A browser shows the docs' pages at a desk's and a phone's width: nothing on the console, nothing wider than the window."""
import pathlib
import shutil
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import command_line as cl
from docs_test import make_site, markdown_it

BROWSER = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)
# A page of its own measures: the site's pages allow no script but theirs.
FRAME = """<!doctype html><iframe id=f src="{page}" style="width:{width}px;height:800px;border:0"></iframe><script>
f.onload = () => {{ const d = f.contentDocument.documentElement; document.title = d.scrollWidth - d.clientWidth; }};</script>"""


class Browser(unittest.TestCase):
    def test_pages_fit_and_the_console_stays_empty(self):
        with tempfile.TemporaryDirectory() as folder:
            site = pathlib.Path(folder) / "site"
            make_site(site)
            for page in sorted(site.glob("*.html")):
                for width in (1280, 390):
                    with self.subTest(page=page.name, width=width):
                        self.look(pathlib.Path(folder), page, width)

    def look(self, folder, page, width):
        (folder / "frame.html").write_text(FRAME.format(page=page.as_uri(), width=width), encoding="utf-8")
        out = cl.run([BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files",
                      "--enable-logging=stderr", f"--user-data-dir={folder / 'profile'}", "--virtual-time-budget=2000",
                      f"--window-size={width + 40},900", "--dump-dom", (folder / "frame.html").as_uri()])
        self.assertEqual(out.returncode, 0, out.stderr)
        self.assertNotIn("CONSOLE", out.stderr)
        self.assertIn("<title>0</title>", out.stdout)


if __name__ == "__main__":
    if BROWSER is None or markdown_it is None:
        print("skipped: needs chromium and the wheel markdown-it-py (tools/setup.sh --full)")
        sys.exit(77)
    cl.main()
