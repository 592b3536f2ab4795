"""Where the time of a step goes: wall time by kind of operation inside the recorded program, for prompts and for single tokens."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from headwater.bench.report import Figure, Report
from headwater.core.errors import UserInputError
from headwater.core.kvspec import BLOCK_TOKENS, CACHE_FORMATS
from headwater.kernels import native
from headwater.kernels.lower import NativeProgram
from headwater.kernels.program import Head, Program, Step
from headwater.worker.kvpool import KVPool


@dataclass(slots=True)
class Stepper:
    """One row of a loaded program without scheduler or tokenizer. context: positions there is room for; weight_bytes: packed matrices."""

    native: NativeProgram
    pool: KVPool
    table: np.ndarray
    vocabulary: int
    context: int
    head: Head | None
    weight_bytes: int
    kv_bytes_per_token: int

    def step(self, position: int, tokens: int) -> np.ndarray:
        """Append `tokens` made-up tokens from `position` on; -> hidden row of the last one."""
        rng = np.random.default_rng(position)
        ids = rng.integers(0, self.vocabulary, tokens).astype(np.int32)
        step = Step(ids, np.arange(position, position + tokens, dtype=np.int32), np.array([0, tokens], np.int32), np.array([tokens - 1], np.int32),
                    [self.table] * len(self.pool.kv), np.zeros(1, np.int32), np.zeros(1, np.int32))
        return self.native.run(step, self.pool.kv, self.pool.state if self.pool.state.arrays else None)


def load_stepper(model: str, context: int, kv_format: str = "f16") -> Stepper:
    """Load weights and a cache for one row. Raises UserInputError where the model cannot be loaded or the format is unknown."""
    from headwater.model.catalog import resolve
    from headwater.model.load.loader import load_model

    if kv_format not in CACHE_FORMATS:
        raise UserInputError(f"--kv {kv_format}: one of {', '.join(CACHE_FORMATS)}", "kv_format")
    loaded = load_model([Path(p) for p in resolve(model)], kv_format=kv_format)
    blocks = -(-context // BLOCK_TOKENS)
    pool = KVPool(loaded.kvspec, (blocks,) * len(loaded.kvspec.groups), 1 if loaded.kvspec.states else 0)
    pool.used(blocks - 1)
    program: Program = loaded.program
    return Stepper(NativeProgram(program), pool, np.arange(blocks, dtype=np.int32)[None], loaded.config.vocab, context, program.head,
                   loaded.report.weight_bytes, loaded.plan.kv_per_token)


def one_token(stepper: Stepper, position: int) -> float:
    """A step of one token with its output row; -> 1."""
    hidden = stepper.step(position, 1)
    if stepper.head is not None:
        native.logits(hidden, stepper.head)
    return 1.0


def measure(stepper: Stepper, position: int, tokens: int) -> dict[str, float]:
    """Milliseconds of one step by kind of operation; `whole` is the step with its output row, `logits` the output matrix."""
    stepper.native.timed(True)
    stepper.native.take_seconds()
    begin = time.perf_counter()
    hidden = stepper.step(position, tokens)
    middle = time.perf_counter()
    if stepper.head is not None:
        native.logits(hidden, stepper.head)
    end = time.perf_counter()
    seconds = {**stepper.native.take_seconds(), "logits": end - middle, "whole": end - begin}
    return {kind: 1e3 * value for kind, value in seconds.items()}


def bench(model: str, prompts: tuple[int, ...] = (512, 2048), contexts: tuple[int, ...] = (128, 2048), rounds: int = 3,
          formats: tuple[str, ...] = ("f16",)) -> Report:
    """Prefill of each prompt as one step, and one token after each context; formats of keys and values take turns."""
    report = Report(f"profile, {native.library().isa()}, {native.library().threads()} threads")
    steppers = {f: load_stepper(model, max(*prompts, *contexts) + 1, f) for f in formats}
    cases = [(f"prefill {n:,}", 0, n) for n in prompts] + [(f"one token at {n:,}", n, 1) for n in contexts]
    for name, position, tokens in cases:
        times: dict[str, dict[str, list[float]]] = {f: {} for f in formats}
        for turn in range(rounds + 1):
            for f in formats:
                for kind, value in measure(steppers[f], position, tokens).items():
                    times[f].setdefault(kind, []).extend([value] if turn else [])
        for f in formats:
            label = name if len(formats) == 1 else f"{name}, {f}"
            for kind, values in sorted(times[f].items(), key=lambda item: -sum(item[1])):
                report.add(label, kind, Figure("time", "ms", values, better="lower"))
    return report
