"""A scheduler over the toy memory, for tests: run requests to their end and see what happened."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from headwater.core.events import Arrive, Event
from headwater.core.executor import Caps
from headwater.core.kvspec import CacheGroup, KVSpec, StateSpec
from headwater.core.params import SamplingParams
from headwater.core.plan import StepPlan
from headwater.core.registry import build
from headwater.core.request import Output, Request
from headwater.sched.scheduler import Scheduler
from headwater.sim.memory import MemoryExecutor

VOCABULARY = 97
FULL = KVSpec((CacheGroup("full", 2, 2, 16),))
WINDOW = KVSpec((CacheGroup("full", 2, 2, 16), CacheGroup("window", 2, 2, 16, window=40)))
HYBRID = KVSpec((CacheGroup("full", 2, 2, 16),), (StateSpec("delta", 2, (4, 4)),))
SHAPES = {"full": FULL, "window": WINDOW, "hybrid": HYBRID}


def prompt(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, VOCABULARY, n).astype(np.int32)


def request(name: str, ids: np.ndarray, new: int = 4, **more) -> Request:
    return Request(name, ids, SamplingParams(), new, **more)


@dataclass
class Toy:
    """Steps a scheduler by hand; `plans` and `outputs` keep everything."""

    spec: KVSpec = field(default_factory=lambda: FULL)
    blocks: int = 200
    slots: int = 64
    sched: str = "fcfs"
    evict: str = "lru"
    cost: object = None
    guess: object = None
    max_step_tokens: int = 8192
    context: int = 8192

    def __post_init__(self) -> None:
        self.caps = Caps(self.spec, (self.blocks,) * len(self.spec.groups), self.slots if self.spec.states else 0, self.context, VOCABULARY, "toy",
                         self.max_step_tokens)
        self.scheduler = Scheduler(self.caps, build("sched", self.sched), build("evict", self.evict), self.cost, guess=self.guess)
        self.executor = MemoryExecutor(self.caps)
        self.plans: list[StepPlan] = []
        self.outputs: list[Output] = []
        self.now = 0.0

    def arrive(self, *requests: Request) -> None:
        for r in requests:
            self.on(Arrive(r))

    def on(self, event: Event) -> None:
        self.scheduler.on(event, self.now)

    def step(self) -> StepPlan | None:
        """One step; None when nothing could be planned."""
        plan = self.scheduler.plan(self.now)
        self.outputs += self.scheduler.drain()
        if plan is None:
            return None
        self.plans.append(plan)
        self.executor.submit(plan)
        result = self.executor.collect()
        assert result is not None
        self.now += 1.0
        self.outputs += self.scheduler.apply(result, self.now)
        assert self.scheduler.check(full=True) == []
        return plan

    def run(self, *requests: Request) -> None:
        """Submit and step until nothing is left to do."""
        self.arrive(*requests)
        while self.step() is not None:
            pass

    def ids(self, name: str) -> list[int]:
        return [int(t) for o in self.outputs if o.request_id == name for t in o.ids]

    def end(self, name: str) -> Output:
        """The last output of a request; it must be its only end."""
        ends = [o for o in self.outputs if o.request_id == name and o.finish]
        assert len(ends) == 1, ends
        return ends[0]

    @property
    def computed(self) -> int:
        """Tokens computed in all steps."""
        return sum(p.n_tokens for p in self.plans)

    @property
    def copies(self) -> int:
        return sum(len(p.copies) for p in self.plans)
