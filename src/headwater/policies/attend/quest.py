"""attend/quest: the pages whose keys could score highest, by channel-wise bounds."""

from dataclasses import dataclass

from headwater.core.registry import register
from headwater.kernels.select import QUEST, SelectSpec
from headwater.policies.attend.api import positions, share


@register("attend", "quest")
@dataclass(slots=True)
class Quest:
    """Read the `retrieve` share of pages of 16 positions with the highest upper bound of q · k, and the newest positions; first layers densely.

    Source: Tang et al., "Quest: Query-Aware Sparsity" (2406.10774). Pages are shared by the heads of a group, by their summed soft-max;
    only whole segments of `segment` positions are paged, at least `local` newest positions are read in any case.

    dense_layers: first layers that read everything.
    """

    retrieve: float = 0.1
    sinks: int = 4
    local: int = 64
    segment: int = 1024
    dense_layers: int = 2

    def selection(self) -> SelectSpec | None:
        segment = positions("segment", self.segment, 256, 4096, 256)
        return SelectSpec(
            QUEST, positions("sinks", self.sinks, 0, segment // 2), positions("local", self.local, 1), segment, iterations=0,
            dense_layers=positions("dense_layers", self.dense_layers), retrieve=share("retrieve", self.retrieve),
        )
