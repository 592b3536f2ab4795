"""What speculation has to work with: verify cost v(g), cost of company T(2)/T(1), guards where nothing can be won, the suffix structure."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from headwater.bench.intervals import Ratio, paired
from headwater.core.errors import HeadwaterError
from headwater.core.params import SamplingParams
from headwater.core.plan import Ragged
from headwater.engine.build import build_drafter, takes_forced
from headwater.engine.expand import GenerateRequest
from headwater.engine.offline import Answer
from headwater.kernels.history import TokenHistory
from headwater.llm import LLM
from headwater.sched.guess import Guesser


@dataclass(slots=True)
class Run:
    """One generation. seconds: of all of it; answers as the engine gave them."""

    seconds: float
    answers: list[Answer]

    @property
    def ids(self) -> list[list[int]]:
        return [c.token_ids for a in self.answers for c in a.choices]


class Bench:
    """One loaded model whose drafter is changed between runs, so that runs with and without can take turns."""

    def __init__(self, llm: LLM) -> None:
        self.llm, self.engine = llm, llm.engine
        self.guessers: dict[str, Guesser] = {}

    def draft_with(self, spec: str) -> None:
        """A drafter keeps what it has seen from run to run."""
        if spec == "none":
            self.engine.scheduler.draft_with(None)
            self.engine.executor.runner.forced = False
            return
        if spec not in self.guessers:
            drafter = build_drafter(spec, self.llm._text)
            assert drafter is not None
            self.guessers[spec] = Guesser(drafter, self.engine.cost)
        self.engine.scheduler.draft_with(self.guessers[spec])
        self.engine.executor.runner.forced = takes_forced(self.guessers[spec].drafter)

    def run(self, wants: list[GenerateRequest]) -> Run:
        begin = time.perf_counter()
        answers = self.llm._offline.run(wants)
        return Run(time.perf_counter() - begin, answers)

    def ids(self, count: int, seed: int = 0) -> np.ndarray:
        """int32[count], ordinary ids only (no special tokens at either end of the vocabulary), never the same text for two seeds."""
        vocabulary = self.engine.executor.caps().vocabulary
        low = min(1000, vocabulary // 8)
        return np.random.default_rng([7, seed]).integers(low, vocabulary - low, count).astype(np.int32)

    def decode_seconds(self, first: int) -> np.ndarray:
        """The step log from step `first` of its count on."""
        records = self.engine.log.records()
        return records[max(0, len(records) - (self.engine.log.count - first)) :]


def wrong(g: int, vocabulary: int) -> Any:
    """A guess function: always g tokens that nobody will draw (they vary, so that they are no text)."""
    rng = np.random.default_rng(g)

    def guess(idx: np.ndarray, most: np.ndarray) -> Ragged:
        return Ragged.of([rng.integers(0, vocabulary, min(g, int(m))).astype(np.int32) for m in most])

    return guess


def verify_curve(bench: Bench, context: int, guesses: list[int], rounds: int, tokens: int = 12) -> dict[int, list[float]]:
    """v(g) = T(g + 1) / T(1) per round, for one row behind `context` tokens: g guesses that all fail, taking turns with none."""
    caps = bench.engine.executor.caps()
    ids = bench.ids(context)
    out: dict[int, list[float]] = {g: [] for g in guesses}
    for _ in range(rounds):
        took = {}
        for g in (0, *guesses):
            bench.engine.scheduler.draft_with(wrong(g, caps.vocabulary) if g else None)
            first = bench.engine.log.count
            params = SamplingParams(temperature=0.0, max_tokens=tokens + g, ignore_eos=True)   # near its end a row may guess fewer
            bench.run([GenerateRequest(ids, params)])
            took[g] = _typical(bench.decode_seconds(first), 1, g + 1)
        for g in guesses:
            out[g].append(took[g] / took[0])
    bench.draft_with("none")
    return out


def _typical(steps: np.ndarray, rows: int, tokens: int) -> float:
    """Median seconds of the steps of so many rows and tokens. Raises HeadwaterError where there was none."""
    seconds = steps["step_seconds"][(steps["rows"] == rows) & (steps["tokens"] == tokens)]
    if not len(seconds):
        raise HeadwaterError(f"bench speculate: no step had {rows} rows and {tokens} tokens: the memory is too small, or the machine too busy")
    return float(np.median(seconds))


def company_curve(bench: Bench, context: int, rows: list[int], rounds: int, tokens: int = 12) -> dict[int, list[float]]:
    """T(batch b) / T(batch 1) of a decode step: what a self-draft beside its parent costs."""
    params = SamplingParams(temperature=0.0, max_tokens=tokens, ignore_eos=True)
    bench.draft_with("none")
    for i in range(max(rows)):                                      # prompts are known, so that all rows decode from the first step on
        bench.run([GenerateRequest(bench.ids(context, i), SamplingParams(max_tokens=1))])
    out: dict[int, list[float]] = {b: [] for b in rows}
    for _ in range(rounds):
        took = {}
        for b in (1, *rows):
            first = bench.engine.log.count
            bench.run([GenerateRequest(bench.ids(context, i), params) for i in range(b)])
            took[b] = _typical(bench.decode_seconds(first), b, b)
        for b in rows:
            out[b].append(took[b] / took[1])
    return out


@dataclass(slots=True)
class Guard:
    """slowdown: drafted / plain seconds; per_pass: guesses per target pass once the drafter has seen that nothing holds; accepted: of all guesses."""

    slowdown: Ratio
    per_pass: float
    accepted: float
    pairs: int


def zero_acceptance(bench: Bench, draft: str, pairs: int, tokens: int) -> Guard:
    """Text that no drafter can guess (random prompts, every token drawn nearly evenly), plain and drafted in turn, who begins alternating."""
    plain: list[float] = []
    drafted: list[float] = []
    params = [SamplingParams(temperature=100.0, seed=i, max_tokens=tokens, ignore_eos=True) for i in range(pairs + 1)]
    bench.draft_with(draft)
    guesser = bench.guessers[draft]
    bench.run([GenerateRequest(bench.ids(64, 999), params[-1])])  # it learns here that guesses do not hold
    before = guesser.counts.copy()
    for i in range(pairs):
        want = GenerateRequest(bench.ids(64, i), params[i])
        bench.draft_with("none")
        bench.run([GenerateRequest(bench.ids(64, i), SamplingParams(max_tokens=1))])          # the prompt is known to both
        for spec in ("none", draft) if i % 2 else (draft, "none"):
            bench.draft_with(spec)
            (plain if spec == "none" else drafted).append(bench.run([want]).seconds)
    counts = guesser.counts
    guesses = counts.drafted - before.drafted
    share = (counts.accepted - before.accepted) / guesses if guesses else 0.0
    return Guard(paired(drafted, plain), guesses / max(counts.passes - before.passes, 1), share, pairs)


def streams(bench: Bench, draft: str, prompts: list[list[int]], tokens: int, rounds: int) -> tuple[Ratio, float]:
    """(throughput with / without drafts over interleaved rounds of all prompts at once, tokens per target pass)."""
    params = SamplingParams(temperature=0.0, max_tokens=tokens, ignore_eos=True)
    wants = [GenerateRequest(p, params) for p in prompts]
    took: dict[str, list[float]] = {"none": [], draft: []}
    bench.draft_with("none")
    bench.run(wants)
    for i in range(rounds):
        for spec in ("none", draft) if i % 2 else (draft, "none"):
            bench.draft_with(spec)
            took[spec].append(bench.run(wants).seconds)
    return paired(took["none"], took[draft]), bench.guessers[draft].counts.tau


def suffix_structure(tokens: int, lookups: int = 20_000) -> dict[str, float]:
    """A history of so many tokens: bytes per token, microseconds per lookup (median and 99th percentile), microseconds per added token."""
    rng = np.random.default_rng(0)
    words = rng.integers(0, 30_000, (5000, 12)).astype(np.int32)
    history = TokenHistory(tokens)
    added, begin = 0, time.perf_counter()
    while added < tokens:
        text = words[rng.integers(0, len(words), 80)].reshape(-1)
        history.begin()
        history.extend(text)
        added += len(text)
    filled = time.perf_counter() - begin
    seconds = np.empty(lookups)
    for i in range(lookups):
        tail = np.concatenate([words[rng.integers(len(words))], words[rng.integers(len(words))][:5]])
        begin = time.perf_counter()
        history.find(tail, 32)
        seconds[i] = time.perf_counter() - begin
    return {
        "tokens": float(tokens), "bytes per token": history.bytes / tokens, "lookup us": float(np.median(seconds)) * 1e6,
        "lookup us p99": float(np.percentile(seconds, 99)) * 1e6, "added token us": filled / added * 1e6,
    }
