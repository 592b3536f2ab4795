"""Room `evict`: which cached block leaves first. The mechanism decides which blocks may leave (nobody reads them, no cached child)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np


@dataclass(frozen=True, slots=True)
class BlockColumns:
    """Columns over all blocks (or all checkpoints), indexed by id; read only.

    last_use, created: float64 seconds. hits: int32, how often a request found it. depth: int32, its index in the sequence (0 = first).
    wanted: int32, how many of the next waiting requests would read it (filled only for policies with `uses_wanted`). total: how many exist.
    """

    last_use: np.ndarray
    created: np.ndarray
    hits: np.ndarray
    depth: np.ndarray
    wanted: np.ndarray
    total: int


class EvictPolicy(Protocol):
    uses_wanted: bool

    def score(self, blocks: BlockColumns, idx: np.ndarray, now: float) -> np.ndarray:
        """Return float64[len(idx)]; the lowest score leaves first, ties by depth (deepest first), then id. NaN counts as lowest."""
