"""ThreadClient: the engine on a thread of this process. Events wake it; outputs leave once per step."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from headwater.core.events import Event, MaskReady
from headwater.engine.client import GRAMMAR_FIELD, Deliver, EngineInfo, EngineLostError, EngineStats, Grammar, Lost
from headwater.engine.compilers import Compilers
from headwater.engine.engine import Engine

log = logging.getLogger("headwater.engine")


class ThreadClient:
    """make: builds the engine (loads the model); called in `start`, on the caller's thread, so that errors reach the caller."""

    info: EngineInfo

    def __init__(self, make: Callable[[], Engine]) -> None:
        self._make = make
        self._engine: Engine | None = None
        self._wake = threading.Condition()
        self._stop = False
        self._dead: str | None = None
        self._busy = False
        self._busy_since = 0.0
        self._thread: threading.Thread | None = None
        self._compilers = Compilers()

    def start(self, deliver: Deliver, lost: Lost) -> None:
        engine = self._engine = self._make()
        self.info = EngineInfo.of(engine.executor.caps())
        self._thread = threading.Thread(target=self._run, args=(engine, deliver, lost), name="headwater-engine", daemon=True)
        self._thread.start()

    def send(self, *events: Event) -> None:
        with self._wake:
            self.check()
            assert self._engine is not None
            self._engine.post(*events)
            self._wake.notify()

    def compile(self, mask: str, grammar: Grammar) -> None:
        engine = self._engine
        if engine is None:
            raise EngineLostError("the engine has not started")

        def work() -> None:
            try:
                error = engine.add_grammar(mask, grammar)
            except Exception as e:                                  # without a word from here, the request would wait for ever
                log.exception("the grammar of %s could not be compiled", mask)
                error = f"{GRAMMAR_FIELD}: cannot be compiled ({type(e).__name__})"
            try:
                self.send(MaskReady(mask, error))
            except EngineLostError:
                log.debug("grammar of %s was ready after the engine was gone", mask)

        self._compilers.submit(repr(grammar), work)

    def check(self) -> None:
        if self._dead is not None or self._engine is None:
            raise EngineLostError(self._dead or "the engine has not started")

    def stats(self) -> EngineStats:
        engine = self._engine
        if engine is None:
            return EngineStats()
        stats = engine.stats()
        if self._busy:
            stats.last_step_age = max(0.0, engine.clock.now() - max(engine.last_step, self._busy_since))
        return stats

    def close(self) -> None:
        with self._wake:
            self._stop = True
            self._dead = self._dead or "the engine was closed"
            self._wake.notify()
        if self._thread is not None:
            self._thread.join(timeout=60)
        self._compilers.close()

    def _run(self, engine: Engine, deliver: Deliver, lost: Lost) -> None:
        try:
            while not self._stop:
                if not self._busy:
                    self._busy_since, self._busy = engine.clock.now(), True
                outputs = engine.run_once()
                if outputs:
                    deliver(outputs)
                elif outputs is None:
                    self._sleep(engine)
        except Exception as e:
            log.exception("the engine stopped")
            with self._wake:
                self._dead = f"the engine stopped: {type(e).__name__}: {e}"
            lost(self._dead)
        finally:
            engine.close()

    def _sleep(self, engine: Engine) -> None:
        """Until an event comes or the scheduler wants to look at its clock again."""
        self._busy = False
        with self._wake:
            if self._stop or engine.inbox:
                return
            at = engine.wake_at()
            self._wake.wait(None if at is None else max(0.0, at - engine.clock.now()))
