#!/usr/bin/env python3
"""Names are fetched from a Hub into the cache that Python's huggingface_hub shares: once, whole, also over bad lines and
from servers that send nonsense; and the cache never holds a file without the announced hash."""
import hashlib
import json
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys
import unittest

import command_line as cl
import hub_server
from hub_server import MODEL, Fault, HubCase

try:
    import huggingface_hub
except ImportError:
    huggingface_hub = None


class Fetching(HubCase):
    def test_a_name_is_fetched_once_and_found_without_the_network_afterwards(self):
        first = self.succeeds(self.info())
        self.assertIn("fetched model.safetensors", first.stderr)
        self.assertIn(f"[INFO] no folder {MODEL} here; looking on the Hub\n", first.stderr)
        size = sum(len(content) for content in self.files.values())
        self.assertRegex(first.stderr, rf"\[INFO\] fetched {len(self.files)} files, {size / 1e6:.1f} MB: .*/snapshots/")
        self.check_cache()
        fetched = {p.name for p in self.cache().glob("snapshots/*/*")}
        self.assertEqual(fetched, set(self.files))   # neither the card nor other frameworks' weights
        asked = len(self.hub.requests)
        self.assertEqual(self.succeeds(self.info()).stdout, first.stdout)
        self.assertEqual(self.succeeds(self.info(HF_HUB_OFFLINE="1")).stdout, first.stdout)
        self.assertEqual(len(self.hub.requests), asked)
        self.assertTrue((self.home / "hub" / "CACHEDIR.TAG").exists())

    def test_an_old_name_leads_to_the_organisation_that_has_it_now(self):
        self.hub.moved["bert-base-cased"] = MODEL
        self.succeeds(self.info("bert-base-cased"))
        self.assertTrue(self.cache("bert-base-cased").is_dir())
        self.succeeds(self.info("bert-base-cased", HF_HUB_OFFLINE="1"))

    def test_offline_says_what_is_missing(self):
        self.fails(self.info(HF_HUB_OFFLINE="1"), MODEL, "HF_HUB_OFFLINE", "models--google-bert--bert-base-cased")
        self.assertEqual(self.hub.requests, [])
        self.succeeds(self.info())
        next(self.cache().glob("snapshots/*/model.safetensors")).unlink()
        self.fails(self.info(HF_HUB_OFFLINE="1"), "on this machine in part", "has no model.safetensors", "HF_HUB_OFFLINE")

    def test_the_form_of_a_name_that_is_whole(self):
        self.hub.moved["bert-base-cased"] = MODEL
        self.succeeds(self.info("bert-base-cased"))
        partial = self.cache() / "snapshots" / "0" / "config.json"   # as Python leaves it
        partial.parent.mkdir(parents=True)
        (self.cache() / "refs").mkdir()
        (self.cache() / "refs" / "main").write_text("0")
        partial.write_bytes(self.files["config.json"])
        self.assertIn("/models--bert-base-cased/", self.succeeds(self.info(HF_HUB_OFFLINE="1")).stdout)

    def test_revisions(self):
        old = self.hub.models[MODEL].refs["main"]
        changed = json.loads(self.files["config.json"]) | {"note": 1}
        self.hub.models[MODEL].commit(self.files | {"config.json": json.dumps(changed).encode()}, "v2")
        for revision, commit in (("v2", self.hub.models[MODEL].refs["v2"]), (old, old), ("main", old)):
            out = self.succeeds(cl.run([cl.program(), "glue", "--model_name_or_path", MODEL, "--model_revision", revision,
                                        "--do_eval", "--validation_file", str(self.data()), "--output_dir",
                                        str(self.root / "out"), "--use_cpu"], env=self.environment()))
            self.assertTrue((self.cache() / "snapshots" / commit / "config.json").exists(), out.stderr)
        self.assertEqual((self.cache() / "refs" / "v2").read_text(), self.hub.models[MODEL].refs["v2"])
        self.assertEqual(len(list(self.cache().glob("blobs/*"))), len(self.files) + 1)   # what is the same lies there once
        self.check_cache()

    def data(self):
        path = self.root / "dev.csv"
        labels = json.loads(self.files["config.json"])["id2label"].values()
        path.write_text("sentence1,label\n" + "".join(f"the old bridge,{label}\n" for label in labels))
        return path

    def test_pickled_weights_only_where_there_are_no_others(self):
        self.hub.models[MODEL].commit(self.files | {"pytorch_model.bin": b"no pickle"})
        self.succeeds(self.info())
        self.assertEqual(self.hub.count("HEAD", "pytorch_model.bin"), 0)
        pickled = {k: v for k, v in self.files.items() if k != "model.safetensors"} | {"pytorch_model.bin": b"no pickle"}
        self.hub.models["a/pickled"] = hub_server.Repository(pickled)
        self.fails(self.info("a/pickled"), "pytorch_model.bin")
        self.hub.models["a/empty"] = hub_server.Repository({"config.json": self.files["config.json"]})
        self.fails(self.info("a/empty"), "has neither model.safetensors nor pytorch_model.bin")

    def test_an_adapter_brings_its_base(self):
        lora = cl.ROOT / "tests" / "golden" / "peft" / "bert" / "adapter"
        said = json.loads((lora / "adapter_config.json").read_text()) | {"base_model_name_or_path": MODEL}
        self.hub.models["me/small"] = hub_server.Repository(
            {"adapter_config.json": json.dumps(said).encode(),
             "adapter_model.safetensors": (lora / "adapter_model.safetensors").read_bytes(), "README.md": b"a card\n"})
        for offline in ({}, {"HF_HUB_OFFLINE": "1"}):
            shown = self.succeeds(self.info("me/small", **offline)).stdout
            self.assertRegex(shown, rf"adapter         LoRA of .*{MODEL.replace('/', '--')}.*: r {said['r']}, ")
        self.assertEqual({p.name for p in self.cache("me/small").glob("snapshots/*/*")},
                         {"adapter_config.json", "adapter_model.safetensors"})
        self.assertTrue(self.cache().is_dir())

    def test_large_files_come_in_parts(self):
        name, content = self.add_big()
        self.fails(self.info(name), "safetensors")   # noise is no safetensors file, but it is what was asked for
        blob = self.cache(name) / "blobs" / hashlib.sha256(content).hexdigest()
        self.assertEqual(blob.read_bytes(), content)
        ranges = [h["Range"] for m, p, h in self.hub.requests if m == "GET" and "model.safetensors" in p and "Range" in h]
        self.assertEqual(len(set(ranges)), 3)
        self.assertEqual([p.name for p in blob.parent.glob("*.incomplete*")], [])

    def test_a_server_without_ranges(self):
        name, content = self.add_big()
        self.hub.fail("model.safetensors", Fault(times=99, ranges=False))
        self.fails(self.info(name), "safetensors")
        self.assertEqual((self.cache(name) / "blobs" / hashlib.sha256(content).hexdigest()).read_bytes(), content)

    def test_shards_are_those_that_the_index_names(self):
        sharded = cl.ROOT / "tests/golden/formats/sharded"
        files = {k: v for k, v in self.files.items() if k != "model.safetensors"} | {
            p.name.replace("model-0", "part-0"): p.read_bytes().replace(b'"model-0', b'"part-0') for p in sharded.iterdir()}
        self.hub.models["a/sharded"] = hub_server.Repository(files | {"model-old.safetensors": b"x"})
        self.succeeds(self.info("a/sharded"))
        self.succeeds(self.info("a/sharded", HF_HUB_OFFLINE="1"))
        self.assertEqual(self.hub.count("HEAD", "part-0"), 4)
        self.assertEqual(self.hub.count("HEAD", "model-old"), 0)


class Tokens(HubCase):
    def test_private_and_gated(self):
        self.hub.models["a/private"] = hub_server.Repository(self.files, "private")
        self.hub.models["a/gated"] = hub_server.Repository(self.files, "gated")
        self.fails(self.info("a/private"), "private", "HF_TOKEN", "HTTP 401")
        self.fails(self.info("a/gated"), "gated", "HF_TOKEN", self.hub.url + "/a/gated")
        self.fails(self.info("a/gated", HF_TOKEN="wrong"), "gated", "no access yet")
        self.fails(self.info("a/private", HF_TOKEN="wrong"), "does not accept the token")
        self.succeeds(self.info("a/private", HF_TOKEN=hub_server.TOKEN))
        self.home.joinpath("token").write_text(hub_server.TOKEN + "\n")
        self.succeeds(self.info("a/gated"))
        self.check_cache()

    def test_a_token_is_one_word(self):
        self.home.mkdir()
        self.home.joinpath("token").write_text(hub_server.TOKEN + "\nX-Second: 1\n")
        self.hub.models["a/private"] = hub_server.Repository(self.files, "private")
        self.succeeds(self.info("a/private"))
        self.assertFalse(any("X-Second" in headers for _, _, headers in self.hub.requests))

    def test_an_endpoint_that_wants_a_password(self):
        self.hub.password = "me:pass-word"
        endpoint = self.hub.url.replace("://", "://me:pass-word@")
        self.hub.fail("", Fault(on="api", body=b"[]"))
        self.assertNotIn("pass-word", self.fails(self.info(HF_ENDPOINT=endpoint), "expected an object").stderr)
        self.hub.fail("config.json", Fault(on="head", headers={"X-Repo-Commit": "main"}))
        self.assertNotIn("pass-word", self.fails(self.info(HF_ENDPOINT=endpoint), "X-Repo-Commit").stderr)
        self.succeeds(self.info(HF_ENDPOINT=endpoint))

    def test_a_proxy_that_wants_a_password(self):
        self.hub.fail("", Fault(on="api", status=407))
        for environment in ({}, {"HF_ENDPOINT": "https://hub.invalid", "https_proxy": self.hub.url}):
            result = self.fails(self.info(**environment), "the proxy needs a user and password (HTTP 407)")
            self.assertNotIn("tries", result.stderr)

    @unittest.skipUnless(shutil.which("openssl"), "no openssl to make a certificate with")
    def test_a_certificate_of_ones_own(self):
        certificate, key = self.root / "own.pem", self.root / "key.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                        "-subj", "/CN=hub", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate],
                       check=True, capture_output=True)
        self.hub.web.encrypt(certificate, key)
        endpoint = self.hub.url.replace("http:", "https:")
        self.fails(self.info(HF_ENDPOINT=endpoint), "certificate", "SSL_CERT_FILE")
        self.fails(self.info(HF_ENDPOINT=endpoint, SSL_CERT_FILE="/not/there.pem"), "/not/there.pem (SSL_CERT_FILE")
        self.succeeds(self.info(HF_ENDPOINT=endpoint, SSL_CERT_FILE=str(certificate)))

    def test_the_password_of_the_endpoint_is_not_shown(self):
        self.hub.models["a/gated"] = hub_server.Repository(self.files, "gated")
        endpoint = self.hub.url.replace("://", "://me:pass-word@")
        for name, token in (("a/gated", ""), ("a/missing", ""), ("a/missing", "wrong")):
            result = self.fails(self.info(name, HF_ENDPOINT=endpoint, HF_TOKEN=token), self.hub.url)
            self.assertNotIn("pass-word", result.stderr)
        result = cl.run([cl.program(), "info", MODEL], env=self.environment(HF_ENDPOINT="me:pass-word@hub"))
        self.assertIn("expected a URL", result.stderr)
        self.assertNotIn("pass-word", result.stderr)
        self.hub.web.close()
        result = self.fails(self.info(HF_ENDPOINT=endpoint), "after 5 tries")
        self.assertNotIn("pass-word", result.stderr)
        self.hub.web.thread.join(1)

    def test_the_token_does_not_go_to_the_cdn(self):
        self.succeeds(self.info(HF_TOKEN=hub_server.TOKEN))
        cdn = [h for m, p, h in self.hub.requests if p.count("/") == 2 and p.endswith("/model.safetensors")]
        self.assertTrue(cdn)
        self.assertFalse(any("Authorization" in h for h in cdn))

    def test_what_is_not_there(self):
        self.fails(self.info("a/none"), '"a/none"', "check the spelling", self.hub.url)
        self.fails(self.info("a/none", HF_TOKEN=hub_server.TOKEN), '"a/none"', "HTTP 404")
        result = cl.run([cl.program(), "glue", "--model_name_or_path", MODEL, "--model_revision", "v9", "--do_eval",
                         "--validation_file", "x.csv", "--output_dir", str(self.root / "o")], env=self.environment())
        self.fails(result, 'no revision "v9"')


class BadLines(HubCase):
    def test_a_cut_connection_is_gone_on_with(self):
        size = len(self.files["model.safetensors"])
        self.hub.fail("model.safetensors", Fault(cut=size // 3))
        self.hub.fail("model.safetensors", Fault(cut=size // 3))
        result = self.succeeds(self.info())
        self.assertIn("trying again", result.stderr)
        ranges = [h.get("Range") for m, p, h in self.hub.requests if m == "GET" and "resolve" in p and "safetensors" in p]
        self.assertEqual(ranges, [None, f"bytes={size // 3}-{size - 1}", f"bytes={size // 3 * 2}-{size - 1}"])
        self.check_cache()

    def test_tries_are_bounded_and_the_next_run_goes_on(self):
        size = len(self.files["model.safetensors"])
        self.hub.fail("model.safetensors", Fault(cut=100, times=5))
        self.fails(self.info(), "model.safetensors", "after 5 tries", "give the same command to go on")
        self.assertEqual(self.hub.count("GET", "resolve/" + self.hub.models[MODEL].refs["main"] + "/model.safetensors"), 5)
        partial = next(self.cache().glob("blobs/*.incomplete"))
        self.assertEqual(partial.read_bytes(), self.files["model.safetensors"][:500])
        self.succeeds(self.info())
        self.assertEqual(self.hub.requests[-1][2]["Range"], f"bytes=500-{size - 1}")
        self.check_cache()

    def test_an_interrupted_download_is_resumed(self):
        name, content = self.add_big()
        self.hub.fail("model.safetensors", Fault(cut=1 << 20, stall=20, times=9))
        run = subprocess.Popen([cl.program(), "info", name], env=self.environment(HF_HUB_DOWNLOAD_TIMEOUT="20"),
                               stderr=subprocess.PIPE, text=True)
        blobs = self.cache(name) / "blobs"
        arrived = lambda: sum(p.stat().st_size for p in blobs.glob("*.incomplete.part*")) >= 3 << 20
        self.assertTrue(hub_server.wait_until(arrived))
        run.send_signal(signal.SIGTERM)
        error = run.communicate(timeout=60)[1]
        self.assertEqual(run.returncode, -signal.SIGTERM)
        self.assertIn("stopped; what was fetched is kept", error)
        self.hub.faults.clear()
        before = len(self.hub.requests)
        self.fails(self.info(name), "safetensors")
        begins = sorted(int(h["Range"].split("=")[1].split("-")[0]) for _, p, h in self.hub.requests[before:]
                        if "Range" in h and "resolve" in p)
        self.assertEqual(begins, [1 << 20, 17 << 20, 33 << 20])
        self.assertEqual((blobs / hashlib.sha256(content).hexdigest()).read_bytes(), content)

    def test_a_wrong_hash_never_enters_the_cache(self):
        self.hub.fail("model.safetensors", Fault(wrong=True))
        self.fails(self.info(), "model.safetensors", "thrown away", hashlib.sha256(self.files["model.safetensors"]).hexdigest())
        self.assertEqual(list(self.cache().glob("blobs/*.incomplete")), [])
        self.assertEqual(list(self.cache().glob("snapshots/*/model.safetensors")), [])
        self.hub.fail("config.json", Fault(wrong=True))
        self.succeeds(self.info())   # config.json is there by now

    def test_what_lay_there_was_something_else(self):
        blob = self.cache() / "blobs" / (hashlib.sha256(self.files["model.safetensors"]).hexdigest() + ".incomplete")
        blob.parent.mkdir(parents=True)
        blob.write_bytes(b"something else")
        pathlib.Path(f"{blob}.part0").write_bytes(b"something else")
        self.succeeds(self.info())
        self.check_cache()
        self.assertEqual(list(blob.parent.glob("*.incomplete*")), [])

    def test_what_comes_again_is_no_progress(self):
        self.hub.models["a/model"] = hub_server.Repository(self.files | {"model.safetensors": bytes(3 << 20)})
        for _ in range(3):   # whole answers break off, and there are no ranges
            self.hub.fail("model.safetensors", Fault(cut=2 << 20))
            self.hub.fail("model.safetensors", Fault(status=416))
        run = subprocess.Popen([cl.program(), "info", "a/model"], env=self.environment(), stderr=subprocess.PIPE, text=True)
        waits = []
        while len(waits) < 3:
            waits += re.findall(r"trying again in (\S+) s", run.stderr.readline())
        run.kill()
        run.communicate()
        self.assertEqual(waits, ["0.05", "0.1", "0.2"])

    def test_too_many_requests(self):
        self.hub.fail("", Fault(on="api", status=429, headers={"Retry-After": "1"}))
        self.hub.fail("model.safetensors", Fault(status=429, headers={"Retry-After": "1"}))
        self.assertEqual(self.succeeds(self.info()).stderr.count("HTTP 429; trying again in 1 s"), 2)
        self.hub.models["a/later"] = hub_server.Repository(self.files)
        self.hub.fail("", Fault(on="api", status=429, headers={"Retry-After": "4000"}))
        self.fails(self.info("a/later"), "come back in 4000 s", "HF_TOKEN")

    def test_a_stalled_server(self):
        self.hub.fail("model.safetensors", Fault(cut=1000, stall=20))
        result = self.succeeds(self.info(HF_HUB_DOWNLOAD_TIMEOUT="1"))
        self.assertIn("less than 1024 bytes a second, for 1 s", result.stderr)

    def test_an_answer_that_comes_slowly_for_ever(self):
        self.hub.fail("", Fault(on="api", drip=(4096, 0.1), times=9))
        result = self.fails(self.info(HF_HUB_ETAG_TIMEOUT="0.2"), "an answer that took longer than 2.4 s")
        self.assertNotIn("2.4 s; trying again", result.stderr)
        # On a busy machine the first byte may come after 0.2 s; such an attempt is told, and made again.
        self.assertEqual(self.hub.count("GET", "/api/"), 1 + result.stderr.count("trying again"))

    def test_answers_that_are_too_large(self):
        self.hub.fail("", Fault(on="api", drip=(1 << 20, 0)))
        self.fails(self.info(), "an answer of more than 16777216 bytes")
        self.assertEqual(self.hub.count("GET", "/api/"), 1)
        self.hub.fail("", Fault(on="api", status=500, headers={f"X-{i}": "y" * 60000 for i in range(9)}, times=9))
        self.fails(self.info(), "an answer with more than 262144 bytes of headers")
        self.hub.faults.clear()
        self.hub.fail("config.json", Fault(status=404, drip=(4096, 0), times=9))
        self.fails(self.info(), "config.json", "an answer of more than 65536 bytes")
        self.hub.fail("config.json", Fault(on="head", headers={"X-Linked-Size": str(65 << 20)}))
        self.fails(self.info(), "config.json", "announced, expected at most 67108864")

    def test_server_errors(self):
        self.hub.fail("", Fault(on="api", status=503))
        self.hub.fail("model.safetensors", Fault(on="head", status=500, times=2))
        self.succeeds(self.info())
        self.hub.models["a/down"] = hub_server.Repository(self.files)
        self.hub.fail("", Fault(on="api", status=502, times=5))
        self.fails(self.info("a/down"), "HTTP 502")

    def test_nobody_answers(self):
        self.hub.web.close()
        self.fails(self.info(), "after 5 tries", "proxy", "HF_ENDPOINT")
        self.hub.web.thread.join(1)

    def test_a_full_disk(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (8 << 20, 8 << 20))
        name, _ = self.add_big()
        self.fails(self.info(name, {"preexec_fn": limit}), "cannot write", "make room", "HF_HUB_CACHE")


class Nonsense(HubCase):
    def test_answers_of_the_api(self):
        commit = "0" * 40
        for body, word in ((b"", "an empty file"), (b"<html>", "a web page"), (b"[]", "expected an object"), (b'{"siblings": []}', "sha"),
                           (json.dumps({"sha": "../x", "siblings": []}).encode(), "40 digits"),
                           (json.dumps({"sha": commit, "siblings": 3}).encode(), "siblings"),
                           (json.dumps({"sha": commit, "siblings": [{"rfilename": 3}]}).encode(), "rfilename"),
                           (json.dumps({"sha": commit, "siblings": [{"rfilename": "../../x"}]}).encode(), "leads out"),
                           (json.dumps({"sha": commit, "siblings": [{"rfilename": "/etc/x"}]}).encode(), "leads out")):
            self.hub.fail("", Fault(on="api", body=body))
            self.fails(self.info(), word)

    def test_descriptions_of_files(self):
        for headers, word in (({"X-Linked-Etag": '"../../../x"'}, "ETag"), ({"X-Linked-Etag": '""', "ETag": '"A B"'}, "ETag"),
                              ({"X-Linked-Size": "many"}, "X-Linked-Size"), ({"X-Linked-Size": "-1"}, "X-Linked-Size"),
                              ({"X-Repo-Commit": "main"}, "X-Repo-Commit")):
            self.hub.fail("model.safetensors", Fault(on="head", headers=headers))
            self.fails(self.info(), word, "no Hugging Face Hub")

    def test_sizes_that_are_wrong(self):
        size = len(self.files["model.safetensors"])
        self.hub.fail("model.safetensors", Fault(on="head", headers={"X-Linked-Size": str(size - 10)}))
        self.fails(self.info(), "thrown away")
        self.hub.fail("model.safetensors", Fault(on="head", headers={"X-Linked-Size": str(1 << 60)}))
        self.fails(self.info(), "free")
        self.succeeds(self.info())


class SharedCache(HubCase):
    def test_two_processes_at_once(self):
        name, content = self.add_big()
        runs = [subprocess.Popen([cl.program(), "info", name], env=self.environment(), stdout=subprocess.DEVNULL,
                                 stderr=subprocess.PIPE, text=True)
                for _ in range(2)]
        for run in runs:
            self.assertIn("safetensors", run.communicate(timeout=120)[1])
        ranges = [h["Range"] for m, p, h in self.hub.requests if "resolve" in p and "Range" in h]
        self.assertEqual(len(ranges), 3)   # one of them waited
        self.assertEqual((self.cache(name) / "blobs" / hashlib.sha256(content).hexdigest()).read_bytes(), content)
        self.check_cache()

    @unittest.skipUnless(huggingface_hub, "needs the package huggingface_hub (tools/setup.sh --test)")
    def test_python_finds_offline_what_lathe_fetched(self):
        self.succeeds(self.info())
        folder = self.python("local_files_only=True")
        self.assertEqual(folder, str(self.cache() / "snapshots" / self.hub.models[MODEL].refs["main"]))
        asked = self.hub.count("GET", "")
        # Online it asks only for the rest.
        self.python("")
        self.assertEqual(self.hub.count("GET", "model.safetensors"), 2)   # Lathe's one, at the Hub and at the CDN
        self.assertGreater(self.hub.count("GET", ""), asked)
        self.check_cache()

    @unittest.skipUnless(huggingface_hub, "needs the package huggingface_hub (tools/setup.sh --test)")
    def test_lathe_finds_offline_what_python_fetched(self):
        self.python("")
        asked = len(self.hub.requests)
        self.succeeds(self.info(HF_HUB_OFFLINE="1"))
        self.succeeds(self.info())
        self.assertEqual(len(self.hub.requests), asked)

    @unittest.skipUnless(huggingface_hub, "needs the package huggingface_hub (tools/setup.sh --test)")
    def test_what_python_fetched_in_part_is_completed(self):
        self.python("allow_patterns=['*.json']")
        self.succeeds(self.info())
        self.assertEqual(self.hub.count("GET", "/config.json"), 1)
        self.check_cache()

    def python(self, arguments):
        script = f"import huggingface_hub; print(huggingface_hub.snapshot_download({MODEL!r}, {arguments}))"
        result = cl.run([sys.executable, "-c", script], env=self.environment(HF_HUB_DISABLE_XET="1"))
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout.strip()


if __name__ == "__main__":
    cl.main()
