"""evict/lfu: the block that was found least often leaves first; counts fade."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from headwater.core.registry import register, require
from headwater.policies.evict.api import BlockColumns


@register("evict", "lfu")
@dataclass(slots=True)
class LeastFrequentlyUsed:
    """Evict by (hits + 1) · 2^(−age / half_life), age since the last use: frequency with fading, so that yesterday's favourites leave.

    Source: the exponentially weighted frequency of Lee et al., "LRFU" (IEEE Transactions on Computers 50:12, 2001).

    half_life: seconds after which a hit counts half.
    """

    half_life: float = 600.0
    uses_wanted: ClassVar[bool] = False

    def __post_init__(self) -> None:
        require("evict", "half_life", self.half_life, 1e-6 <= self.half_life < math.inf, "at least a microsecond")

    def score(self, blocks: BlockColumns, idx: np.ndarray, now: float) -> np.ndarray:
        """Return float64[len(idx)], in log2 so that very old blocks still differ; the lowest score leaves first."""
        return np.log2(blocks.hits[idx] + 1.0) - np.maximum(now - blocks.last_use[idx], 0.0) / self.half_life
