"""ThreadClient: the engine on a thread of this process. Events wake it; outputs leave once per step."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from headwater.core.events import Event
from headwater.engine.client import Deliver, EngineInfo, EngineLostError, Lost
from headwater.engine.engine import Engine

log = logging.getLogger("headwater.engine")


class ThreadClient:
    """make: builds the engine (loads the model); called in `start`, on the caller's thread, so that errors reach the caller."""

    info: EngineInfo

    def __init__(self, make: Callable[[], Engine]) -> None:
        self._make = make
        self._engine: Engine | None = None
        self._wake = threading.Condition()
        self._pending: list[Event] = []
        self._stop = False
        self._dead: str | None = None
        self._thread: threading.Thread | None = None

    def start(self, deliver: Deliver, lost: Lost) -> None:
        engine = self._engine = self._make()
        caps = engine.executor.caps()
        self.info = EngineInfo(caps.context, caps.vocabulary, caps.identity, caps.blocks)
        self._thread = threading.Thread(target=self._run, args=(engine, deliver, lost), name="headwater-engine", daemon=True)
        self._thread.start()

    def send(self, *events: Event) -> None:
        with self._wake:
            if self._dead is not None:
                raise EngineLostError(self._dead)
            self._pending.extend(events)
            self._wake.notify()
