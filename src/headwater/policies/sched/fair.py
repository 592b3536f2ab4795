"""sched/fair: the owner who got least service is next (virtual token counter)."""

from dataclasses import dataclass, field

import numpy as np

from headwater.core.registry import register, require
from headwater.policies.sched.api import RowsView, SchedPolicy


@register("sched", "fair")
@dataclass(slots=True)
class Fair(SchedPolicy):
    """Count weighted tokens per owner; the owner with the smallest count goes first, arrival order within an owner.

    Source: Sheng et al., "Fairness in serving large language models" (arXiv 2401.00588, algorithm 2): an owner who returns from idleness
    is lifted to the smallest count among the busy ones, so that credit cannot be saved up.

    prompt_weight, new_weight: what a computed prompt token and a drawn token cost.
    """

    prompt_weight: float = 1.0
    new_weight: float = 2.0
    _served: np.ndarray = field(default_factory=lambda: np.zeros(16), init=False, repr=False)
    _busy: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int32), init=False, repr=False)

    def __post_init__(self) -> None:
        SchedPolicy.__post_init__(self)
        for name in ("prompt_weight", "new_weight"):
            value = getattr(self, name)
            require("sched", name, value, 0 <= value <= 1e9, "from 0 to 1e9")

    def rank(self, rows: RowsView, now: float) -> np.ndarray:
        owners = np.unique(rows.owner)
        self._grow(int(owners[-1]) + 1 if len(owners) else 0)
        stayed = np.intersect1d(owners, self._busy, assume_unique=True)
        fresh = np.setdiff1d(owners, self._busy, assume_unique=True)
        if len(stayed) and len(fresh):
            self._served[fresh] = np.maximum(self._served[fresh], self._served[stayed].min())
        self._busy = owners
        first = rows.order / (rows.order.max() + 1.0) if len(rows) else rows.order      # below one token: orders within an owner
        return self._served[rows.owner] + first

    def victim(self, rows: RowsView, now: float) -> np.ndarray:
        """The newest row of the best-served owner steps aside."""
        self._grow(int(rows.owner.max()) + 1 if len(rows) else 0)
        return self._served[rows.owner] + (rows.order / (rows.order.max() + 1.0) if len(rows) else rows.order)

    def ran(self, owner: np.ndarray, computed: np.ndarray, drawn: np.ndarray) -> None:
        if len(owner):
            self._grow(int(owner.max()) + 1)
            np.add.at(self._served, owner, self.prompt_weight * computed + self.new_weight * drawn)

    def _grow(self, n: int) -> None:
        if n > len(self._served):
            self._served = np.concatenate([self._served, np.zeros(max(n, 2 * len(self._served)) - len(self._served))])
