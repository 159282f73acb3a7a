"""What the end-to-end tests share: the program, a tiny model, and small data made on the spot."""
import json
import os
import pathlib
import random
import resource
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden" / "tiny_bert"
MODEL = GOLDEN / "classification"
WORDS = "the old bridge is small who opened it turns what runs in engine of new red ship where bank a metal water".split()


def program():
    return str(pathlib.Path(os.environ.get("LATHE_BINARY_DIR", ROOT / "build")) / "lathe")


def write_csv(path, rows, seed):
    """rows questions in three classes; the class shows in the words."""
    draw = random.Random(seed)
    with open(path, "w", encoding="utf-8") as out:
        out.write("sentence1,label\n")
        for i in range(rows):
            text = " ".join(draw.choice(WORDS) for _ in range(draw.randint(3, 12)))
            out.write(f"{text} {['who', 'what', 'where'][i % 3]},{['person', 'thing', 'place'][i % 3]}\n")


def glue_command(folder, train, dev, *more):
    return [program(), "glue", "--model_name_or_path", str(MODEL), "--train_file", str(train), "--validation_file",
            str(dev), "--do_train", "--do_eval", "--per_device_train_batch_size", "8", "--learning_rate", "1e-3",
            "--num_train_epochs", "3", "--max_seq_length", "32", "--output_dir", str(folder), "--use_cpu",
            "--ignore_mismatched_sizes", *more]


def read(path):
    return json.loads(path.read_text(encoding="utf-8"))


def run(command, **keywords):
    return subprocess.run(command, capture_output=True, text=True, timeout=300, **keywords)


def processor_seconds(command):
    """Of the processor's, which other work on the machine does not stretch; and what the command says."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = run(command)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, result.stdout


class CommandsCase(unittest.TestCase):
    """Made questions and the golden models: needs nothing but the program."""

    def setUp(self):
        self.temp = tempfile.TemporaryDirectory()
        self.addCleanup(self.temp.cleanup)
        self.root = pathlib.Path(self.temp.name)
        self.out = self.root / "out"
        self.train, self.dev = self.root / "train.csv", self.root / "dev.csv"
        write_csv(self.train, 48, 1)
        write_csv(self.dev, 12, 2)

    def works(self, command, **keywords):
        result = run(command, **keywords)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result

    def lathe(self, *words, **keywords):
        return self.works([program(), *map(str, words)], **keywords)

    def command(self, *more):
        return glue_command(self.out, self.train, self.dev, "--num_train_epochs", "1", *more)


def shown_by(run, controller):
    """All that a process writes to a terminal until it ends; controller: the side of os.openpty() that is kept."""
    shown = b""
    try:
        while piece := os.read(controller, 4096):
            shown += piece
    except OSError:  # on Linux this means that the other side is closed
        pass
    os.close(controller)
    run.wait(timeout=60)
    return shown


def on_one_core():
    """Keeps this process and its children to one core, where the system lets it: threads that wait for each other spin, which
    tests that run at the same time would stretch fivefold."""
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[os.getpid() % len(cores)]})


def need_transformers():
    """Goes on in $LATHE_HF_PYTHON where this Python has no torch and transformers; exit code 77 where that has none."""
    try:
        import torch, transformers
    except ImportError:
        python = os.environ.pop("LATHE_HF_PYTHON", "")  # once: that Python must not look for another
        if not os.access(python, os.X_OK):
            print("skipped: needs LATHE_HF_PYTHON, a Python with torch and transformers (tools/setup.sh --full)")
            sys.exit(77)
        os.execv(python, [python, *sys.argv])


def main():
    """unittest.main, but for the exit code where a test was skipped: 77, so that ctest does not call the file passed."""
    result = unittest.main(exit=False).result
    sys.exit(1 if not result.wasSuccessful() else 77 if result.skipped else 0)
