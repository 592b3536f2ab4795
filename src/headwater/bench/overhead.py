"""The engine's own share of a decode step (plan, inputs, sampling glue, apply) under a null executor: milliseconds per step over the rows."""

from __future__ import annotations

import gc
import statistics
import time

import numpy as np

from headwater.bench.report import Figure, Report
from headwater.core import registry
from headwater.core.cost import LearnedCost
from headwater.core.events import Arrive
from headwater.core.params import SamplingParams
from headwater.core.request import Request
from headwater.engine.engine import Engine
from headwater.kernels import native
from headwater.sched.scheduler import Scheduler
from headwater.worker.exec.inline import InlineExecutor
from headwater.worker.exec.null import NullForward
from headwater.worker.runner import Runner

ROWS = (1, 8, 32, 64, 128, 256)
TARGET = (0.4e-3, 6e-6)                                             # seconds per step, and per row and step


def step_seconds(rows: int, steps: int = 150, prompt: int = 64) -> list[float]:
    """CPU seconds (of the engine's thread: other processes do not count) of each of `steps` decode steps of `rows` streams, all but the model."""
    if native.available():
        native.library().set_threads(1)                             # we measure Python and glue, not how the sampler shares two cores
    context = prompt + steps + 64
    executor = InlineExecutor(Runner(NullForward(rows * (context // 16 + 2), context)))
    cost = LearnedCost()
    engine = Engine(Scheduler(executor.caps(), registry.build("sched", "fcfs"), registry.build("evict", "slru"), cost), executor, cost)
    rng = np.random.default_rng(rows)
    for i in range(rows):
        params = SamplingParams(max_tokens=context - prompt, temperature=0.7, ignore_eos=True)
        engine.post(Arrive(Request(f"r{i}", rng.integers(0, 32, prompt).astype(np.int32), params, context - prompt - 1, seed=i)))
    while engine.scheduler.waiting or engine.steps < 10:
        engine.run_once()
    for _ in range(10):
        engine.run_once()
    gc.collect()
    gc.freeze()
    seconds = []
    for _ in range(steps):
        began = time.thread_time()
        engine.run_once()
        seconds.append(time.thread_time() - began)
    gc.unfreeze()
    return seconds


def run() -> Report:
    """Medians per row count, and the line through them beside the target."""
    report = Report("engine overhead (null executor)")
    medians = []
    for rows in ROWS:
        values = step_seconds(rows)
        medians.append(statistics.median(values))
        allowed = TARGET[0] + TARGET[1] * rows
        figure = Figure("step", "ms", [v * 1e3 for v in values], better="lower", note=f"target {allowed * 1e3:.2f} ms")
        report.add(f"{rows} rows", "headwater", figure)
    slope, base = np.polyfit(ROWS, medians, 1)
    report.add("fit", "headwater", Figure("per step", "ms", [float(base) * 1e3], better="lower", note=f"target {TARGET[0] * 1e3:g}"))
    report.add("fit", "headwater", Figure("per row", "us", [float(slope) * 1e6], better="lower", note=f"target {TARGET[1] * 1e6:g}"))
    return report


if __name__ == "__main__":
    run().print()
