"""attend/flexprefill: prompts read the columns, distances or blocks that cover a share of the mass, head by head."""

from dataclasses import dataclass

from headwater.core.registry import register
from headwater.kernels.pattern import CRISP, ROUTES, PatternSpec
from headwater.policies.attend.api import frame, number, positions, share


@register("attend", "flexprefill")
@dataclass(slots=True)
class FlexPrefill:
    """Keep the smallest set of blocks that covers `gamma` of the sampled mass, by column and by distance, or by means where the pooled map agrees.

    Source: Lai et al., "FlexPrefill" (ICLR 2025), as restated by CRISP (2609.01925, appendix A): a head whose pooled map lies further than
    `tau` (root of the Jensen-Shannon divergence) from the sampled one goes by columns and distances, others by pooled scores. Decided per
    absolute tile from samples before it, see `crisp`; so `whole_prompt`.
    """

    gamma: float = 0.95
    tau: float = 0.1
    block: int = 128
    least: int = 8
    tile: int = 512
    queries: int = 16
    sinks: int = 128
    local: int = 128
    dense_layers: int = 0
    whole_prompt: bool = False

    def selection(self) -> PatternSpec | None:
        if self.gamma >= 1:
            return None
        shape = frame(self.tile, self.block, self.queries, self.sinks, self.local, self.dense_layers, self.whole_prompt)
        return PatternSpec(
            CRISP, **shape, route=ROUTES.index("divergence"), tau=number("tau", self.tau), coverage=True, gamma=share("gamma", self.gamma),
            least=positions("least", self.least, 0, 1 << 16),
        )
