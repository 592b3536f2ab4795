"""Decisions over a grid of question counts and state lengths, cold and warm, beside the ways without forks: independent prompts, JSON generation."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from headwater.bench.load import percentile
from headwater.bench.peers.protocol import peak_mb, prompt
from headwater.core.params import SamplingParams
from headwater.engine.client import Grammar
from headwater.llm import LLM

LABELS = [330, 331]
QUESTION = (20, 80)               # tokens, drawn evenly


class Cell:
    """One (N, state) cell: fresh ids in every repeat, so that no cache helps where none should."""

    def __init__(self, llm: LLM, n: int, state: int) -> None:
        self.llm, self.n, self.length = llm, n, state
        self.rng = np.random.default_rng(n * 100_003 + state)

    def ids(self, length: int) -> np.ndarray:
        return np.array(prompt(length, int(self.rng.integers(2**31))), np.int32)

    def questions(self) -> list[np.ndarray]:
        return [self.ids(int(self.rng.integers(QUESTION[0], QUESTION[1] + 1))) for _ in range(self.n)]

    def forked(self, warm: bool) -> float:
        """State once, every question a fork; warm: the state is held before the clock starts."""
        state, asks = self.ids(self.length), self.questions()
        held = self.llm.state(state) if warm else None
        begin = time.perf_counter()
        held = held or self.llm.state(state)
        held.label_logits(asks, LABELS)
        seconds = time.perf_counter() - begin
        held.close()
        return seconds

    def independent(self) -> float:
        """N prompts that share nothing: each has a state of its own."""
        prompts = [np.concatenate([self.ids(self.length), q]) for q in self.questions()]
        begin = time.perf_counter()
        self.llm.generate(prompts, SamplingParams(temperature=0.0, max_tokens=1, ignore_eos=True))
        return time.perf_counter() - begin

    def prefix_cached(self) -> float:
        """N prompts over one state, found in the prefix index, one token each."""
        state = self.ids(self.length)
        prompts = [np.concatenate([state, q]) for q in self.questions()]
        begin = time.perf_counter()
        self.llm.generate(prompts, SamplingParams(temperature=0.0, max_tokens=1, ignore_eos=True))
        return time.perf_counter() - begin

    def json(self) -> float:
        """All questions in one prompt, all answers in one constrained generation."""
        whole = np.concatenate([self.ids(self.length), *self.questions()])
        schema = {
            "type": "object", "properties": {f"q{i}": {"type": "boolean"} for i in range(self.n)}, "required": [f"q{i}" for i in range(self.n)],
            "additionalProperties": False,
        }
        begin = time.perf_counter()
        self.llm.generate(whole, SamplingParams(temperature=0.0, max_tokens=16 * self.n + 16), grammar=Grammar("json_schema", schema))
        return time.perf_counter() - begin


def measure(llm: LLM, counts: list[int], states: list[int], rounds: int, tell: Callable[[str], None]) -> list[dict[str, Any]]:
    """One row per cell and way: p50 and p95 seconds, tokens logical and computed per run, peak memory of the process."""
    rows: list[dict[str, Any]] = []
    for state in states:
        for n in counts:
            cell = Cell(llm, n, state)
            ways: dict[str, Callable[[], float]] = {
                "fork, cold": partial(cell.forked, False), "fork, warm": partial(cell.forked, True), "prefix cache": cell.prefix_cached,
                "one JSON": cell.json,
            }
            if n <= 16 and state <= 1024:
                ways["independent"] = cell.independent
            for way, run in ways.items():
                tell(f"N {n}, state {state:,}: {way}")
                before = llm.engine.stats()
                seconds = [run() for _ in range(rounds)]
                after = llm.engine.stats()
                looked, found = after.prompt_tokens - before.prompt_tokens, after.cached_tokens - before.cached_tokens
                rows.append({
                    "n": n, "state": state, "way": way, "p50": percentile(seconds, 50), "p95": percentile(seconds, 95), "logical": looked / rounds,
                    "computed": (looked - found) / rounds, "peak_mb": peak_mb(), "seconds": seconds,
                })
    return rows
