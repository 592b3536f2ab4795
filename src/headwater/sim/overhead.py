"""The scheduler's own share of a step, measured with an executor that computes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter

import numpy as np

from headwater.core.cost import LearnedCost
from headwater.core.events import Arrive
from headwater.core.executor import Caps
from headwater.core.kvspec import CacheGroup, KVSpec
from headwater.core.params import SamplingParams
from headwater.core.registry import build
from headwater.core.request import Request
from headwater.sched.scheduler import Scheduler
from headwater.sim.executor import SimExecutor


@dataclass(frozen=True, slots=True)
class Overhead:
    """Median microseconds of plan and apply per decode step with `rows` rows."""

    rows: int
    plan_us: float
    apply_us: float

    @property
    def total_us(self) -> float:
        return self.plan_us + self.apply_us


def measure(rows: int, steps: int = 200, spec: KVSpec | None = None) -> Overhead:
    """Decode `steps` steps with `rows` rows and time plan and apply."""
    spec = spec or KVSpec((CacheGroup("full", 30, 3, 64),))
    caps = Caps(spec, (rows * 80,) * len(spec.groups), 4 * rows, 2048, 49152, "null")
    policy = build("sched", f"fcfs:rows={max(rows, 1)},seconds=1e9,idle_seconds=1e9")
    scheduler = Scheduler(caps, policy, build("evict", "lru"), LearnedCost())
    executor = SimExecutor(caps)
    rng = np.random.default_rng(0)
    for i in range(rows):
        prompt = rng.integers(0, 40000, 200).astype(np.int32)
        scheduler.on(Arrive(Request(f"r{i}", prompt, SamplingParams(), 2 * steps + 300, frozenset({2}), owner="bench")), 0.0)
    times: list[tuple[float, float]] = []
    while len(times) < steps:
        a = perf_counter()
        plan = scheduler.plan(0.0)
        b = perf_counter()
        assert plan is not None
        executor.submit(plan)
        result = executor.collect()
        assert result is not None
        c = perf_counter()
        scheduler.apply(result, 0.0)
        d = perf_counter()
        if plan.n_tokens == rows:
            times.append((b - a, d - c))
    mid = np.median(np.array(times), axis=0) * 1e6
    return Overhead(rows, float(mid[0]), float(mid[1]))
