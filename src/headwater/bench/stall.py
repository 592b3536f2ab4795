"""How long running streams wait for a token while a long prompt is computed: the largest gap beside the configured budget of a step."""

from __future__ import annotations

import statistics

import numpy as np

from headwater.bench.report import Figure, Report
from headwater.core.events import Arrive, Cancel
from headwater.core.params import SamplingParams
from headwater.core.request import Request
from headwater.engine.build import EngineSpec, load_engine
from headwater.engine.engine import Engine


class Gaps:
    """Turns the engine and notes when each stream got a token."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.last: dict[str, float] = {}
        self.gaps: dict[str, list[float]] = {}

    def turn(self) -> None:
        for out in self.engine.run_once() or ():
            if len(out.ids):
                now = self.engine.clock.now()
                if out.request_id in self.last:
                    self.gaps.setdefault(out.request_id, []).append(now - self.last[out.request_id])
                self.last[out.request_id] = now


def run(model: str, budget: float = 0.2, streams: int = 4, prompt: int = 7500) -> Report:
    """budget: seconds of a step while somebody decodes (`--sched fcfs:seconds=`)."""
    engine = load_engine(EngineSpec(model, sched=f"fcfs:seconds={budget}"))
    rng = np.random.default_rng(0)
    caps = engine.executor.caps()
    watch = Gaps(engine)

    def request(name: str, n: int, new: int) -> Request:
        ids = rng.integers(0, caps.vocabulary, n).astype(np.int32)
        return Request(name, ids, SamplingParams(max_tokens=None, ignore_eos=True), new, seed=n, arrival=engine.clock.now())

    engine.post(*(Arrive(request(f"s{i}", 100 + i, 2000)) for i in range(streams)))
    while min(len(watch.gaps.get(f"s{i}", ())) for i in range(streams)) < 40:
        watch.turn()
    calm = [g for i in range(streams) for g in watch.gaps[f"s{i}"][10:]]
    watch.gaps.clear()
    began, steps = engine.clock.now(), engine.log.count
    engine.post(Arrive(request("long", prompt, 4)))
    while "long" not in watch.last:
        watch.turn()
    took = engine.clock.now() - began
    crowded = [g for i in range(streams) for g in watch.gaps[f"s{i}"]]
    seconds = engine.log.records()["step_seconds"][steps - engine.log.count :]
    engine.post(*(Cancel(f"s{i}") for i in range(streams)), Cancel("long"))
    while engine.run_once() is not None:
        pass
    report = Report(f"{streams} streams decode, a prompt of {prompt:,} tokens arrives")
    allowed = f"allowed: budget {budget * 1e3:g} ms + one step {statistics.median(calm) * 1e3:.0f} ms"

    def add(task: str, name: str, unit: str, values: list[float], note: str = "") -> None:
        report.add(task, "headwater", Figure(name, unit, values, better="lower", note=note))

    add("before", "gap", "ms", [g * 1e3 for g in calm])
    add("meanwhile", "gap", "ms", [g * 1e3 for g in crowded])
    add("meanwhile", "largest gap", "ms", [max(crowded) * 1e3], allowed)
    add("meanwhile", "step", "ms", [float(s) * 1e3 for s in seconds])
    add("prompt", "first token after", "s", [took], f"{prompt / took:,.0f} tokens/s")
    return report
