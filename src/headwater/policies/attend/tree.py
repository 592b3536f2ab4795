"""attend/tree: pages found by descending a tree of summaries, so that the index costs the logarithm of the context and not the context."""

from dataclasses import dataclass
from typing import Literal

from headwater.core.registry import register, require
from headwater.kernels.select import TREE, SelectSpec
from headwater.policies.attend.api import positions, share


@register("attend", "tree")
@dataclass(slots=True)
class Tree:
    """Read the `retrieve` share of pages of 16 positions, found from the top of a tree over positions: the best `beam` nodes of a level are opened.

    Our reconstruction: of "Subquadratic Attention with a Hierarchical Tree-Structured Indexer" (2610.42112) only title and abstract were to be
    had. Implicit trees of fan-out `fanout` over anchored segments, each alone; the search starts at the finest level of at most 2 · beam nodes.
    score: `bounds` (channel-wise minimum and maximum, as quest: a node never scores below its children), or `mass` (mean and half the variance
    along the query, the second cumulant of the attention mass below the node). Scores are shared by the heads of a group as soft-max sums.

    dense_layers: first layers that read everything.
    """

    retrieve: float = 0.1
    beam: int = 64
    fanout: int = 4
    score: Literal["bounds", "mass"] = "bounds"
    sinks: int = 4
    local: int = 64
    segment: int = 1024
    dense_layers: int = 0

    def selection(self) -> SelectSpec | None:
        segment = positions("segment", self.segment, 256, 4096, 256)
        require("attend", "fanout", self.fanout, self.fanout in (2, 4, 8, 16), "2, 4, 8 or 16")
        return SelectSpec(
            TREE, positions("sinks", self.sinks, 0, segment // 2), positions("local", self.local, 1), segment, iterations=0,
            dense_layers=positions("dense_layers", self.dense_layers), retrieve=share("retrieve", self.retrieve), fanout=self.fanout,
            beam=positions("beam", self.beam, 1), mass=self.score == "mass",
        )
