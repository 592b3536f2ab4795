"""sched/sjf: shortest job first by the tokens still to compute, with ageing."""

from dataclasses import dataclass

import numpy as np

from headwater.core.registry import register, require
from headwater.policies.sched.api import RowsView, SchedPolicy


@register("sched", "sjf")
@dataclass(slots=True)
class ShortestFirst(SchedPolicy):
    """Rank by remaining prompt tokens; a short prompt overtakes a long one between two of its chunks.

    Source: shortest remaining processing time, Schrage (1968); the length of the answer is unknown and left out.

    ageing: tokens forgiven per second of waiting, so that a long prompt is only delayed (0 = can starve).
    """

    ageing: float = 200.0

    def __post_init__(self) -> None:
        SchedPolicy.__post_init__(self)
        require("sched", "ageing", self.ageing, 0 <= self.ageing <= 1e9, "from 0 to 1e9")

    def rank(self, rows: RowsView, now: float) -> np.ndarray:
        return (rows.known - rows.done).astype(np.float64) - self.ageing * np.maximum(now - rows.arrival, 0.0)

    def victim(self, rows: RowsView, now: float) -> np.ndarray:
        """The newest steps aside: its work so far is the smallest loss."""
        return rows.order.astype(np.float64)
