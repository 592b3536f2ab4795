"""The null executor: a model that computes nothing, so that what is left of a step is the engine's own share."""

from __future__ import annotations

import numpy as np

from headwater.core.executor import Caps
from headwater.core.kvspec import CacheGroup, KVSpec
from headwater.kernels.program import Replay, Step


class NullForward:
    """All logits are zero: greedy rows draw token 0 for ever. vocabulary is small, so that sampling costs its glue and not its arithmetic."""

    def __init__(self, blocks: int, context: int, vocabulary: int = 32) -> None:
        self.caps = Caps(KVSpec((CacheGroup("full", 1, 1, 32),)), (blocks,), 0, context, vocabulary, "null")
        self._rows = np.zeros((0, vocabulary), np.float32)

    def hidden(self, step: Step) -> np.ndarray:
        return np.zeros((len(step.reads), 1), np.float32)

    def replay(self, rows: Replay) -> None:
        """There is no state."""

    def logits(self, hidden: np.ndarray) -> np.ndarray:
        if len(self._rows) < len(hidden):
            self._rows = np.zeros((len(hidden), self.caps.vocabulary), np.float32)
        return self._rows[: len(hidden)]

    def label_logits(self, hidden: np.ndarray, labels: np.ndarray) -> np.ndarray:
        return np.zeros(len(labels), np.float32)

    def copy_blocks(self, copies: np.ndarray) -> None:
        """There is nothing to copy."""

    def copy_states(self, copies: np.ndarray) -> None:
        """There is nothing to copy."""

    def export_row(self, tables: list[np.ndarray], tokens: int) -> list[np.ndarray]:
        return []

    def import_row(self, tables: list[np.ndarray], start: int, stop: int, arrays: list[np.ndarray]) -> None:
        """There is nothing to keep."""

    def row_arrays(self, tokens: int) -> list[tuple[tuple[int, ...], np.dtype]]:
        return []

    def close(self) -> None:
        """There is nothing to free."""
