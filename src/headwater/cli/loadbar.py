"""The bar that is shown while a model loads."""

from __future__ import annotations

import sys
from typing import Any


def load_progress() -> Any:
    """A progress callback for loading: a bar on stderr where that is a terminal, else None. `.close()` it afterwards."""
    return LoadBar() if sys.stderr.isatty() else None


class LoadBar:
    """Bytes loaded; drawn by hand, because importing a progress library takes longer than loading a small model."""

    WIDTH = 30

    def __init__(self) -> None:
        self._shown = -1

    def __call__(self, done: int, total: int, name: str) -> None:
        filled = self.WIDTH * done // max(total, 1)
        if filled != self._shown:
            self._shown = filled
            print(f"\rloading [{'#' * filled}{' ' * (self.WIDTH - filled)}] {total / 2**20:,.0f} MiB", end="", file=sys.stderr, flush=True)
        if done >= total:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
