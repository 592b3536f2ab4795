"""evict/slru: segmented LRU. Blocks hit twice move to a protected part that scans cannot flush."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from headwater.core.registry import register, require
from headwater.policies.evict.api import BlockColumns


@register("evict", "slru")
@dataclass(slots=True)
class SegmentedLRU:
    """Evict the least recently used block that was hit at most once; protected blocks only after those.

    Source: Karedla, Love, Wherry, "Caching strategies to improve disk system performance" (1994).

    protected: share of the pool that may be protected, 0..1.
    """

    protected: float = 0.8
    uses_wanted: ClassVar[bool] = False

    def __post_init__(self) -> None:
        require("evict", "protected", self.protected, 0 <= self.protected <= 1, "a share between 0 and 1")

    def score(self, blocks: BlockColumns, idx: np.ndarray, now: float) -> np.ndarray:
        """Return float64[len(idx)]; the lowest score leaves first."""
        last = blocks.last_use[idx]
        shielded = blocks.hits[idx] > 1
        spare = int(self.protected * blocks.total)                  # how many may be protected at all
        if shielded.sum() > spare:                                  # demote the oldest of them, only as many as needed
            oldest_first = np.flatnonzero(shielded)[np.argsort(last[shielded], kind="stable")]
            shielded[oldest_first[: int(shielded.sum()) - spare]] = False
        return last + np.where(shielded, now + 1.0, 0.0)
