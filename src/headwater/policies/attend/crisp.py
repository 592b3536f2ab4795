"""attend/crisp: prompts read columns and distances whose mass stands out of the noise, head by head."""

from dataclasses import dataclass
from typing import Literal

from headwater.core.registry import register
from headwater.kernels.pattern import CRISP, ROUTES, PatternSpec
from headwater.policies.attend.api import frame, number, positions, share


@register("attend", "crisp")
@dataclass(slots=True)
class Crisp:
    """Keep blocks of keys whose soft-max mass lies above the noise floor; heads without structure keep blocks by their means.

    Source: "CRISP" (2609.01925): structural mass at sinks and recency routes a head (`tau`), a cliff threshold (`alpha` times the mean mass
    outside both ends) selects for heads with structure, coverage `gamma` of pooled scores for others. Unlike there, every absolute `tile`
    of queries is decided from `queries` samples before it (one per 16 positions), so that chunks and the cache change nothing.

    alpha: 1 accurate, 1.25 balanced, 1.5 fast; 0 reads everything. block: keys kept together. least: fewest blocks per direction. sinks,
    local: anchors of the router, also read in any case. route: by structural mass, by Jensen-Shannon `divergence` of the pooled map (FlexPrefill),
    or always `slash` or `pooled`. coverage: keep by share `gamma` of the mass instead of above the floor. dense_layers: first layers that read all.
    whole_prompt: as published, decide once from the last 128 queries of the prompt (of a step, where it is cut): answers then depend on how the
    prompt is cut, so nothing is shared or cached.
    """

    alpha: float = 1.0
    tau: float = 0.2
    gamma: float = 0.95
    block: int = 128
    least: int = 8
    tile: int = 512
    queries: int = 16
    sinks: int = 128
    local: int = 128
    route: Literal["mass", "divergence", "slash", "pooled"] = "mass"
    coverage: bool = False
    dense_layers: int = 0
    whole_prompt: bool = False

    def selection(self) -> PatternSpec | None:
        if self.alpha == 0 and not self.coverage and self.gamma >= 1:
            return None
        shape = frame(self.tile, self.block, self.queries, self.sinks, self.local, self.dense_layers, self.whole_prompt)
        return PatternSpec(
            CRISP, **shape, route=ROUTES.index(self.route), tau=number("tau", self.tau), alpha=number("alpha", self.alpha), coverage=self.coverage,
            gamma=share("gamma", self.gamma), least=positions("least", self.least, 0, 1 << 16),
        )
