"""Fetching from a model hub: against a loopback server that speaks the hub's file protocol."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from headwater.core.errors import UserInputError
from headwater.model.load.hub import HubReference, fetch

pytest.importorskip("huggingface_hub", reason="needs the 'hub' extra")
FETCH = """
import sys
from headwater.core.errors import UserInputError
from headwater.model.load.hub import fetch
try:
    print(*fetch(sys.argv[1]), sep="\\n")
except UserInputError as e:
    sys.exit(str(e))
"""
COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub:
    """Repositories in memory, served under the hub's paths. log: (method, path, range header). break_after: cut the next body after so many bytes."""

    def __init__(self) -> None:
        self.repos: dict[str, dict[str, bytes]] = {}
        self.log: list[tuple[str, str, str | None]] = []
        self.break_after: int | None = None
        hub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args: object) -> None:
                pass

            def do_HEAD(self) -> None:
                hub.answer(self, body=False)

            def do_GET(self) -> None:
                hub.answer(self, body=True)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def answer(self, request: BaseHTTPRequestHandler, body: bool) -> None:
        path = request.path.partition("?")[0]
        self.log.append((request.command, path, request.headers.get("Range")))
        api = re.fullmatch(r"/api/models/([^/]+/[^/]+)(/.*)?", path)
        file = re.fullmatch(r"/([^/]+/[^/]+)/resolve/[^/]+/(.+)", path)
        repo = self.repos.get((api or file)[1]) if api or file else None  # type: ignore[index]
        if repo is None:
            return self.send(request, 404, b"{}", body, {"X-Error-Code": "RepoNotFound"})
        if api:
            tail = api[2] or ""
            if tail.startswith("/tree/"):
                listing: object = [{"type": "file", "path": n, "size": len(d), "oid": _oid(d)} for n, d in repo.items()]
            else:
                listing = {"id": api[1], "modelId": api[1], "sha": COMMIT, "siblings": [{"rfilename": n} for n in repo]}
            return self.send(request, 200, json.dumps(listing).encode(), body, {"Content-Type": "application/json"})
        data = repo.get(file[2])  # type: ignore[index]
        if data is None:
            return self.send(request, 404, b"", body, {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": COMMIT})
        head = {"ETag": f'"{_oid(data)}"', "X-Repo-Commit": COMMIT, "Accept-Ranges": "bytes"}
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", request.headers.get("Range") or "")
        if asked:
            start = int(asked[1])
            head["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
            return self.send(request, 206, data[start:], body, head)
        return self.send(request, 200, data, body, head)

    def send(self, request: BaseHTTPRequestHandler, status: int, data: bytes, body: bool, headers: dict[str, str]) -> None:
        request.send_response(status)
        for key, value in (headers | {"Content-Length": str(len(data))}).items():
            request.send_header(key, value)
        request.end_headers()
        if body and self.break_after is not None and len(data) > self.break_after:
            data, self.break_after = data[: self.break_after], None
            request.close_connection = True
        if body:
            request.wfile.write(data)


def _oid(data: bytes) -> str:
    return hashlib.sha1(data).hexdigest()


@pytest.fixture
def hub():
    server = Hub()
    yield server
    server.server.shutdown()
    server.server.server_close()


@pytest.fixture
def run(hub, tmp_path):
    """Fetch in a fresh process: the library reads its environment at import."""
    def go(reference: str, **changes: str) -> subprocess.CompletedProcess[str]:
        env = {
            "PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PYTHONPATH": ":".join(sys.path), "HF_HOME": str(tmp_path / "hf"),
            "HF_HUB_DISABLE_XET": "1", "HF_ENDPOINT": hub.url, "HF_HUB_DISABLE_TELEMETRY": "1", "NO_PROXY": "*",
        } | changes
        return subprocess.run([sys.executable, "-c", FETCH, reference], env=env, capture_output=True, text=True, timeout=120, check=False)

    return go


@pytest.mark.parametrize(("text", "repo", "revision", "file"), [
    ("hf:a/b", "a/b", None, None), ("hf:a/b:x/y.gguf", "a/b", None, "x/y.gguf"), ("hf:a-1/b.c@v1.0:m.gguf", "a-1/b.c", "v1.0", "m.gguf"),
])
def test_references_are_taken_apart(text, repo, revision, file):
    assert HubReference.parse(text) == HubReference(repo, revision, file)


@pytest.mark.parametrize("text", ["hf:", "hf:a", "hf:a/b/c", "hf:a/b:../../x.gguf", "hf:/a/b", "hf:a/b:", "hf:a b/c"])
def test_malformed_references_are_refused(text):
    with pytest.raises(UserInputError, match="expected hf:ORG/REPO"):
        fetch(text)


def test_a_named_file_is_fetched_and_the_second_time_only_checked(hub, run):
    hub.repos["org/model"] = {"a.gguf": b"GGUF" + bytes(1000), "b.gguf": b"other"}
    first = run("hf:org/model:a.gguf")
    assert Path(first.stdout.strip()).read_bytes() == hub.repos["org/model"]["a.gguf"], first.stderr
    hub.log.clear()
    assert run("hf:org/model:a.gguf").stdout == first.stdout
    assert not [entry for entry in hub.log if entry[0] == "GET" and "/resolve/" in entry[1]]


def test_the_only_gguf_file_needs_no_name(hub, run):
    hub.repos["org/model"] = {"README.md": b"", "m.gguf": b"GGUF1"}
    assert Path(run("hf:org/model").stdout.strip()).name == "m.gguf"


def test_several_files_are_listed_to_choose_from(hub, run):
    hub.repos["org/model"] = {"q4.gguf": b"1", "q8.gguf": b"2"}
    assert "add one as :FILE: q4.gguf, q8.gguf" in run("hf:org/model").stderr


def test_all_parts_of_a_split_file_are_fetched(hub, run):
    hub.repos["org/model"] = {f"m-0000{i}-of-00003.gguf": b"GGUF%d" % i for i in (1, 2, 3)}
    first = Path(run("hf:org/model").stdout.strip())
    assert sorted(p.name for p in first.parent.iterdir()) == sorted(hub.repos["org/model"])


def test_a_folder_model_comes_without_pickles(hub, run):
    hub.repos["org/model"] = {
        "config.json": b"{}", "model.safetensors": b"w", "tokenizer.json": b"{}", "pytorch_model.bin": b"pickle", "1_Pooling/config.json": b"{}",
    }
    folder = Path(run("hf:org/model").stdout.strip())
    assert {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()} == set(hub.repos["org/model"]) - {"pytorch_model.bin"}


def test_a_broken_transfer_is_taken_up_where_it_stopped(hub, run):
    data = b"GGUF" + bytes(range(256)) * 100_000
    hub.repos["org/model"] = {"a.gguf": data}
    hub.break_after = 23 << 20                                       # the library keeps what it has in pieces of 10 MiB
    out = run("hf:org/model:a.gguf")
    if not out.stdout.strip():                                       # the library gives up after its own retries: a second call resumes
        out = run("hf:org/model:a.gguf")
    assert Path(out.stdout.strip()).read_bytes() == data, out.stderr
    resumed = [r for method, path, r in hub.log if method == "GET" and r and re.fullmatch(r"bytes=[1-9]\d*-.*", r)]
    assert resumed


def test_without_a_connection_the_cache_answers(hub, run):
    hub.repos["org/model"] = {"a.gguf": b"GGUF"}
    first = run("hf:org/model:a.gguf")
    assert run("hf:org/model:a.gguf", HF_HUB_OFFLINE="1").stdout == first.stdout != ""


@pytest.mark.parametrize(("reference", "says"), [
    ("hf:org/none", "does not exist"), ("hf:org/model:none.gguf", "no file 'none.gguf'"), ("hf:org/model:README.md", "must end in .gguf"),
    ("hf:org/empty", "neither .gguf nor .safetensors"),
])
def test_what_is_missing_is_one_line(hub, run, reference, says):
    hub.repos |= {"org/model": {"a.gguf": b"GGUF", "README.md": b""}, "org/empty": {"README.md": b""}}
    out = run(reference)
    assert out.returncode == 1
    assert says in out.stderr
    assert len(out.stderr.strip().splitlines()) == 1


def test_an_unreachable_hub_is_said_in_one_line_without_a_cache(hub, run):
    out = run("hf:org/model:a.gguf", HF_HUB_OFFLINE="1")
    assert out.stderr.strip() == "model 'hf:org/model': the hub cannot be reached and the file is not in the cache"


@pytest.mark.slow
def test_a_refused_connection_ends_in_one_line_after_the_library_s_retries(hub, run):
    out = run("hf:org/model:a.gguf", HF_ENDPOINT="http://127.0.0.1:9")
    assert "the hub cannot be reached" in out.stderr.strip().splitlines()[-1]
    assert "Traceback" not in out.stderr
