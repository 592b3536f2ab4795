"""ProcessClient: the engine in a child process that may die alone. Its streams get an error, a new one starts, the server goes on."""

from __future__ import annotations

import logging
import os
import queue
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable

from headwater.core.errors import HeadwaterError, UserInputError
from headwater.core.events import Event
from headwater.engine.build import EngineSpec
from headwater.engine.client import Deliver, EngineInfo, EngineLostError, EngineStats, Grammar, Lost
from headwater.engine.health import BEAT_SECONDS, Deadlines, restart_delay
from headwater.engine.wire import EVENT_KINDS, Wire

log = logging.getLogger("headwater.engine")
Progress = Callable[[int, int, str], None]


class Outbox:
    """Frames on their way to one child, written by a thread of their own: a child that does not read never blocks the event loop."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._queue: queue.SimpleQueue[tuple[str, object] | None] = queue.SimpleQueue()
        threading.Thread(target=self._run, daemon=True, name="headwater-outbox").start()

    def put(self, kind: str, body: object) -> None:
        self._queue.put((kind, body))

    def close(self) -> None:
        self._queue.put(None)

    def _run(self) -> None:
        while (message := self._queue.get()) is not None:
            try:
                self._wire.send(*message)
            except OSError:                                         # the child is gone; whoever reads from it tells everybody
                return


class ProcessClient:
    """spec: what the child builds. deadlines: when it counts as dead. progress: loading, as (bytes done, bytes in all, tensor). log_format: of the
    child's log, one of `logs.FORMATS`."""

    info: EngineInfo

    def __init__(
        self, spec: EngineSpec, deadlines: Deadlines | None = None, progress: Progress | None = None, log_format: str = "text",
    ) -> None:
        self._spec = spec
        self._log_format = log_format
        self._deadlines = deadlines or Deadlines()
        self._progress = progress
        self._deliver: Deliver = lambda _: None
        self._lost: Lost = lambda _: None
        self._child: subprocess.Popen[bytes] | None = None
        self._wire: Wire | None = None
        self._outbox: Outbox | None = None
        self._dead: str | None = "the engine has not started"
        self._stats = EngineStats()
        self._prepared: tuple[Wire, subprocess.Popen[bytes]] | None = None
        self._heard = 0.0
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self.deaths = 0

    @property
    def pid(self) -> int | None:
        """Process id of the running engine."""
        return self._child.pid if self._child is not None and self._child.poll() is None else None

    def prepare(self) -> None:
        """Start the child now and wait for it in `start`: the caller has its own things to load meanwhile."""
        self._prepared = self._launch()

    def start(self, deliver: Deliver, lost: Lost) -> None:
        """Start the child and wait until its model is loaded. Raises what loading raised."""
        self._deliver, self._lost = deliver, lost
        wire = self._spawn()
        threading.Thread(target=self._supervise, args=(wire,), daemon=True, name="headwater-supervisor").start()

    def send(self, *events: Event) -> None:
        self._write([(EVENT_KINDS[type(e)], e) for e in events])

    def compile(self, mask: str, grammar: Grammar) -> None:
        self._write([("compile", (mask, grammar))])

    def check(self) -> None:
        if self._dead is not None:
            raise EngineLostError(self._dead)

    def stats(self) -> EngineStats:
        return self._stats

    def close(self) -> None:
        self._closing.set()
        with self._lock:
            self._dead = "the engine was closed"
            wire, child = self._prepared or (self._wire, self._child)
            outbox = self._outbox
        if outbox is not None:
            outbox.close()
        if wire is not None:
            wire.close()
        if child is not None:
            try:
                child.wait(timeout=10)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()

    def _write(self, messages: list[tuple[str, object]]) -> None:
        with self._lock:
            self.check()
            assert self._outbox is not None
            for kind, body in messages:
                self._outbox.put(kind, body)

    def _launch(self) -> tuple[Wire, subprocess.Popen[bytes]]:
        ours, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-m", "headwater.engine.child", str(theirs.fileno()), self._log_format]
            # one heap for all threads: those of the C library, one a thread, each keep what grammars that are long gone once took
            env = {"MALLOC_ARENA_MAX": "1", **os.environ}
            child = subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, env=env)
        wire = Wire(ours)
        wire.send("spec", self._spec)
        return wire, child

    def _spawn(self) -> Wire:
        wire, child = self._prepared or self._launch()
        self._prepared = None
        try:
            self._wait_for_info(wire, child)
        except BaseException:
            wire.close()
            child.kill()
            child.wait()
            raise
        with self._lock:
            if self._closing.is_set():
                wire.close()
                raise EngineLostError("the engine was closed")
            self._child, self._wire, self._outbox, self._heard = child, wire, Outbox(wire), time.monotonic()
            self._dead = None
        return wire

    def _wait_for_info(self, wire: Wire, child: subprocess.Popen[bytes]) -> None:
        while True:
            message = wire.receive()
            if message is None:
                raise EngineLostError(f"the engine process ended while it started (exit code {child.wait()})")
            kind, body = message
            if kind == "info":
                self.info = body
                return
            if kind == "failed":
                text, code, field = body
                raise UserInputError(text, field) if code == UserInputError.exit_code else HeadwaterError(text)
            if kind == "progress" and self._progress is not None:
                self._progress(*body)

    def _supervise(self, wire: Wire) -> None:
        """Read until the child dies, tell everybody, start the next one; on our own thread."""
        while not self._closing.is_set():
            began = time.monotonic()
            watch = threading.Thread(target=self._watch, args=(wire, stop := threading.Event()), daemon=True, name="headwater-watch")
            watch.start()
            reason = self._read(wire)
            stop.set()
            if self._closing.is_set():
                return
            self.deaths = 1 if time.monotonic() - began > 60 else self.deaths + 1
            wire = self._replace(reason) or wire

    def _read(self, wire: Wire) -> str:
        try:
            while (message := wire.receive()) is not None:
                kind, body = message
                self._heard = time.monotonic()
                if kind == "outputs":
                    self._deliver(body)
                elif kind == "stats":
                    self._stats = body
                elif kind == "lost":
                    return str(body)
        except (OSError, ValueError) as e:
            return f"the engine process sent nonsense ({e})"
        return "the engine process died"

    def _watch(self, wire: Wire, stop: threading.Event) -> None:
        while not stop.wait(BEAT_SECONDS):
            stats = self._stats
            reason = self._deadlines.verdict(time.monotonic() - self._heard, stats.last_step_age, stats.step_seconds)
            if reason is not None:
                log.error("%s; it is killed", reason)
                with self._lock:
                    self._dead = reason
                    if self._child is not None:
                        self._child.kill()
                return

    def _replace(self, reason: str) -> Wire | None:
        with self._lock:
            reason = self._dead or reason
            self._dead = f"{reason}; a new one is starting"
            child, outbox = self._child, self._outbox
        if outbox is not None:
            outbox.close()
        if child is not None:
            child.kill()
            code = child.wait()
            log.error("%s (exit code %s); starting a new one", reason, code)
        self._stats = EngineStats()
        self._lost(reason)
        while not self._closing.wait(restart_delay(self.deaths)):
            try:
                return self._spawn()
            except HeadwaterError as e:
                self.deaths += 1
                log.error("the engine does not start again: %s", e)
                with self._lock:
                    self._dead = f"the engine does not start again: {e}"
        return None
