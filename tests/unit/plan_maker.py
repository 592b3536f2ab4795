"""Hand-made plans for worker tests: rows with random block tables, any chunking, any batch."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from headwater.core.kvspec import BLOCK_TOKENS
from headwater.core.params import SamplingParams
from headwater.core.plan import Ragged, RowInit, StepPlan, Want
from headwater.core.request import ReadSpec
from headwater.worker.runner import Runner


@dataclass
class Row:
    """One sequence: its table row, known tokens, computed tokens."""

    row: int
    prompt: np.ndarray
    params: SamplingParams = field(default_factory=lambda: SamplingParams(temperature=0.0))
    seed: int = 0
    reads: ReadSpec = field(default_factory=ReadSpec)
    mask: str | None = None
    done: int = 0
    joined: bool = False
    tokens: list[int] = field(default_factory=list)
    blocks: list[np.ndarray] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.tokens = [int(t) for t in self.prompt]


class Planner:
    """Gives out blocks of every group in random order; recurrent slots are row + 1."""

    def __init__(self, runner: Runner, rng: np.random.Generator) -> None:
        self.runner = runner
        caps = runner.forward.caps
        self._free = [list(rng.permutation(n)) for n in caps.blocks]
        self._step = 0
        self._states = bool(caps.spec.states)

    def step(self, work: list[tuple[Row, int]], guesses: dict[int, list[int]] | None = None, want: Want = Want.SAMPLE):
        """Compute `count` known tokens of each row (plus guesses by table row); sample where all known tokens are computed. -> StepResult."""
        guesses = guesses or {}
        joins, new_blocks, tokens, wants = [], [[] for _ in self._free], [], []
        for row, count in work:
            guess = guesses.get(row.row, [])
            chunk = row.tokens[row.done : row.done + count] + guess
            need = -(-(row.done + len(chunk)) // BLOCK_TOKENS)
            if not row.blocks:
                row.blocks = [np.zeros(0, np.int32) for _ in self._free]
            for g, free in enumerate(self._free):
                fresh = np.array([free.pop() for _ in range(need - len(row.blocks[g]))], np.int32)
                row.blocks[g] = np.concatenate([row.blocks[g], fresh])
                new_blocks[g].append(fresh)
            if not row.joined:
                row.joined = True
                empty = tuple(np.zeros(0, np.int32) for _ in self._free)
                joins.append(RowInit(row.row, f"r{row.row}", row.params, row.seed, np.array(row.prompt, np.int32), len(row.prompt), empty,
                                     np.array([256], np.int32), row.reads, row.mask))
            tokens.append(np.array(chunk, np.int32))
            last = row.done + count == len(row.tokens)
            bits = want if row.mask else want & ~Want.MASK
            wants.append((bits if last else bits & ~(Want.SAMPLE | Want.MASK)) | (Want.READ if row.reads.any else 0))
        rows = np.array([r.row for r, _ in work], np.int32)
        done = np.array([r.done for r, _ in work], np.int32)
        slots = rows + 1
        self._step += 1
        plan = StepPlan(
            self._step, rows, done, np.array([len(t) for t in tokens], np.int32), np.array([len(guesses.get(r.row, [])) for r, _ in work], np.int32),
            np.array(wants, np.uint8), Ragged.of(tokens), tuple(Ragged.of(b) for b in new_blocks), np.zeros((0, 3), np.int32), joins,
            state_in=np.where(done > 0, slots, -1) if self._states else None, state_out=slots if self._states else None,
        )
        result = self.runner.run(plan)
        for i, (row, _) in enumerate(work):
            row.done += int(result.n_ok[i])
            row.tokens += result.tokens.row(i).tolist()
        return result

    def generate(self, row: Row, new: int, chunk: int = 10**9) -> list[int]:
        """Prompt in chunks, then token by token; -> the new ids."""
        while row.done < len(row.prompt):
            self.step([(row, min(chunk, len(row.tokens) - row.done))])
        while len(row.tokens) - len(row.prompt) < new:
            self.step([(row, 1)])
        return row.tokens[len(row.prompt) :][:new]
