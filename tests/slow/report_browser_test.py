#!/usr/bin/env python3
"""A browser shows a run's report at a desk's and a phone's width: nothing on the console, nothing wider than the window.
With LATHE_SCREENSHOTS=FOLDER it leaves pictures there."""
import os
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import command_line as cl
from docs_browser_test import BROWSER, FRAME


class Report(unittest.TestCase):
    def test_it_fits_and_the_console_stays_empty(self):
        with tempfile.TemporaryDirectory() as temp:
            folder = pathlib.Path(temp)
            cl.write_csv(folder / "train.csv", 240, 1)
            cl.write_csv(folder / "dev.csv", 60, 2)
            made = cl.run(cl.glue_command(folder / "out", folder / "train.csv", folder / "dev.csv", "--report_to", "html",
                                          "--logging_steps", "1", "--eval_strategy", "steps", "--eval_steps", "10"))
            self.assertEqual(made.returncode, 0, made.stderr)
            made = cl.run([cl.program(), "glue", "--model_name_or_path", str(folder / "out"), "--do_eval", "--validation_file",
                           str(folder / "dev.csv"), "--output_dir", str(folder / "out"), "--report_to", "html"])
            self.assertEqual(made.returncode, 0, made.stderr)
            for name in ("report", "eval_report"):
                for width in (1280, 390):
                    with self.subTest(page=name, width=width):
                        self.look(folder, folder / "out" / f"{name}.html", width)

    def look(self, folder, page, width):
        (folder / "frame.html").write_text(FRAME.format(page=page.as_uri(), width=width), encoding="utf-8")
        command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files",
                   "--enable-logging=stderr", f"--user-data-dir={folder / 'profile'}", "--virtual-time-budget=2000"]
        out = cl.run([*command, f"--window-size={width + 40},900", "--dump-dom", (folder / "frame.html").as_uri()])
        self.assertEqual(out.returncode, 0, out.stderr)
        self.assertNotIn("CONSOLE", out.stderr)
        self.assertIn("<title>0</title>", out.stdout)
        pictures = os.environ.get("LATHE_SCREENSHOTS")
        if pictures:
            tall = (folder / "tall.html")
            tall.write_text(FRAME.format(page=page.as_uri(), width=width).replace("800px", "2600px"), encoding="utf-8")
            cl.run([*command, f"--window-size={width + 40},2600", f"--screenshot={pictures}/{page.stem}-{width}.png", tall.as_uri()])


if __name__ == "__main__":
    if BROWSER is None:
        print("skipped: needs chromium (tools/setup.sh --full)")
        sys.exit(77)
    cl.main()
