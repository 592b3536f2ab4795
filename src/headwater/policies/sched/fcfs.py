"""sched/fcfs: first come, first served; the newest steps aside first."""

from dataclasses import dataclass

from headwater.core.registry import register
from headwater.policies.sched.api import SchedPolicy


@register("sched", "fcfs")
@dataclass(slots=True)
class FirstCome(SchedPolicy):
    """Arrival order for everything. No starvation: the oldest request always runs."""
