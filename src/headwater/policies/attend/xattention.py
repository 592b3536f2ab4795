"""attend/xattention: prompts read the blocks whose antidiagonals are heaviest."""

from dataclasses import dataclass

from headwater.core.registry import register
from headwater.kernels.pattern import XATTENTION, PatternSpec
from headwater.policies.attend.api import frame, positions, share


@register("attend", "xattention")
@dataclass(slots=True)
class XAttention:
    """Keep the smallest set of blocks of keys whose antidiagonal scores reach `threshold` of the soft-max.

    Source: Xu et al., "XAttention: Block Sparse Attention with Antidiagonal Scoring" (2503.16428), stride 16. Decided per absolute tile from
    the samples before it (see `crisp`): sixteen neighbouring samples have sixteen residues, so that one antidiagonal meets every key of 16.
    The samples' own positions are always read.
    """

    threshold: float = 0.9
    block: int = 128
    tile: int = 512
    queries: int = 16
    sinks: int = 128
    local: int = 256
    dense_layers: int = 0

    def selection(self) -> PatternSpec | None:
        if share("threshold", self.threshold) >= 1:
            return None
        positions("queries", self.queries, 16, 64, 16)
        shape = frame(self.tile, self.block, self.queries, self.sinks, positions("local", self.local, 16 * self.queries), self.dense_layers)
        return PatternSpec(XATTENTION, **shape, gamma=self.threshold)
