"""A Hugging Face Hub on loopback, as far as Lathe and huggingface_hub need one to fetch and to upload: api/…/revision,
api/…/tree, resolve with redirects to a "CDN" on another port, ranges, tokens; faults on demand: statuses, cut connections,
wrong bytes, stalls. hub_store.py takes what is uploaded."""
import base64
import hashlib
import http.server
import json
import os
import pathlib
import random
import re
import socket
import ssl
import tempfile
import threading
import time
import unittest
import urllib.parse

import command_line as cl
from hub_store import LFS, TOKEN, Repository, Storage, Uploads


def git_sha1(content):
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


class Fault:
    """What goes wrong with the next `times` requests for a file's bytes (or, with on="head" or "api", for its description
    or the list of files; with on="put" for a file's way to the storage, on="post" for a step of an upload)."""

    def __init__(self, on="get", times=1, status=None, headers=(), cut=None, wrong=False, stall=None, ranges=True,
                 body=None, drip=None):
        self.on, self.times, self.status, self.headers = on, times, status, dict(headers)
        self.drip = drip   # (bytes, seconds): an answer without an end, this number of bytes at a time
        self.cut, self.wrong, self.stall, self.ranges, self.body = cut, wrong, stall, ranges, body


class Hub:
    def __init__(self):
        self.models, self.datasets, self.moved = {}, {}, {}
        self.faults = {}     # file name, or "" for the API → [Fault]
        self.requests = []   # (method, path, headers)
        self.stored = {}     # SHA-256 → content of the large file storage
        self.parts = {}      # (SHA-256, part) → content
        self.part_bytes = 0  # larger files come in parts of this size; 0: none do
        self.chunk_size = str   # how that size is said
        self.writers = {"me", "org"}   # the names under which TOKEN may make repositories
        self.password = ""   # "user:password", which the API and the files then need
        self.lock = threading.Lock()
        self.stopping = threading.Event()
        self.cdn = _Server(self, _Cdn)
        self.web = _Server(self, _Web)
        self.url = f"http://127.0.0.1:{self.web.port}"

    def close(self):
        self.stopping.set()
        self.web.close()
        self.cdn.close()

    def fail(self, name, fault):
        self.faults.setdefault(name, []).append(fault)

    def take_fault(self, name, on):
        with self.lock:
            for fault in self.faults.get(name, []):
                if fault.on == on and fault.times > 0:
                    fault.times -= 1
                    return fault
        return None

    def count(self, method, part):
        with self.lock:
            return sum(m == method and part in path for m, path, _ in self.requests)


class _Server:
    def __init__(self, hub, handler):
        class Handler(handler):
            pass
        Handler.hub = hub
        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.handle_error = lambda *_: None   # a client that went away
        self.http.daemon_threads = True
        self.port = self.http.server_address[1]
        self.thread = threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self.thread.start()

    def encrypt(self, certificate, key):
        """From now on it speaks TLS."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self.http.socket = context.wrap_socket(self.http.socket, server_side=True)

    def close(self):
        self.http.shutdown()
        self.http.server_close()
        self.thread.join(10)


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 30

    def log_message(self, *_):
        pass

    def note(self):
        with self.hub.lock:
            self.hub.requests.append((self.command, self.path, dict(self.headers)))

    def answer(self, status, headers=(), body=b""):
        self.send_response(status)
        fields = {"Content-Length": str(len(body)), **dict(headers)}
        for name, value in fields.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def error(self, status, code, text):
        self.answer(status, {"X-Error-Code": code, "X-Error-Message": text}, json.dumps({"error": text}).encode())

    def drip(self, fault, status=200, headers=()):
        """An answer without an end: the client must close it."""
        self.send_response(status)
        for name, value in dict(headers).items():
            self.send_header(name, value)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.close_connection = True
        count, seconds = fault.drip
        while not self.hub.stopping.wait(seconds):
            self.wfile.write(b"%x\r\n%s\r\n" % (count, b" " * count))
            self.wfile.flush()

    def send_file(self, content, fault, headers=()):
        """With the range that is asked for; with what goes wrong."""
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        begin, end, status = 0, len(content), 200
        if wanted and (fault is None or fault.ranges):
            begin = int(wanted[1])
            end = min(int(wanted[2]) + 1, len(content)) if wanted[2] else len(content)
            if begin >= len(content):
                return self.answer(416, {"Content-Range": f"bytes */{len(content)}"})
            status = 206
        if fault and fault.drip:
            return self.drip(fault, fault.status or status)
        if fault and fault.status:
            return self.answer(fault.status, fault.headers, b"no")
        if fault and fault.wrong:
            content = bytes(b ^ 1 for b in content[:64]) + content[64:]
        self.send_response(status)
        self.send_header("Content-Length", str(end - begin))
        self.send_header("Accept-Ranges", "bytes")
        if status == 206:
            self.send_header("Content-Range", f"bytes {begin}-{end - 1}/{len(content)}")
        for name, value in dict(headers).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return None
        if fault and (fault.cut is not None or fault.stall is not None):
            self.wfile.write(content[begin:min(end, begin + (fault.cut or 0))])
            self.wfile.flush()
            if fault.stall:
                self.hub.stopping.wait(fault.stall)
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return None
        self.wfile.write(content[begin:end])
        return None


class _Cdn(Storage, _Handler):
    def do_GET(self):
        self.note()
        digest, name = self.path.lstrip("/").split("/", 1)
        if "Authorization" in self.headers:   # a token that left its host
            return self.answer(400, body=b"the token was sent to another host")
        for repository in [*self.hub.models.values(), *self.hub.datasets.values()]:
            for files in repository.commits.values():
                content = files.get(urllib.parse.unquote(name))
                if content is not None and hashlib.sha256(content).hexdigest() == digest:
                    return self.send_file(content, self.hub.take_fault(urllib.parse.unquote(name), "get"))
        return self.answer(404)


class _Web(Uploads, _Handler):
    def do_HEAD(self):
        self.do_GET()

    def do_CONNECT(self):   # as a proxy that needs a password
        self.note()
        self.answer(407)

    def do_GET(self):
        self.note()
        basic = "Basic " + base64.b64encode(self.hub.password.encode()).decode()
        if self.hub.password and self.headers.get("Authorization") != basic:
            return self.answer(401, {"WWW-Authenticate": "Basic"})
        path = urllib.parse.urlparse(self.path).path
        for kind, repositories in (("datasets", self.hub.datasets), ("models", self.hub.models)):
            match = re.fullmatch(rf"/api/{kind}/([^/]+(?:/[^/]+)?)/(revision|tree)/([^/]+)/?", path)
            if match:
                return self.api(kind, repositories, match[1], match[2], urllib.parse.unquote(match[3]))
            prefix = "/datasets" if kind == "datasets" else ""
            match = (re.fullmatch(rf"{prefix}/([^/]+(?:/[^/]+)?)/resolve/([^/]+)/(.+)", path) or
                     re.fullmatch(rf"/api/resolve-cache/{kind}/([^/]+/[^/]+)/([^/]+)/(.+)", path))
            if match:
                return self.resolve(repositories, prefix, match[1], urllib.parse.unquote(match[2]),
                                    urllib.parse.unquote(match[3]))
        return self.answer(404)

    def find(self, repositories, name, revision, rest):
        """The commit and its files, or None after an answer that says why not."""
        if name in self.hub.moved:   # as the Hub does with repositories that got an organisation
            moved = self.path.replace(f"/{name}/", f"/{self.hub.moved[name]}/", 1)
            return self.answer(307, {"Location": moved})
        repository = repositories.get(name)
        allowed = self.headers.get("Authorization") == f"Bearer {TOKEN}"
        if repository is None or (repository.access == "private" and not allowed):
            return self.error(404 if allowed else 401, "RepoNotFound", "Repository not found")
        if repository.access == "gated" and not allowed and rest:
            return self.error(401 if "Authorization" not in self.headers else 403, "GatedRepo", "Access is restricted")
        commit = repository.refs.get(revision, revision)
        if commit not in repository.commits:
            return self.error(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        return commit, repository.commits[commit]

    def api(self, kind, repositories, name, what, revision):
        fault = self.hub.take_fault("", "api")
        if fault and fault.drip:
            return self.drip(fault)
        if fault and fault.status:
            return self.answer(fault.status, fault.headers, b"no")
        found = self.find(repositories, name, revision, False)
        if found is None:
            return None
        commit, files = found
        if what == "revision":
            out = {"id": name, "sha": commit, "private": False, "tags": [], "downloads": 0, "likes": 0,
                   "siblings": [{"rfilename": file} for file in files]}
        else:
            out = [{"type": "file", "path": file, "size": len(content), "oid": git_sha1(content)}
                   | ({"lfs": {"oid": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 134}}
                      if LFS.search(file) else {}) for file, content in files.items()]
        body = fault.body if fault and fault.body is not None else json.dumps(out).encode()
        return self.answer(200, {"Content-Type": "application/json"}, body)

    def resolve(self, repositories, prefix, name, revision, file):
        found = self.find(repositories, name, revision, True)
        if found is None:
            return None
        commit, files = found
        content = files.get(file)
        if content is None:
            return self.error(404, "EntryNotFound", "Entry not found")
        headers = {"X-Repo-Commit": commit}
        fault = self.hub.take_fault(file, "head") if self.command == "HEAD" else None
        if fault and fault.status:
            return self.answer(fault.status, fault.headers)
        if LFS.search(file):
            digest = hashlib.sha256(content).hexdigest()
            headers |= {"X-Linked-Etag": f'"{digest}"', "X-Linked-Size": str(len(content)), "ETag": '"cdn"',
                        "Location": f"http://127.0.0.1:{self.hub.cdn.port}/{digest}/{urllib.parse.quote(file)}"}
            if fault:
                headers |= fault.headers
            return self.answer(302, headers)
        if file == "vocab.txt" and "resolve-cache" not in self.path:   # as the Hub does with small files
            kind = "datasets" if prefix else "models"
            return self.answer(307, headers | {"Location": f"/api/resolve-cache/{kind}/{name}/{commit}/{file}"})
        headers["ETag"] = f'"{git_sha1(content)}"'
        if fault:
            headers |= fault.headers
        return self.send_file(content, None if self.command == "HEAD" else self.hub.take_fault(file, "get"), headers)


def wait_until(condition, seconds=30):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False


MODEL = "google-bert/bert-base-cased"
BIG = 40 << 20   # more than two parts of 16 MiB


def model_files():
    return {p.name: p.read_bytes() for p in sorted(cl.MODEL.iterdir())
            if p.name in ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "vocab.txt",
                          "special_tokens_map.json")}


def hash_of(content, digits):
    return hashlib.sha256(content).hexdigest() if digits == 64 else git_sha1(content)


class HubCase(unittest.TestCase):
    """Tests with a Hub and a cache of their own."""

    def setUp(self):
        temp = tempfile.TemporaryDirectory()
        self.addCleanup(temp.cleanup)
        self.root = pathlib.Path(temp.name)
        self.home = self.root / "home"
        self.hub = Hub()
        self.addCleanup(self.hub.close)
        self.files = model_files()
        self.hub.models[MODEL] = Repository(self.files | {"README.md": b"a card\n", "tf_model.h5": b"x"})

    def environment(self, **more):
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "HUGGING", "TRANSFORMERS_", "LATHE_DATA"))
                and not k.lower().endswith("_proxy")}
        return kept | {"HF_ENDPOINT": self.hub.url, "HF_HOME": str(self.home), "HF_HUB_DOWNLOAD_TIMEOUT": "2",
                       "HF_HUB_ETAG_TIMEOUT": "2", "LATHE_HUB_RETRY_WAIT": "0.05", "HF_HUB_DISABLE_TELEMETRY": "1"} | more

    def info(self, name=MODEL, keywords=None, **environment):
        return cl.run([cl.program(), "info", name], env=self.environment(**environment), **(keywords or {}))

    def succeeds(self, result):
        self.assertEqual(result.returncode, 0, result.stderr)
        return result

    def fails(self, result, *words):
        self.assertEqual(result.returncode, 1, result.stderr)
        for word in words:
            self.assertIn(word, result.stderr)
        self.check_cache()
        return result

    def cache(self, name=MODEL, kind="models"):
        return self.home / "hub" / f"{kind}--{name.replace('/', '--')}"

    def check_cache(self):
        """Every blob has the hash that is its name; every link leads to one."""
        hub = self.home / "hub"
        for blob in hub.glob("*/blobs/*"):
            if ".incomplete" not in blob.name:
                self.assertEqual(hash_of(blob.read_bytes(), len(blob.name)), blob.name)
        for path in hub.glob("*/snapshots/**/*"):
            if not path.is_dir():
                self.assertTrue(path.is_symlink() and not os.readlink(path).startswith("/"), path)
                self.assertTrue(path.exists(), path)

    def add_big(self, name="someone/big"):
        """A model whose weights go over the line in parts."""
        content = random.Random(1).randbytes(BIG)
        self.hub.models[name] = Repository(self.files | {"model.safetensors": content})
        return name, content
