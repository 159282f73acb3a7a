"""What the Hub of the tests keeps, and how it is uploaded: repos/create, preupload, commit, and Git LFS's batches with the
storage behind them."""
import base64
import hashlib
import json
import re
import urllib.parse

TOKEN = "hf_test"
LFS = re.compile(r"\.(safetensors|bin|parquet)$")
STEP = re.compile(r"/(create|preupload|batch|verify|complete|commit)\b")   # of an upload, by the path of its request


class Repository:
    """Files at revisions. access: "open", "private" (looks absent without the token) or "gated"."""

    def __init__(self, files, access="open"):
        self.access = access
        self.commits = {}
        self.refs = {}
        self.messages = []   # of commits that were uploaded
        self.commit(files)

    def commit(self, files, revision="main"):
        listing = json.dumps({name: hashlib.sha256(content).hexdigest() for name, content in sorted(files.items())})
        sha = hashlib.sha1((revision + listing).encode()).hexdigest()
        self.commits[sha] = dict(files)
        self.refs[revision] = sha
        return sha


class Faulty:
    def goes_wrong(self, fault):
        """Whether a fault has taken the answer's place."""
        if fault and fault.stall:
            self.hub.stopping.wait(fault.stall)
            self.close_connection = True
        elif fault and (fault.status or fault.body is not None):
            self.answer(fault.status or 200, fault.headers, b"no" if fault.body is None else fault.body)
        else:
            return False
        return True


class Storage(Faulty):
    """Of the CDN: the storage behind Git LFS."""

    def do_PUT(self):
        self.note()
        if self.headers["Content-Length"] == "0":   # as S3 does
            return self.answer(501, body=b"A header you provided implies functionality that is not implemented")
        content = self.rfile.read(int(self.headers["Content-Length"]))
        if "Authorization" in self.headers:   # a token that left its host
            return self.answer(400, body=b"the token was sent to another host")
        digest, part = self.path.removeprefix("/store/").split("/")
        if self.goes_wrong(self.hub.take_fault(digest, "put") or self.hub.take_fault("", "put")):
            return None
        if part != "whole":
            self.hub.parts[digest, int(part)] = content
        elif hashlib.sha256(content).hexdigest() == digest:
            self.hub.stored[digest] = content
        else:
            return self.answer(400, body=b"wrong bytes")
        return self.answer(200, {"ETag": f'"{hashlib.md5(content).hexdigest()}"'})


class Uploads(Faulty):
    """Of the web server: requests that write."""

    def do_POST(self):
        self.note()
        body = self.rfile.read(int(self.headers["Content-Length"]))
        path = urllib.parse.unquote(urllib.parse.urlparse(self.path).path)
        if self.goes_wrong(self.hub.take_fault(STEP.search(path)[1], "post")):
            return None
        complete = path.startswith("/lfs/complete/")   # whose address is secret enough
        if not complete and self.headers.get("Authorization") != f"Bearer {TOKEN}":
            return self.error(401, "", "Invalid username or password.")
        if path == "/api/repos/create":
            return self.create(json.loads(body))
        match = re.fullmatch(r"/api/models/([^/]+/[^/]+)/(preupload|commit)/([^/]+)", path)
        if match and match[1] not in self.hub.models:
            return self.error(404, "RepoNotFound", "Repository not found")
        if match and match[3] not in self.hub.models[match[1]].refs:
            return self.error(404, "RevisionNotFound", f"Invalid rev id: {match[3]}")
        if match and match[2] == "preupload":
            return self.json({"files": [{"path": f["path"], "shouldIgnore": False, "oid": None,
                                         "uploadMode": "lfs" if LFS.search(f["path"]) else "regular"}
                                        for f in json.loads(body)["files"]]})
        if match:
            return self.commit(match[1], match[3], [json.loads(line) for line in body.splitlines()])
        if path.endswith(".git/info/lfs/objects/batch"):
            return self.json({"transfer": "basic", "objects": [self.place(o) for o in json.loads(body)["objects"]]},
                             "application/vnd.git-lfs+json")
        if path.startswith("/lfs/verify/"):
            told = json.loads(body)
            kept = self.hub.stored.get(told["oid"])
            return self.answer(200 if kept is not None and len(kept) == told["size"] else 404)
        if complete:
            told = json.loads(body)
            parts = [self.hub.parts.pop((told["oid"], p["partNumber"])) for p in told["parts"]]
            tags = [f'"{hashlib.md5(part).hexdigest()}"' for part in parts]
            content = b"".join(parts)
            if [p["etag"] for p in told["parts"]] != tags or hashlib.sha256(content).hexdigest() != told["oid"]:
                return self.answer(400, body=b"wrong parts")
            self.hub.stored[told["oid"]] = content
            return self.json({})
        return self.answer(404)

    def json(self, value, kind="application/json", status=200):
        return self.answer(status, {"Content-Type": kind}, json.dumps(value).encode())

    def create(self, told):
        owner = told.get("organization") or "me"
        name = f"{owner}/{told['name']}"
        if owner not in self.hub.writers:
            return self.error(403, "", "You don't have the rights to create a model under this namespace")
        if name in self.hub.models:
            return self.json({"error": "You already created this model repo", "url": f"{self.hub.url}/{name}"}, status=409)
        self.hub.models[name] = Repository({".gitattributes": b""}, "private" if told.get("private") else "open")
        return self.json({"url": f"{self.hub.url}/{name}", "name": name})

    def place(self, told):
        digest, size = told["oid"], told["size"]
        if digest in self.hub.stored:
            return told
        store, web = f"http://127.0.0.1:{self.hub.cdn.port}/store/{digest}", f"{self.hub.url}/lfs"
        if not self.hub.part_bytes or size <= self.hub.part_bytes:
            return told | {"actions": {"upload": {"href": f"{store}/whole"}, "verify": {"href": f"{web}/verify/{digest}"}}}
        count = -(-size // self.hub.part_bytes)
        header = {"chunk_size": self.hub.chunk_size(self.hub.part_bytes)} | {f"{i + 1:05}": f"{store}/{i + 1}" for i in range(count)}
        return told | {"actions": {"upload": {"href": f"{web}/complete/{digest}", "header": header},
                                   "verify": {"href": f"{web}/verify/{digest}"}}}

    def commit(self, name, revision, lines):
        repository = self.hub.models[name]
        files = dict(repository.commits[repository.refs[revision]])
        for line in lines[1:]:
            value = line["value"]
            files[value["path"]] = (base64.b64decode(value["content"]) if line["key"] == "file" else
                                    self.hub.stored[value["oid"]])
        repository.messages.append(lines[0]["value"]["summary"])
        commit = repository.commit(files, revision)
        return self.json({"success": True, "commitOid": commit, "commitUrl": f"{self.hub.url}/{name}/commit/{commit}"})
