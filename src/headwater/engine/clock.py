"""Where time enters: everything below the engine gets `now` as a number."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    def now(self) -> float:
        """Seconds since an arbitrary start; never goes back."""


class RealClock:
    def now(self) -> float:
        return time.monotonic()
