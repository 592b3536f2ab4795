"""A server in a process of its own on a free port of loopback, as users start it, for judges that bring a client."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator

START_SECONDS = 120.0


@contextlib.contextmanager
def served(model: str, *flags: str) -> Iterator[str]:
    """Its address, once it is ready. Raises SystemExit with what it printed when it does not start."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "headwater.cli.main", "serve", "--model", model, "--port", str(port), *flags]
    process = subprocess.Popen(command, env=dict(os.environ), stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + START_SECONDS
        while not _ready(url):
            if process.poll() is not None or time.monotonic() > end:
                raise SystemExit(f"{' '.join(command)}: did not start")
            time.sleep(0.2)
        yield url
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(40)
        process.kill()


def _ready(url: str) -> bool:
    with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/ready", timeout=5) as r:
        return r.status == 200
    return False
