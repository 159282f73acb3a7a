#!/usr/bin/env python3
"""The Hub in Python: a signal ends a download; Trainer.push_to_hub uploads. Skipped where the package was not built."""
import pathlib
import sys

import command_line as cl
from hub_server import TOKEN, Fault, HubCase

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


PUSH = """
import sys
sys.path.insert(0, sys.argv[1])
from lathe import AutoModelForSequenceClassification, AutoTokenizer, Trainer, TrainingArguments

rows = [{"input_ids": [2, 5 + i, 3], "label": i % 3} for i in range(8)]
model = AutoModelForSequenceClassification.from_pretrained(sys.argv[2])
args = TrainingArguments(sys.argv[3], max_steps=1, push_to_hub=True, hub_token=sys.argv[4], hub_model_id="org/mine")
trainer = Trainer(model, args, train_dataset=rows)
trainer.train()
print(trainer.push_to_hub("from a test"))
"""


class Uploads(HubCase):
    def test_push_to_hub(self):
        out = self.root / "out"
        result = cl.run([sys.executable, "-c", PUSH, str(PACKAGE), cl.MODEL, out, TOKEN], env=self.environment())
        self.assertIn("/org/mine/commit/", self.succeeds(result).stdout.splitlines()[-1])
        self.assertIn("after it, Python's Trainer.push_to_hub() does", result.stderr)
        repository = self.hub.models["org/mine"]
        self.assertEqual(repository.messages, ["from a test"])
        pushed = repository.commits[repository.refs["main"]]
        self.assertEqual(pushed["model.safetensors"], (out / "model.safetensors").read_bytes())


if __name__ == "__main__":
    cl.main()
