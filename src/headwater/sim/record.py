"""What happened to every request of a run, and the figures made of it."""

from __future__ import annotations

import math
from array import array
from dataclasses import asdict, dataclass, field

import numpy as np

from headwater.core.errors import UserInputError
from headwater.core.request import Output

PERCENTILES = (50, 90, 95, 99)


@dataclass(slots=True)
class _Life:
    arrival: float
    prompt: int
    first: float = -1.0
    last: float = -1.0
    tokens: int = 0
    cached: int = 0
    finish: str = ""


@dataclass(frozen=True, slots=True)
class Objective:
    """What a request must meet to count for goodput: seconds to the first token, mean seconds per further token."""

    ttft: float = 2.0
    tpot: float = 0.2

    def __post_init__(self) -> None:
        for name in ("ttft", "tpot"):
            if not 0 <= getattr(self, name) < math.inf:
                raise UserInputError(f"--{name}: must be a number of seconds, got {getattr(self, name):g}", field=name)


@dataclass(slots=True)
class Figures:
    """Seconds and counts of one run. ttft, itl, tpot, e2e: percentile -> seconds (itl: single gaps; tpot: mean per request).
    hit_rate: cached share of the prompt tokens of admitted requests. goodput: requests per second that met the objective."""

    requests: int
    finished: int
    aborted: int
    failed: int
    seconds: float
    ttft: dict[str, float]
    itl: dict[str, float]
    tpot: dict[str, float]
    e2e: dict[str, float]
    output_tokens: int
    prompt_tokens: int
    cached_tokens: int
    hit_rate: float
    tokens_per_second: float
    met: int
    goodput: float

    def json(self) -> dict[str, object]:
        return asdict(self)


class Record:
    """Observer of outputs. `arrive` each request before its first output."""

    def __init__(self, objective: Objective | None = None) -> None:
        self.objective = objective or Objective()
        self.lives: dict[str, _Life] = {}
        self.gaps = array("d")

    def arrive(self, request_id: str, time: float, prompt: int) -> None:
        self.lives[request_id] = _Life(time, prompt)

    def observe(self, output: Output, now: float) -> None:
        """Take an output at its time."""
        life = self.lives[output.request_id]
        n = len(output.ids)
        if n:
            if life.first < 0:
                life.first = now
                life.cached = output.cached_tokens
            else:
                self.gaps.append(now - life.last)
            if n > 1:
                self.gaps.extend([0.0] * (n - 1))
            life.last = now
            life.tokens += n
        if output.finish is not None:
            life.finish = output.finish
            if life.first < 0 and output.finish in ("stop", "length"):
                life.first = life.last = now
                life.cached = output.cached_tokens

    def _met(self, x: _Life) -> bool:
        return x.first - x.arrival <= self.objective.ttft and x.last - x.first <= self.objective.tpot * max(x.tokens - 1, 0) + 1e-9

    def figures(self) -> Figures:
        lives = list(self.lives.values())
        done = [x for x in lives if x.finish in ("stop", "length")]
        begun = [x for x in lives if x.first >= 0]
        ttft = np.array([x.first - x.arrival for x in begun])
        tpot = np.array([(x.last - x.first) / (x.tokens - 1) for x in done if x.tokens > 1])
        end = max((x.last for x in begun), default=0.0)
        start = min((x.arrival for x in lives), default=0.0)
        seconds = max(end - start, 1e-9)
        met = sum(self._met(x) for x in done)
        prompt, cached, tokens = sum(x.prompt for x in begun), sum(x.cached for x in begun), sum(x.tokens for x in begun)
        return Figures(len(lives), len(done), sum(x.finish == "abort" for x in lives), sum(x.finish == "error" for x in lives), seconds,
                       percentiles(ttft), percentiles(np.frombuffer(self.gaps) if self.gaps else np.zeros(0)), percentiles(tpot),
                       percentiles(np.array([x.last - x.arrival for x in done])), tokens, prompt, cached, cached / max(prompt, 1), tokens / seconds,
                       met, met / seconds)


def percentiles(values: np.ndarray) -> dict[str, float]:
    """p50 … p99 and the largest; empty for no values."""
    if not len(values):
        return {}
    found = {f"p{p}": float(np.percentile(values, p)) for p in PERCENTILES}
    return {**found, "max": float(values.max())}


@dataclass(slots=True)
class RunReport:
    """Figures plus what the run was; the same object becomes text, JSON and a picture (`report.py`)."""

    title: str
    setting: dict[str, object]
    figures: Figures
    steps: int
    busy: float
    preempted: int
    recomputed: int
    evicted: int
    copies: int
    refused: int
    wall: float
    cost_error: dict[str, float] = field(default_factory=dict)
