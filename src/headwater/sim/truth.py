"""Is the simulator true? Replay a trace on the real engine and in virtual time, and print both.

Twice: with the costs of the real replay's own steps (what differs is the simulator's doing), and with costs measured in other minutes (what
differs is the machine's too: waiting in bursts magnifies a few per cent of speed many times). Three real replays per load give the machine's own
run-to-run spread; a simulated claim below that spread or below our error is no claim.
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
    """One figure at one load, a value per replay. real: measured; replayed: simulated with the costs of the replay's own steps at their times, so
    that what is left is the simulator's error; foretold: simulated with costs that were measured around the replay."""

    load: float
    figure: str
    real: list[float]
    replayed: list[float]
    foretold: list[float]

    @property
    def spread(self) -> float:
        """Largest relative distance of a real replay from their median."""
        middle = statistics.median(self.real)
        return max(abs(x / middle - 1.0) for x in self.real)

    @property
    def tolerance(self) -> float:
        """10 % for p50, 15 % for p95, or the spread where that is larger."""
        return max(0.10 if self.figure.endswith("p50") else 0.15, self.spread)

    def error(self, simulated: list[float]) -> float:
        """Median over the replays of simulated / real - 1."""
        return statistics.median(s / r for s, r in zip(simulated, self.real, strict=True)) - 1.0

    def holds(self, simulated: list[float]) -> bool:
        return abs(self.error(simulated)) <= self.tolerance

    def json(self) -> dict[str, object]:
        judged = {f"{name}_{what}": judge(getattr(self, name)) for name in ("replayed", "foretold")
                  for what, judge in (("error", self.error), ("holds", self.holds))}
        return {**asdict(self), "spread": self.spread, **judged}


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
    the trace's bursts and are drawn from its runs (`Trace.redrawn`). The
    forecast uses no step of the replay; beside it stands what its own steps give.
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
        real, foretold, own = [], [], []
        everything.append(measure(stretched))
        for r in range(replays):
            wanted = requests(stretched, vocabulary, f"{load}/{r}.")
            record, steps = logged(engine, wanted, tell(f"load {load:g}, replay {r + 1}"))
            real.append(record.figures())
            own.append(replay_simulated(engine, wanted, Measured.of([steps], aligned=True), sched, evict)[0].figures())
            everything.append(measure(stretched))
            around = [Measured.of(everything[-2:], draw) for draw in range(_DRAWS)]
            foretold.append([replay_simulated(engine, wanted, measured, sched, evict)[0].figures() for measured in around])
        for name, key in _KEYS:
            lines.append(Line(load, f"{name} {key}", [getattr(f, name)[key] for f in real], [getattr(f, name)[key] for f in own],
                              [statistics.median(getattr(f, name)[key] for f in draws) for draws in foretold]))
    return Measured.of(everything).fit, lines


def text(found: Fit, lines: list[Line]) -> str:
    """A table: what was measured, what the replay's own steps give and what costs of other minutes foretell; `!` marks what is outside."""
    out = ["cost model, held-out steps: " + ", ".join(f"{k} {100 * v:.1f} %" for k, v in found.error.items()),
           f"{'load':>5} {'figure':<9}{'real (replays)':<27}{'spread':>8}  {'its own steps':<27}{'error':>9}   {'other minutes':<27}{'error':>9}"]
    for x in lines:
        row = f"{x.load:>5g} {x.figure:<9}{' '.join(f'{v:.4g}' for v in x.real):<27}{100 * x.spread:>7.1f}%"
        for simulated in (x.replayed, x.foretold):
            row += f"  {' '.join(f'{v:.4g}' for v in simulated):<27}{100 * x.error(simulated):>+8.1f}%{' ' if x.holds(simulated) else '!'}"
        out.append(row)
    own, other = sum(x.holds(x.replayed) for x in lines), sum(x.holds(x.foretold) for x in lines)
    out.append(f"within 10 % (p50), 15 % (p95) or the spread, of {len(lines)} figures: {own} with the costs of a replay's own steps (is the "
               f"simulator true?), {other} with those of other minutes (what is a forecast worth on this machine?)")
    return "\n".join(out)
