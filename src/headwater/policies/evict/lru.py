"""evict/lru: the block that was read longest ago leaves first."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from headwater.core.registry import register
from headwater.policies.evict.api import BlockColumns


@register("evict", "lru")
@dataclass(slots=True)
class LeastRecentlyUsed:
    """Evict by time of last use; a reader refreshes all blocks before the one it reads, so prefixes outlive what follows them."""

    uses_wanted: ClassVar[bool] = False

    def score(self, blocks: BlockColumns, idx: np.ndarray, now: float) -> np.ndarray:
        """Return float64[len(idx)]; the lowest score leaves first."""
        return blocks.last_use[idx]
