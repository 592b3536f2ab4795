"""`headwater serve` as its own process, for tests that kill, stop, drain and watch it."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

PATIENCE = 120.0                                                    # seconds until a test gives up waiting; never what it measures


@dataclass
class Served:
    """A running server; log: what it has written so far, line by line."""

    process: subprocess.Popen[str]
    url: str = ""
    log: list[str] = field(default_factory=list)

    @property
    def engine(self) -> int:
        """Process id of the engine: the server's only child."""
        children = children_of(self.process.pid)
        assert len(children) == 1, children
        return children[0]

    def health(self) -> httpx.Response:
        return httpx.get(f"{self.url}/health", timeout=PATIENCE)

    def post(self, path: str, body: dict[str, Any], **kwargs: Any) -> httpx.Response:
        return httpx.post(self.url + path, json=body, timeout=PATIENCE, **kwargs)

    def complete(self, prompt: str = "abc", **fields: Any) -> dict[str, Any]:
        r = self.post("/v1/completions", {"prompt": prompt, "max_tokens": 8, "temperature": 0, "seed": 1, **fields})
        assert r.status_code == 200, r.text
        out: dict[str, Any] = r.json()
        return out


def children_of(pid: int) -> list[int]:
    """Whichever thread started them."""
    with contextlib.suppress(FileNotFoundError):
        return [int(p) for f in Path(f"/proc/{pid}/task").glob("*/children") for p in f.read_text().split()]
    return []


def alive(pid: int) -> bool:
    """A zombie does not live."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def until(condition: Callable[[], Any], what: str) -> Any:
    """Wait for something true and return it."""
    deadline = time.monotonic() + PATIENCE
    while not (value := condition()):
        assert time.monotonic() < deadline, f"gave up waiting until {what}"
        time.sleep(0.05)
    return value


@contextlib.contextmanager
def serving(*args: str, env: dict[str, str] | None = None) -> Iterator[Served]:
    """`headwater serve ARGS --port 0` until the block ends."""
    command = [sys.executable, "-m", "headwater.cli.main", "serve", *args, "--port", "0"]
    wide = {**os.environ, "COLUMNS": "400", **(env or {})}           # the console breaks no line
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True, env=wide)
    served = Served(process)
    ready = threading.Event()

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            served.log.append(line)
            found = re.search(r"ready.*(http://[\d.:]+)", line)
            if found:
                served.url = found[1]
                ready.set()
        ready.set()

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        assert ready.wait(PATIENCE) and served.url, "".join(served.log)
        yield served
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(PATIENCE)
        reader.join(PATIENCE)
