"""sched/whole: prompts are computed whole or wait; for models whose attention looks both ways, where a chunk cannot know what follows it."""

from dataclasses import dataclass

from headwater.core.registry import register
from headwater.policies.sched.api import SchedPolicy


@register("sched", "whole")
@dataclass(slots=True)
class WholePrompts(SchedPolicy):
    """Arrival order; a prompt joins a step only if all of it fits. Give it a `tokens` budget of at least one context."""

    tokens: int = 8192

    def chunk(self, pending: int, left: int, others: int) -> int:
        """All or nothing."""
        return pending if pending <= left else 0
