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

from headwater.core.cost import LearnedCost
from headwater.core.events import Arrive
from headwater.core.params import SamplingParams
from headwater.core.registry import build
from headwater.core.request import Request
from headwater.sched.scheduler import Scheduler
from headwater.sim.executor import SimExecutor
from headwater.sim.fit import Fit
from headwater.sim.loop import Loop
from headwater.sim.measured import Measured
from headwater.sim.record import Record
from headwater.sim.traces import Trace

if TYPE_CHECKING:
    from headwater.engine.engine import Engine

_DRAWS = 9                        # virtual replays of one real one, each with its own draw of ratios; their median is the figure
_KEYS = (("ttft", "p50"), ("ttft", "p95"), ("itl", "p50"), ("itl", "p95"))


@dataclass(frozen=True, slots=True)
class Line:
    """One figure at one load. real: one value per replay; simulated: one per replay, with the costs that were measured around it; tolerance: 10 % for
    p50, 15 % for p95, or the real spread where larger. own: one per replay, with the costs of its own steps at their times: what is left then is the
    simulator's error and not the machine's."""

    load: float
    figure: str
    real: list[float]
    simulated: list[float]
    own: list[float]

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
    def own_error(self) -> float:
        """The same with the costs of the replay's own steps."""
        return statistics.median(s / r for s, r in zip(self.own, self.real, strict=True)) - 1.0

    @property
    def tolerance(self) -> float:
        return max(0.10 if self.figure.endswith("p50") else 0.15, self.spread)

    @property
    def holds(self) -> bool:
        return abs(self.error) <= self.tolerance

    def json(self) -> dict[str, object]:
        return {**asdict(self), "spread": self.spread, "error": self.error, "own_error": self.own_error, "holds": self.holds}


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
    truth.now = lambda: loop.now - wanted[0].arrival
    loop.run()
    return record, loop.now


def logged(engine: Engine, wanted: list[Request], progress: Callable[[int, int], None] | None = None) -> tuple[Record, np.ndarray]:
    """`replay_real`, and the log records of its steps."""
    before = engine.log.count
    record = replay_real(engine, wanted, progress)
    return record, engine.log.records()[before - engine.log.count :].copy()


def compare(engine: Engine, trace: Trace, loads: list[float], replays: int, sched: str = "fcfs", evict: str = "slru", seed: int = 0,
            progress: Callable[[str, int, int], None] | None = None) -> tuple[Fit, list[Line]]:
    """Calibrate, then for each load (share of the capacity: the trace's busy time when all of it arrives at once) replay really and virtually.

    Each real replay stands between two calibrations at the same load and is simulated with what those two measured: a shared machine is not as
    fast in this minute as it was in the last, and a processor that idles between requests is slower than one that does not, so calibrations have
    the trace's bursts and are drawn from its runs (`Trace.redrawn`). No step of a replay is fitted to; beside it stands what its own steps give.
    """
    def tell(title: str) -> Callable[[int, int], None] | None:
        return None if progress is None else lambda done, total: progress(title, done, total)

    vocabulary, runs = engine.executor.caps().vocabulary, 0

    def measure(like: Trace) -> np.ndarray:
        nonlocal runs
        runs += 1
        return logged(engine, requests(like.redrawn(seed + runs), vocabulary, f"calibrate{seed + runs}."), tell("calibrate"))[1]

    together = replace(trace, time=np.zeros(len(trace)))
    measure(together)                                               # the first steps of a process are slow
    everything = [measure(together)]
    _, shortest = replay_simulated(engine, requests(together, vocabulary, "all."), Measured.of(everything), sched, evict)
    lines: list[Line] = []
    for load in loads:
        stretched = replace(trace, time=trace.time * (shortest / load / max(float(trace.time[-1]), 1e-9)))
        real, simulated, own = [], [], []
        everything.append(measure(stretched))
        for r in range(replays):
            wanted = requests(stretched, vocabulary, f"{load}/{r}.")
            record, steps = logged(engine, wanted, tell(f"load {load:g}, replay {r + 1}"))
            real.append(record.figures())
            own.append(replay_simulated(engine, wanted, Measured.of([steps], aligned=True), sched, evict)[0].figures())
            everything.append(measure(stretched))
            around = [Measured.of(everything[-2:], draw) for draw in range(_DRAWS)]
            simulated.append([replay_simulated(engine, wanted, measured, sched, evict)[0].figures() for measured in around])
        for name, key in _KEYS:
            lines.append(Line(load, f"{name} {key}", [getattr(f, name)[key] for f in real],
                              [statistics.median(getattr(f, name)[key] for f in draws) for draws in simulated],
                              [getattr(f, name)[key] for f in own]))
    return Measured.of(everything).fit, lines


def text(found: Fit, lines: list[Line]) -> str:
    """A table: real replays, each simulated, error, spread of the machine, and the error with the costs of a replay's own steps."""
    out = ["cost model, held-out steps: " + ", ".join(f"{k} {100 * v:.1f} %" for k, v in found.error.items()),
           f"{'load':>5} {'figure':<9}{'real (replays)':<30}{'simulated':<30}{'error':>9}{'spread':>9}{'own steps':>11}"]
    for x in lines:
        real = " ".join(f"{v:.4g}" for v in x.real)
        simulated = " ".join(f"{v:.4g}" for v in x.simulated)
        out.append(f"{x.load:>5g} {x.figure:<9}{real:<30}{simulated:<30}{100 * x.error:>8.1f}%{100 * x.spread:>8.1f}%{100 * x.own_error:>10.1f}%"
                   + ("" if x.holds else "  outside"))
    return "\n".join(out)
