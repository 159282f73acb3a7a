"""What tests of bad input share: a model and data that may be broken, and how an error looks."""
import json
import os
import pathlib
import shutil
import struct
import tempfile
import unittest
import unittest.mock

import command_line as cl

GOOD_CSV = "sentence1,label\n" + "".join(f"the old bridge {w},{w}\n" for w in ("who", "what", "where")) * 4


def split_weights(path):
    """Header (a dictionary) and data of a safetensors file."""
    content = path.read_bytes()
    size = struct.unpack("<Q", content[:8])[0]
    return json.loads(content[8:8 + size]), content[8 + size:]


def join_weights(path, header, data):
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def set_values(path, tensor, value):
    """Every element of an F32 tensor becomes `value`."""
    header, data = split_weights(path)
    begin, end = header[tensor]["data_offsets"]
    join_weights(path, header, data[:begin] + struct.pack("<f", value) * ((end - begin) // 4) + data[end:])


def files_below(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*")) if folder.exists() else []


class BadInputCase(unittest.TestCase):
    def setUp(self):
        self.temp = tempfile.TemporaryDirectory()
        self.addCleanup(self.temp.cleanup)
        self.root = pathlib.Path(self.temp.name)
        self.model = self.root / "model"
        shutil.copytree(cl.MODEL, self.model)
        self.train = self.root / "train.csv"
        self.dev = self.root / "dev.csv"
        self.out = self.root / "out"
        environment = unittest.mock.patch.dict(os.environ)  # data that is somewhere else would be found
        environment.start()
        self.addCleanup(environment.stop)
        os.environ.pop("LATHE_DATA_DIR", None)
        self.train.write_text(GOOD_CSV)
        self.dev.write_text(GOOD_CSV)

    def command(self, *more):
        command = cl.glue_command(self.out, self.train, self.dev, *more)
        command[command.index(str(cl.MODEL))] = str(self.model)
        return command

    def fails(self, command, *words, code=1, keep=()):
        """The command ends with `code` and one error that holds all the words; the output holds only `keep`."""
        result = cl.run(command)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        self.assertEqual(result.stderr.count("error: "), 1, result.stderr)
        message = result.stderr[result.stderr.index("error: "):]
        for word in words:
            self.assertIn(str(word), message)
        self.assertEqual(files_below(self.out), sorted(keep))
        return message

    def works(self, command):
        result = cl.run(command)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result
