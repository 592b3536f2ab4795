"""Is the simulator true? Replay a trace on the real engine, replay it in virtual time with costs fitted on other steps, and print both.

Three real replays per load give the machine's own run-to-run spread; a simulated claim below that spread or below our error is no claim.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from headwater.core.cost import KNEE, LearnedCost
from headwater.core.events import Arrive
from headwater.core.params import SamplingParams
from headwater.core.plan import StepFeatures
from headwater.core.registry import build
from headwater.core.request import Request
from headwater.sched.scheduler import Scheduler
from headwater.sim.executor import SimExecutor
from headwater.sim.fit import FEATURES, Fit, fit
from headwater.sim.loop import Loop
from headwater.sim.record import Record
from headwater.sim.traces import Trace

if TYPE_CHECKING:
    from headwater.engine.engine import Engine

_STRETCH = 100                    # virtual steps that take consecutive measured ratios
_DRAWS = 9                        # virtual replays of one real one, each with its own draw of ratios; their median is the figure
_KEYS = (("ttft", "p50"), ("ttft", "p95"), ("itl", "p50"), ("itl", "p95"))


@dataclass(frozen=True, slots=True)
class Line:
    """One figure at one load. real: one value per replay; simulated: one per replay, with the costs that were measured around it; tolerance: 10 % for
    p50, 15 % for p95, or the real spread where larger."""

    load: float
    figure: str
    real: list[float]
    simulated: list[float]

    @property
    def middle(self) -> float:
        return statistics.median(self.real)

    @property
    def spread(self) -> float:
        """Largest relative distance of a real replay from their median."""
        return max(abs(x / self.middle - 1.0) for x in self.real)

    @property
    def error(self) -> float:
        """Median over the replays of simulated / real - 1."""
        return statistics.median(s / r for s, r in zip(self.simulated, self.real, strict=True)) - 1.0

    @property
    def tolerance(self) -> float:
        return max(0.10 if self.figure.endswith("p50") else 0.15, self.spread)

    @property
    def holds(self) -> bool:
        return abs(self.error) <= self.tolerance

    def json(self) -> dict[str, object]:
        return {**asdict(self), "spread": self.spread, "error": self.error, "holds": self.holds}


def requests(trace: Trace, vocabulary: int, tag: str) -> list[Request]:
    """Greedy requests of exactly the trace's lengths; `tag` keeps runs of one trace from sharing cached prompts."""
    plain = SamplingParams(temperature=0.0)
    return [Request(f"{tag}{i}", trace.ids(i, vocabulary), plain, int(trace.output[i]), seed=i, arrival=t, cache_salt=tag)
            for i, t in enumerate(trace.time.tolist())]


def replay_real(engine: Engine, wanted: list[Request], progress: Callable[[int, int], None] | None = None) -> Record:
    """Send requests at their times on the real clock and turn the engine until all ended."""
    record, begin, sent, ended = Record(), time.monotonic(), 0, 0
    shift = engine.clock.now()
    for request in wanted:
        record.arrive(request.request_id, request.arrival, len(request.prompt))
    while ended < len(wanted):
        now = time.monotonic() - begin
        while sent < len(wanted) and wanted[sent].arrival <= now:
            engine.post(Arrive(replace(wanted[sent], arrival=wanted[sent].arrival + shift)))
            sent += 1
        outputs = engine.run_once()
        if outputs is None:
            if sent < len(wanted):
                time.sleep(max(wanted[sent].arrival - (time.monotonic() - begin), 0.0))
            continue
        now = time.monotonic() - begin
        before = ended
        for output in outputs:
            record.observe(output, now)
            ended += output.finish is not None
        if progress is not None and ended != before:                # not every step: drawing would count as the engine's time
            progress(ended, len(wanted))
    return record


@dataclass(slots=True)
class Measured:
    """Costs as a machine showed them. ratios: seconds / prediction of measured steps in their order, up to the knee and beyond it, with the numbers
    of the steps in at. A virtual step takes the ratio of its kind at a place that moves on with every step and jumps after a stretch (a moving block
    bootstrap, Kuensch 1989): slow steps scatter and come in runs as on the machine, so that queues grow as they did and the scheduler under test
    learns the same caution."""

    fit: Fit
    ratios: tuple[np.ndarray, np.ndarray]
    at: tuple[np.ndarray, np.ndarray]
    rng: np.random.Generator
    place: int = 0
    left: int = 0                                                   # steps until the next jump

    @classmethod
    def of(cls, records: list[np.ndarray], seed: int = 0) -> Measured:
        """From the log records of calibrations."""
        r = np.concatenate(records)
        steps = [StepFeatures(*x) for x in zip(*(r[n].tolist() for n in FEATURES), strict=True)]
        found = fit(steps, r["step_seconds"], r["plan_seconds"] + r["apply_seconds"] + np.median(np.concatenate([outside(x) for x in records])))
        ratio = r["step_seconds"] / np.maximum([found.cost.step_seconds(f) for f in steps], 1e-9)
        usual, big = ratio < 5, r["tokens"] > KNEE                  # the fit leaves the others out too
        at = [np.flatnonzero(usual & kind) for kind in (~big, big)]
        return cls(found, (ratio[at[0]], ratio[at[1]]), (at[0], at[1]), np.random.default_rng(seed))

    def step_seconds(self, f: StepFeatures) -> float:
        kind = f.tokens > KNEE
        ratios, at = self.ratios[kind], self.at[kind]
        if not len(ratios):
            return self.fit.cost.step_seconds(f)
        if not self.left:
            self.left, self.place = _STRETCH, int(self.rng.integers(max(int(a[-1]) + 1 for a in self.at if len(a))))
        self.left, self.place = self.left - 1, self.place + 1
        return self.fit.cost.step_seconds(f) * float(ratios[np.searchsorted(at, self.place - 1) % len(ratios)])

    def bound_seconds(self, f: StepFeatures) -> float:
        return self.fit.cost.bound_seconds(f)

    def learn(self, f: StepFeatures, seconds: float) -> None:
        """What was measured stays."""


def replay_simulated(engine: Engine, wanted: list[Request], truth: Measured, sched: str, evict: str) -> tuple[Record, float]:
    """The same requests in virtual time under the same capacities and policies, with measured costs; also the virtual seconds it took."""
    caps = engine.executor.caps()
    learned = LearnedCost(prior=truth.fit.cost)
    scheduler = Scheduler(caps, build("sched", sched), build("evict", evict), learned)
    record = Record()
    loop = Loop(scheduler, SimExecutor(caps), truth, record.observe, learned, overhead=truth.fit.overhead)
    for request in wanted:
        record.arrive(request.request_id, request.arrival, len(request.prompt))
        loop.at(request.arrival, Arrive(request))
    loop.run()
    return record, loop.now


def outside(records: np.ndarray) -> np.ndarray:
    """Seconds between consecutive steps that the engine does not account for: who turns it and takes its outputs. Gaps without work are left out."""
    own = records["apply_seconds"][:-1] + records["plan_seconds"][1:] + records["step_seconds"][1:]
    gaps = np.diff(records["at"]) - own
    return gaps[(gaps > 0) & (gaps < 1e-3)]


def calibrate(engine: Engine, like: Trace, seed: int, progress: Callable[[int, int], None] | None = None) -> np.ndarray:
    """Run requests that are drawn from runs of the trace's (`Trace.redrawn`) -> the log records of their steps."""
    before = engine.log.count
    replay_real(engine, requests(like.redrawn(seed), engine.executor.caps().vocabulary, f"calibrate{seed}."), progress)
    return engine.log.records()[-(engine.log.count - before) :]


def compare(engine: Engine, trace: Trace, loads: list[float], replays: int, sched: str = "fcfs", evict: str = "slru", seed: int = 0,
            progress: Callable[[str, int, int], None] | None = None) -> tuple[Fit, list[Line]]:
    """Calibrate, then for each load (share of the capacity: the trace's busy time when all of it arrives at once) replay really and virtually.

    Each real replay stands between two calibrations at the same load and is simulated with what those two measured: a shared machine is not as
    fast in this minute as it was in the last, and a processor that idles between requests is slower than one that does not, so calibrations have
    the trace's bursts. No step of a replay is fitted to.
    """
    def tell(title: str) -> Callable[[int, int], None] | None:
        return None if progress is None else lambda done, total: progress(title, done, total)

    vocabulary, runs = engine.executor.caps().vocabulary, 0

    def measure(like: Trace) -> np.ndarray:
        nonlocal runs
        runs += 1
        return calibrate(engine, like, seed + runs, tell("calibrate"))

    together = replace(trace, time=np.zeros(len(trace)))
    measure(together)                                               # the first steps of a process are slow
    everything = [measure(together)]
    _, shortest = replay_simulated(engine, requests(together, vocabulary, "all."), Measured.of(everything), sched, evict)
    lines: list[Line] = []
    for load in loads:
        stretched = replace(trace, time=trace.time * (shortest / load / max(float(trace.time[-1]), 1e-9)))
        real, simulated = [], []
        everything.append(measure(stretched))
        for r in range(replays):
            wanted = requests(stretched, vocabulary, f"{load}/{r}.")
            real.append(replay_real(engine, wanted, tell(f"load {load:g}, replay {r + 1}")).figures())
            everything.append(measure(stretched))
            around = [Measured.of(everything[-2:], draw) for draw in range(_DRAWS)]
            simulated.append([replay_simulated(engine, wanted, measured, sched, evict)[0].figures() for measured in around])
        for name, key in _KEYS:
            lines.append(Line(load, f"{name} {key}", [getattr(f, name)[key] for f in real],
                              [statistics.median(getattr(f, name)[key] for f in draws) for draws in simulated]))
    return Measured.of(everything).fit, lines


def text(found: Fit, lines: list[Line]) -> str:
    """A table: real replays, each simulated, error, spread of the machine."""
    out = ["cost model, held-out steps: " + ", ".join(f"{k} {100 * v:.1f} %" for k, v in found.error.items()),
           f"{'load':>5} {'figure':<9}{'real (replays)':<30}{'simulated':<30}{'error':>9}{'spread':>9}"]
    for x in lines:
        real = " ".join(f"{v:.4g}" for v in x.real)
        simulated = " ".join(f"{v:.4g}" for v in x.simulated)
        out.append(f"{x.load:>5g} {x.figure:<9}{real:<30}{simulated:<30}{100 * x.error:>8.1f}%{100 * x.spread:>8.1f}%"
                   + ("" if x.holds else "  outside"))
    return "\n".join(out)
