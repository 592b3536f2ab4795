"""The threads that compile grammars: several, so that one slow schema keeps nobody else waiting; bounded, and behind the engine in priority."""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

THREADS = 4                                                         # grammars that are compiled at once
NICENESS = 5                                                        # a step that waits for a core goes first
Job = Callable[[], None]


class Compilers:
    """Runs jobs by name: those of one name one behind the other on one thread (the first compiles, the others find it done), so that a slow grammar
    that many requests share takes one thread and not all of them."""

    def __init__(self, threads: int = THREADS) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="headwater-grammar", initializer=_step_back)
        self._lock = threading.Lock()
        self._behind: dict[str, deque[Job]] = {}                    # jobs that wait for a running or queued one of their name

    def submit(self, name: str, job: Job) -> None:
        """job: must not raise. Any thread; returns at once."""
        with self._lock:
            if name in self._behind:
                self._behind[name].append(job)
                return
            self._behind[name] = deque()
        self._pool.submit(self._run, name, job)

    def close(self) -> None:
        """Jobs that have not begun never will."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _run(self, name: str, job: Job | None) -> None:
        while job is not None:
            job()
            with self._lock:
                job = self._behind[name].popleft() if self._behind[name] else None
                if job is None:
                    del self._behind[name]


def _step_back() -> None:
    if sys.platform == "linux":                                     # where a thread has a priority of its own
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
