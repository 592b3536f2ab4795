"""attend/verticalslash: prompts read fixed numbers of columns and of distances, the heaviest of each head."""

from dataclasses import dataclass

from headwater.core.registry import register
from headwater.kernels.pattern import VERTICAL_SLASH, PatternSpec
from headwater.policies.attend.api import frame, positions


@register("attend", "verticalslash")
@dataclass(slots=True)
class VerticalSlash:
    """Keep `vertical` positions by column and `slash` distances, in runs of 16, with the largest sampled mass.

    Source: Jiang et al., "MInference 1.0" (2407.02490), its vertical-slash pattern with one setting for all heads instead of an offline search.
    Decided per absolute tile from samples before it, see `crisp`; so `whole_prompt`. sinks, local: columns and distances kept in any case.
    """

    vertical: int = 512
    slash: int = 1024
    tile: int = 512
    queries: int = 16
    sinks: int = 32
    local: int = 112
    dense_layers: int = 0
    whole_prompt: bool = False

    def selection(self) -> PatternSpec | None:
        shape = frame(self.tile, 16, self.queries, self.sinks, self.local, self.dense_layers, self.whole_prompt)
        return PatternSpec(VERTICAL_SLASH, **shape, vertical=positions("vertical", self.vertical), slash=positions("slash", self.slash))
