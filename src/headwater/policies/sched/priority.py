"""sched/priority: the request's own priority decides, lower first, with ageing so that nobody waits for ever."""

import math
from dataclasses import dataclass

import numpy as np

from headwater.core.registry import register, require
from headwater.policies.sched.api import RowsView, SchedPolicy


@register("sched", "priority")
@dataclass(slots=True)
class Priority(SchedPolicy):
    """Rank by priority, then arrival.

    ageing: seconds of waiting that are worth one step of priority (0 = strict, which can starve).
    """

    ageing: float = 30.0

    def __post_init__(self) -> None:
        SchedPolicy.__post_init__(self)
        require("sched", "ageing", self.ageing, self.ageing == 0 or 1e-6 <= self.ageing < math.inf, "0 or at least a microsecond")

    def rank(self, rows: RowsView, now: float) -> np.ndarray:
        aged = (now - rows.arrival) / self.ageing if self.ageing > 0 else 0.0
        return rows.priority - aged
