"""evict/demand: keep what waiting requests will read; least recently used among the rest."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from headwater.core.registry import register
from headwater.policies.evict.api import BlockColumns


@register("evict", "demand")
@dataclass(slots=True)
class Demand:
    """The queue is a forecast: a block that a waiting request is about to read leaves only after all blocks that nobody asked for."""

    uses_wanted: ClassVar[bool] = True

    def score(self, blocks: BlockColumns, idx: np.ndarray, now: float) -> np.ndarray:
        """Return float64[len(idx)]; the lowest score leaves first."""
        return blocks.last_use[idx] + np.where(blocks.wanted[idx] > 0, now + 1.0 + blocks.wanted[idx], 0.0)
