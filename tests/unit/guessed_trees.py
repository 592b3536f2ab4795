"""Trees of guesses around what is right: chains and branches that hold for a while, or never, wherever they leave each other."""

from __future__ import annotations

from typing import Any

import numpy as np
from drafted_requests import Asked, Said

from headwater.core.plan import Branches, Guesses, Ragged
from headwater.sched.scheduler import Scheduler


def spoiled(rng: np.random.Generator, right: np.ndarray, vocabulary: int) -> np.ndarray:
    """The right tokens up to a place, others from there on; sometimes right to the end."""
    out = right.copy()
    at = int(rng.integers(0, len(out) + 1))
    out[at:] = rng.integers(32, vocabulary, len(out) - at)
    return out


def tree(rng: np.random.Generator, right: np.ndarray, vocabulary: int, most: int = 3) -> tuple[np.ndarray, list[np.ndarray]]:
    """A chain, and at most `most` branches that are no longer."""
    chain = spoiled(rng, right[: int(rng.integers(1, len(right) + 1))], vocabulary)
    return chain, [spoiled(rng, right[: int(rng.integers(1, len(chain) + 1))], vocabulary) for _ in range(int(rng.integers(0, most + 1)))]


class TreeGuess:
    """A guess function of a scheduler (set `scheduler` before use) that knows what each request will say. branched: how many branches it made."""

    scheduler: Scheduler

    def __init__(self, seed: int, vocabulary: int, longest: int = 20) -> None:
        self.rng = np.random.default_rng(seed)
        self.vocabulary, self.longest = vocabulary, longest
        self.said: dict[Any, list[int]] = {}
        self.branched = 0

    def learn(self, asked: list[Asked], said: list[list[Said]]) -> None:
        for a, choices in zip(asked, said, strict=True):
            if a.want.params.n == 1:
                self.said[tuple(a.want.prompt), a.want.params.seed] = [*a.want.prompt, *choices[0].ids]

    def __call__(self, rows: np.ndarray, most: np.ndarray) -> Guesses:
        chains, branches = [], []
        for i, (row, n) in enumerate(zip(rows.tolist(), most.tolist(), strict=True)):
            request, known = self.scheduler.request(row), len(self.scheduler.history(row))
            right = np.array(self.said.get((tuple(request.prompt.tolist()), request.seed), [])[known : known + min(n, self.longest)], np.int32)
            chain, ways = tree(self.rng, right, self.vocabulary, min(2, 8 - len(branches))) if len(right) else (right, [])
            chains.append(chain)
            branches += [(i, ids) for ids in ways]
        self.branched += len(branches)
        return Guesses(Ragged.of(chains), Branches.of(branches))
