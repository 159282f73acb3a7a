#!/usr/bin/env python3
"""--push_to_hub: what a training leaves arrives on the Hub, whole or not at all; and the Hub of the tests takes what
huggingface_hub uploads, too."""
import hashlib
import json
import os
import signal
import subprocess
import sys

import command_line as cl
from hub_server import TOKEN, Fault, HubCase, Repository, wait_until

UPLOADER = """
import sys, huggingface_hub
api = huggingface_hub.HfApi(endpoint=sys.argv[1], token=sys.argv[2])
name = api.create_repo(sys.argv[3], exist_ok=True).repo_id
api.upload_folder(repo_id=name, folder_path=sys.argv[4], commit_message="from Python")
print(name)
"""


class Push(HubCase):
    def setUp(self):
        super().setUp()
        self.out = self.root / "my-model"
        self.table = self.root / "t.csv"
        self.table.write_text("text,label\n" + "the old bridge,a\nwho opened it,b\n" * 8)

    def command(self, *flags):
        return [cl.program(), "glue", "--model_name_or_path", cl.MODEL, "--train_file", self.table, "--do_train",
                "--ignore_mismatched_sizes", "--max_steps", "2", "--save_steps", "1", "--output_dir", self.out,
                "--push_to_hub", *flags]

    def train(self, *flags, **environment):
        return cl.run(self.command(*flags), env=self.environment(HF_TOKEN=TOKEN) | environment)

    def pushed(self, name="me/my-model", revision="main"):
        repository = self.hub.models[name]
        return repository.commits[repository.refs[revision]]

    def fails(self, result, *words, without):
        super().fails(result, *words)
        self.assertNotIn(without, result.stderr)

    def check_nothing_pushed(self):
        self.assertTrue((self.out / "model.safetensors").exists())
        self.assertEqual(set(self.pushed()), {".gitattributes"})

    def check_pushed(self, name="me/my-model"):
        pushed = self.pushed(name)
        for path in self.out.iterdir():
            if path.is_file():
                self.assertEqual(pushed.get(path.name), path.read_bytes(), path.name)
        self.assertIn("model.safetensors", pushed)
        self.assertFalse([file for file in pushed if file.startswith("checkpoint-")])

    def test_the_result_is_uploaded_and_can_be_fetched(self):
        result = self.succeeds(self.train("--report_to", "tensorboard"))
        self.check_pushed()
        self.assertTrue([file for file in self.pushed() if file.startswith("runs/")])
        self.assertEqual(self.hub.models["me/my-model"].messages, ["End of training"])
        self.assertIn(f"{self.hub.url}/me/my-model/commit/", result.stderr + result.stdout)
        self.assertNotIn(TOKEN, result.stderr + result.stdout)
        predicted = cl.run([cl.program(), "predict", "me/my-model", "the old bridge"], env=self.environment())
        self.assertIn(self.succeeds(predicted).stdout.split()[0], ("a", "b"))

    def test_names_rights_and_branches(self):
        self.hub.models["org/there"] = Repository({".gitattributes": b""})
        self.hub.models["org/there"].commit({".gitattributes": b""}, "dev")
        self.succeeds(self.train("--hub_model_id", "org/there", "--hub_revision", "dev", "--hub_token", TOKEN,
                                 "--hub_strategy", "end", HF_TOKEN="hf_other"))
        self.assertIn("model.safetensors", self.pushed("org/there", "dev"))
        self.assertNotIn("model.safetensors", self.pushed("org/there"))
        self.succeeds(self.train("--overwrite_output_dir", "--hub_model_id", "org/secret", "--hub_private_repo"))
        self.assertEqual(self.hub.models["org/secret"].access, "private")

    def test_a_missing_right_is_told_before_the_training(self):
        for flags, environment, words in (((), {"HF_TOKEN": ""}, ["found no token", "settings/tokens"]),
                                          ((), {"HF_TOKEN": "hf_wrong"}, ["may not write", "HTTP 401"]),
                                          (("--hub_model_id", "google/x"), {}, ["google/x", "may not write", "HTTP 403"]),
                                          (("--hub_model_id", "a/b/c"), {}, ["a/b/c", "organisation/name"]),
                                          ((), {"HF_HUB_OFFLINE": "1"}, ["HF_HUB_OFFLINE"])):
            result = self.train(*flags, **environment)
            self.assertNotEqual(result.returncode, 0)
            for word in words:
                self.assertIn(word, result.stderr)
            self.assertFalse(self.out.exists(), flags)

    def test_parts(self):
        self.hub.part_bytes = 10_000
        self.succeeds(self.train())
        self.check_pushed()
        self.assertGreater(self.hub.count("PUT", "/store/"), 3)

    def test_faults(self):
        for name, on in (("", "put"), ("commit", "post"), ("batch", "post"), ("preupload", "post"), ("create", "post")):
            self.hub.fail(name, Fault(on=on, status=503, times=2))
        self.succeeds(self.train())
        self.check_pushed()

    def test_what_fails_in_the_end_keeps_the_model_and_names_the_way(self):
        self.hub.fail("commit", Fault(on="post", status=403, times=1))
        result = self.train()
        self.assertEqual(result.returncode, 1)
        self.assertIn(f"hf upload me/my-model {self.out}", result.stderr)
        self.check_nothing_pushed()
        sent = self.hub.count("PUT", "/store/")
        self.assertGreater(sent, 0)
        self.assertIn("give the same command again: it trains nothing", result.stderr)
        result = self.succeeds(self.train())
        self.assertIn("nothing to train", result.stderr)
        self.check_pushed()
        self.assertEqual(self.hub.count("PUT", "/store/"), sent)

    def test_the_same_command_is_no_way_where_it_trains_again(self):
        for flags in (("--save_strategy", "no"), ("--overwrite_output_dir",)):
            self.hub.fail("commit", Fault(on="post", status=400))
            self.fails(self.train(*flags), 'making the commit of model "me/my-model"', "HTTP 400",
                       f"hf upload me/my-model {self.out}", without="same command")

    def test_a_refusal_of_the_storage_is_not_one_of_the_token(self):
        self.hub.fail("", Fault(on="put", status=403))
        self.fails(self.train(), "model.safetensors: the Hub's storage refuses it (HTTP 403); try again", without="HF_TOKEN")
        self.check_nothing_pushed()
        self.succeeds(self.train())
        self.check_pushed()

    def test_a_stop_keeps_the_model_and_says_what_is_committed(self):
        for on, step, words in (("put", "", "stopped; nothing is committed, what was sent need not be sent again"),
                                ("post", "commit", f"{self.hub.url}/me/my-model/commits/main tells whether it was made")):
            self.hub.fail(step, Fault(on=on, stall=30))
            asked = self.hub.count(on.upper(), step or "/store/")
            run = subprocess.Popen(self.command(), env=self.environment(HF_TOKEN=TOKEN), stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE, text=True)
            self.assertTrue(wait_until(lambda on=on, step=step, asked=asked:
                                       self.hub.count(on.upper(), step or "/store/") > asked))
            run.send_signal(signal.SIGINT)
            error = run.communicate(timeout=60)[1]
            self.assertEqual(run.returncode, -signal.SIGINT, error)
            self.assertIn(words, error)
            self.assertIn(f"hf upload me/my-model {self.out}", error)
            self.assertNotIn("fetched", error)
            self.check_nothing_pushed()
        self.succeeds(self.train())
        self.check_pushed()

    def test_odd_answers(self):
        self.hub.part_bytes = 10_000
        for step in ("create", "preupload", "batch", "commit"):
            for body in (b"<html>", b"", b"7", b"[]", b"{}", b'{"url": 1, "files": 1, "objects": 1, "commitUrl": 1}',
                         b'{"url": "/", "files": [1], "objects": [1], "commitUrl": []}', b'{"files": []}',
                         b'{"files": [{"path": "config.json", "uploadMode": 1}], "objects": [{"oid": 1}]}',
                         b'{"files": [{"path": "config.json", "uploadMode": "other"}]}'):
                self.hub.fail(step, Fault(on="post", body=body))
                self.fails(self.train(), without="fault of lathe")
                self.assertIsNone(self.hub.take_fault(step, "post"), "it was not asked for")
        self.hub.stored = {}
        self.hub.fail("complete", Fault(on="post", body=b"<html>"))   # of which only the status counts
        self.fails(self.train(), "model.safetensors", "HTTP 404", without="fault of lathe")
        self.check_nothing_pushed()
        self.hub.fail("verify", Fault(on="post", body=b"[]"))   # as there
        self.succeeds(self.train())
        self.check_pushed()

    def test_odd_places(self):
        self.hub.part_bytes = 10_000
        for said in ("1e30", "inf", "nan", "1e19", 1e30, "0", "0.5", "-1", "", "x", [], [1], True):
            self.hub.chunk_size = lambda _, said=said: said
            self.fails(self.train(), f"chunk_size: found {json.dumps(said)}, expected the bytes of a part", without="fault of lathe")
        digest = hashlib.sha256((self.out / "model.safetensors").read_bytes()).hexdigest()
        for place, word in (({"error": {"code": 422}}, "the Hub refuses it"), ({"actions": 1}, "upload"), ({"actions": {}}, "upload"),
                            ({"actions": {"upload": 1}}, "href"), ({"actions": {"upload": {"href": 1}}}, "href"),
                            ({"actions": {"upload": {"href": "ftp://x"}}}, "after 5 tries")):
            answer = json.dumps({"objects": [{"oid": digest} | place]}).encode()
            self.hub.fail("batch", Fault(on="post", body=answer))
            self.fails(self.train(), "model.safetensors", word, without="fault of lathe")
        self.assertEqual(self.hub.count("PUT", "/store/"), 0)
        self.check_nothing_pushed()

    def test_names_links_and_empty_files(self):
        self.out.mkdir()
        outside = self.root / "outside"
        outside.mkdir()
        (outside / "secret.txt").write_text("not of the model")
        (self.out / "empty.bin").touch()
        (self.out / "notes.txt").write_text("kept")
        (self.out / "more").mkdir()
        (self.out / "more" / "deep.txt").write_text("deep")
        for name, target in (("last", "checkpoint-2"), ("self", "."), ("more/up", ".."), ("gone", "nothing"),
                             ("elsewhere", outside), ("same.txt", "notes.txt"), ("linked.txt", outside / "secret.txt")):
            (self.out / name).symlink_to(target)
        self.succeeds(self.train("--overwrite_output_dir"))
        pushed = self.pushed()
        expected = {path.name for path in self.out.iterdir() if path.is_file()} | {"more/deep.txt", ".gitattributes"}
        self.assertEqual(set(pushed), {name for name in expected if not name.startswith(("_", "."))} | {".gitattributes"})
        self.assertEqual([pushed[name] for name in ("empty.bin", "same.txt", "linked.txt", "more/deep.txt")],
                         [b"", b"kept", b"not of the model", b"deep"])

    def test_a_name_that_is_no_text(self):
        self.out.mkdir()
        name = os.fsencode(self.out) + b"/caf\xe9.txt"
        try:
            open(name, "wb").close()
        except OSError:
            self.skipTest("needs a file system that takes any name")
        self.fails(self.train("--overwrite_output_dir"), "caf\\xe9.txt", "UTF-8", "rename", f"hf upload me/my-model {self.out}",
                   without="fault of lathe")
        self.assertEqual(self.hub.count("POST", "/preupload/"), 0)
        self.check_nothing_pushed()
        os.remove(name)
        self.succeeds(self.train())

    def test_huggingface_hub_uploads_to_the_same_hub(self):
        folder = self.root / "folder"
        folder.mkdir()
        (folder / "model.safetensors").write_bytes(os.urandom(30_000))
        (folder / "config.json").write_text("{}")
        (folder / "empty.bin").touch()
        for size in (0, 10_000):
            self.hub.part_bytes, self.hub.stored = size, {}
            result = cl.run([sys.executable, "-c", UPLOADER, self.hub.url, TOKEN, "theirs", folder],
                            env=self.environment(HF_HUB_DISABLE_XET="1"))
            self.assertEqual(self.succeeds(result).stdout.strip().splitlines()[-1], "me/theirs")
            for path in folder.iterdir():
                self.assertEqual(self.pushed("me/theirs")[path.name], path.read_bytes())


if __name__ == "__main__":
    cl.main()
