"""One simulated run: a trace, a machine, the policies; the real scheduler in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np

from headwater.core.cost import LinearCost
from headwater.core.errors import UserInputError
from headwater.core.events import Arrive, Cancel, Event
from headwater.core.executor import Caps, CostModel
from headwater.core.kvspec import BLOCK_TOKENS, CacheGroup, KVSpec
from headwater.core.params import SamplingParams
from headwater.core.plan import StepFeatures
from headwater.core.registry import build
from headwater.core.request import Request
from headwater.sched.scheduler import Scheduler
from headwater.sim.executor import SimExecutor
from headwater.sim.faults import Faults
from headwater.sim.fit import Fit
from headwater.sim.loop import Loop
from headwater.sim.record import Objective, Record, RunReport
from headwater.sim.traces import Trace

VOCABULARY = 49_152
SMOLLM2 = KVSpec((CacheGroup("full", 30, 3, 64),))                 # the embedded default model's shape


@dataclass(slots=True)
class Machine:
    """What is simulated. memory: tokens of KV (0 = enough for the whole trace). context: longest sequence. fit: costs from `headwater sim fit`, or
    the built-in coefficients; speed: how many times faster than those. block: tokens per block (traces with hash ids may use larger ones)."""

    memory: int = 65_536
    context: int = 8192
    spec: KVSpec = SMOLLM2
    fit: Fit | None = None
    speed: float = 1.0
    block: int = BLOCK_TOKENS
    slots: int = 512

    def __post_init__(self) -> None:
        if not 0 < self.speed < np.inf:
            raise UserInputError(f"--speed: must be a number above 0, got {self.speed:g}", field="speed")
        if self.memory and self.block > self.memory:
            raise UserInputError(f"--block: a block of {self.block:,} tokens is more than the memory of {self.memory:,}", field="block")

    def caps(self, trace: Trace) -> Caps:
        tokens = self.memory or int(trace.prompt.sum(dtype=np.int64) + trace.output.sum(dtype=np.int64)) + self.block * (len(trace) + 1)
        blocks = max(tokens // self.block, 1)
        return Caps(self.spec, (blocks,) * len(self.spec.groups), self.slots if self.spec.states else 0, self.context, VOCABULARY, "sim")


@dataclass(slots=True)
class FasterCost:
    """A cost model of a machine that is `speed` times faster."""

    base: CostModel
    speed: float

    def step_seconds(self, f: StepFeatures) -> float:
        return self.base.step_seconds(f) / self.speed

    def bound_seconds(self, f: StepFeatures) -> float:
        return self.base.bound_seconds(f) / self.speed

    def learn(self, f: StepFeatures, seconds: float) -> None:
        """Fixed numbers do not learn."""


@dataclass(slots=True)
class Run:
    """sched, evict: room specs. leavers: share of clients that leave at a random time of their answer. seed: for leavers and faults.
    progress: called with (arrived, total)."""

    trace: Trace
    machine: Machine = field(default_factory=Machine)
    sched: str = "fcfs"
    evict: str = "lru"
    objective: Objective = field(default_factory=Objective)
    leavers: float = 0.0
    seed: int = 0
    faults: Faults | None = None
    check: str | None = None
    progress: Callable[[int, int], None] | None = None

    def simulate(self) -> RunReport:
        """Run the trace to its end."""
        begin = perf_counter()
        caps = self.machine.caps(self.trace)
        fitted = self.machine.fit
        truth: CostModel = fitted.cost if fitted else LinearCost()
        if self.machine.speed != 1.0:
            truth = FasterCost(truth, self.machine.speed)
        scheduler = Scheduler(caps, build("sched", self.sched), build("evict", self.evict), truth, block=self.machine.block)  # it has learned already
        record = Record(self.objective)
        executor = SimExecutor(caps)
        loop = Loop(scheduler, executor, truth, record.observe, None, self.faults, self.check, lambda: SimExecutor(caps),
                    fitted.overhead if fitted else (0.0, 0.0))
        loop.feed = self._events(record, loop)
        loop.run()
        c = scheduler.counters
        setting = {"trace": self.trace.name, "requests": len(self.trace), "sched": self.sched, "evict": self.evict,
                   "memory_tokens": self.machine.memory, "context": self.machine.context, "block": self.machine.block, "speed": self.machine.speed,
                   "leavers": self.leavers, "seed": self.seed, "costs": "fitted" if fitted else "built-in"}
        return RunReport(f"{self.trace.name}: {self.sched}, {self.evict}", setting, record.figures(), loop.steps, loop.busy / max(loop.now, 1e-9),
                         c.preempted, c.recomputed, scheduler.kv.evicted, int(scheduler.kv.copies.sum()), c.refused, perf_counter() - begin,
                         dict(fitted.error) if fitted else {})

    def _events(self, record: Record, loop: Loop) -> Iterator[tuple[float, Event]]:
        rng = np.random.default_rng(self.seed)
        trace, params = self.trace, SamplingParams()
        for i, time in enumerate(trace.time.tolist()):
            name = f"t{i}"
            prompt = trace.ids(i, VOCABULARY)
            record.arrive(name, time, len(prompt))
            if self.leavers and rng.random() < self.leavers:
                loop.at(time + float(rng.exponential(self.objective.ttft + self.objective.tpot * int(trace.output[i]))), Cancel(name))
            if self.progress is not None:
                self.progress(i + 1, len(trace))
            owner = "" if trace.blocks is None or not len(trace.blocks.row(i)) else f"o{int(trace.blocks.row(i)[0])}"
            yield time, Arrive(Request(name, prompt, params, int(trace.output[i]), seed=i, arrival=time, owner=owner))


def check_fits(trace: Trace, machine: Machine) -> int:
    """How many requests of the trace are longer than the machine (they will be refused); UserInputError when all are."""
    limit = min(machine.context, machine.memory or machine.context)
    longer = int((trace.prompt + trace.output > limit).sum())
    if longer == len(trace):
        raise UserInputError(f"--memory/--context: all {longer} requests are longer than the {limit} tokens that the machine holds", field="memory")
    return longer
