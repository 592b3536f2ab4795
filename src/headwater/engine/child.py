"""The engine process: `python -m headwater.engine.child FD LOG_FORMAT`. Reads frames from its parent until the socket closes, then ends."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import socket
import sys
import threading
import time

from headwater.core.errors import HeadwaterError
from headwater.engine import logs
from headwater.engine.build import load_engine
from headwater.engine.client import EngineLostError
from headwater.engine.health import BEAT_SECONDS
from headwater.engine.thread import ThreadClient
from headwater.engine.wire import EVENT_KINDS, Wire


def main(fd: int, log_format: str) -> int:
    """-> exit code. The parent alone decides when we end: Ctrl-C and a service manager's SIGTERM reach both of us, to drain is its business."""
    for sig in (signal.SIGINT, signal.SIGTERM):
        signal.signal(sig, signal.SIG_IGN)
    logs.configure(log_format)
    wire = Wire(socket.socket(fileno=fd))
    first = wire.receive()
    if first is None or first[0] != "spec":
        return 1
    spec = first[1]
    client = ThreadClient(lambda: load_engine(spec, lambda *p: wire.send("progress", p)))
    try:
        client.start(lambda outputs: wire.send("outputs", outputs), lambda reason: _die(wire, reason))
    except HeadwaterError as e:
        with contextlib.suppress(OSError):                          # the parent found the same mistake first and has gone
            wire.send("failed", (str(e), e.exit_code, getattr(e, "field", None)))
        return e.exit_code
    except BrokenPipeError:                                         # the parent gave up while we loaded
        return 0
    gc.collect()
    gc.freeze()                                                     # what is loaded now stays; the collector need not look at it again
    try:
        wire.send("info", client.info)
    except BrokenPipeError:                                         # the same, a moment later
        client.close()
        return 0
    threading.Thread(target=_beat, args=(client, wire), daemon=True, name="headwater-heartbeat").start()
    try:
        _serve(client, wire)
    finally:
        client.close()
    return 0


def _serve(client: ThreadClient, wire: Wire) -> None:
    events = set(EVENT_KINDS.values())
    while (message := wire.receive()) is not None:
        kind, body = message
        try:
            if kind in events:
                client.send(body)
            elif kind == "compile":
                client.compile(*body)
        except EngineLostError:                                     # `_die` tells the parent
            return


def _beat(client: ThreadClient, wire: Wire) -> None:
    while True:
        try:
            wire.send("stats", client.stats())
        except OSError:
            return
        time.sleep(BEAT_SECONDS)


def _die(wire: Wire, reason: str) -> None:
    try:
        wire.send("lost", reason)
    finally:
        os._exit(1)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2]))
