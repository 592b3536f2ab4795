"""What the runner needs of a model: hidden rows for a step, logits for hidden rows, copies inside its memory."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from headwater.core.executor import Caps
from headwater.kernels.program import Replay, Step


class Forward(Protocol):
    """A model with its memory. Arrays it returns may be reused by its next call."""

    caps: Caps

    def hidden(self, step: Step) -> np.ndarray:
        """-> float32[n_reads, dim], the final hidden rows at `step.reads`; keys, values and states of all tokens are written."""

    def replay(self, rows: Replay) -> None:
        """Recurrent states take in the first tokens of rows that the last step kept: the bits that running these tokens alone would leave."""

    def logits(self, hidden: np.ndarray) -> np.ndarray:
        """float32[n, dim] -> float32[n, vocabulary], raw."""

    def label_logits(self, hidden: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """float32[dim], int32[k] -> float32[k]: only these rows of the output matrix, the same bits as `logits(hidden)[labels]`."""

    def copy_blocks(self, copies: np.ndarray) -> None:
        """copies: int32[k, 3] of (group, from block, to block)."""

    def copy_states(self, copies: np.ndarray) -> None:
        """copies: int32[k, 2] of (from slot, to slot)."""

    def export_row(self, tables: list[np.ndarray], tokens: int) -> list[np.ndarray]:
        """The stored keys and values of a row's first `tokens` positions, as arrays of its own."""

    def import_row(self, tables: list[np.ndarray], start: int, stop: int, arrays: list[np.ndarray]) -> None:
        """Write positions [start, stop) of what `export_row` gave into other blocks."""

    def row_arrays(self, tokens: int) -> list[tuple[tuple[int, ...], np.dtype]]:
        """Shapes and types of what `export_row` gives."""

    def close(self) -> None: ...
