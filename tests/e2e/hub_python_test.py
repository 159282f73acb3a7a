#!/usr/bin/env python3
"""Names from a Hub in Python: a signal ends a download. Skipped where the package was not built."""
import pathlib
import sys

import command_line as cl
from hub_server import Fault, HubCase

PACKAGE = pathlib.Path(cl.program()).parent / "python"
if not list(PACKAGE.glob("lathe/_lathe.*")):
    print("skipped: the Python package was not built (it needs nanobind, tools/setup.sh --test)")
    sys.exit(77)

SCRIPT = """
import signal, sys
sys.path.insert(0, sys.argv[1])
from lathe import AutoModelForSequenceClassification

def late(*_):
    raise TimeoutError("late")

for handler in (late, signal.default_int_handler):
    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    try:
        AutoModelForSequenceClassification.from_pretrained(sys.argv[2])
    except BaseException as e:
        print(type(e).__name__)
"""


class Signals(HubCase):
    def test_a_handler_ends_a_download(self):
        big, _ = self.add_big()   # in parts, by other threads
        self.hub.fail("model.safetensors", Fault(cut=1000, stall=20, times=99))
        for name in ("google-bert/bert-base-cased", big):
            result = cl.run([sys.executable, "-c", SCRIPT, str(PACKAGE), name],
                            env=self.environment(HF_HUB_DOWNLOAD_TIMEOUT="20"))
            self.assertEqual(self.succeeds(result).stdout.split(), ["TimeoutError", "KeyboardInterrupt"], name)


if __name__ == "__main__":
    cl.main()
