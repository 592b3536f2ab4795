"""Arrival traces: Azure LLM 2023 (time, prompt and output tokens) and Mooncake (with hash ids of 512-token blocks); token ids are made up lazily."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from headwater.core.errors import FormatError, UserInputError
from headwater.core.plan import Ragged
from headwater.kv.prefix import mix

HASH_BLOCK = 512                  # tokens behind one hash id of a Mooncake trace
_TICK = 3.0                       # seconds to which the Mooncake conversation trace rounds its arrivals
_LONGEST = 10_000_000
_LATEST = 1e12                    # seconds; float64 tells microseconds apart to there


@dataclass(frozen=True, slots=True)
class Trace:
    """Requests in order of arrival. time float64 seconds from 0; prompt, output int32 tokens; blocks: hash ids per request, or None;
    hash_block: tokens behind one hash id."""

    name: str
    time: np.ndarray
    prompt: np.ndarray
    output: np.ndarray
    blocks: Ragged | None = None
    hash_block: int = HASH_BLOCK

    def __len__(self) -> int:
        return len(self.time)

    def ids(self, i: int, vocabulary: int) -> np.ndarray:
        """int32[prompt[i]]: made-up token ids; equal where the hash ids are equal, else unique to the request."""
        n = int(self.prompt[i])
        if self.blocks is None:
            first = np.array([i << 32], np.uint64)
            width = n
        else:
            first = self.blocks.row(i).astype(np.uint64) << np.uint64(20)
            width = self.hash_block
        raw = mix(first[:, None] + np.arange(width, dtype=np.uint64) + np.uint64(0x5851F42D4C957F2D))
        return (raw.ravel()[:n] % np.uint64(vocabulary)).astype(np.int32)

    def part(self, limit: int | None, start: float = 0.0, seconds: float | None = None) -> Trace:
        """At most `limit` requests that arrive from `start` on, within `seconds`; times shifted so that the first window begins at 0."""
        end = math.inf if seconds is None else start + seconds
        keep = np.flatnonzero((self.time >= start) & (self.time < end))[:limit]
        if not len(keep):
            what = f"{start:g} s on" if seconds is None else f"{start:g} s to {end:g} s"
            raise UserInputError(f"--start: {self.name} has no request from {what}; its last one arrives at {self.time[-1]:g} s", field="start")
        blocks = None if self.blocks is None else Ragged.of([self.blocks.row(i) for i in keep.tolist()])
        return replace(self, time=self.time[keep] - start, prompt=self.prompt[keep], output=self.output[keep], blocks=blocks)

    def redrawn(self, seed: int, run: int = 10) -> Trace:
        """As many requests in another order: runs of consecutive ones with their gaps, from drawn places on (a moving block bootstrap, Kuensch
        1989), so that bursts and lengths are like these and nothing is the same. Tokens are made up; none are shared."""
        n = len(self)
        begins = np.random.default_rng(seed).integers(n, size=-(-n // run))
        take = (begins[:, None] + np.arange(run)).ravel()[:n] % n
        gaps = np.diff(self.time, prepend=self.time[:1])
        gaps[0] = gaps[1:].mean() if n > 1 else 0.0                 # a run may cross the end
        time = np.cumsum(gaps[take])
        return replace(self, time=time - time[0], prompt=self.prompt[take], output=self.output[take], blocks=None)

    def scaled(self, lengths: float, time: float) -> Trace:
        """Lengths divided by `lengths` (at least 1 token), arrivals stretched by `time`; order, bursts and shared prefixes stay."""
        if not 1 <= lengths < math.inf or not 0 < time < math.inf:
            raise UserInputError(f"--scale {lengths:g} must be a number of at least 1 and --stretch {time:g} one above 0", field="scale")
        last = float(self.time[-1]) * time
        if last > _LATEST:
            raise UserInputError(f"--stretch {time:g}: the last request would arrive at {last:g} s, {_LATEST:g} at most", "stretch")
        block = max(int(self.hash_block / lengths), 1)
        shrink = self.hash_block / block if self.blocks is not None else lengths
        return replace(self, time=self.time * time, prompt=np.maximum(self.prompt / shrink, 1).astype(np.int32),
                       output=np.maximum(self.output / lengths, 1).astype(np.int32), hash_block=block)


def load(path: Path, spread: bool = True) -> Trace:
    """Read a trace by its suffix: .csv (Azure) or .jsonl (Mooncake). spread: arrivals rounded to 3-second ticks are spread evenly over their tick."""
    if not path.is_file():
        raise UserInputError(f"{path}: no such trace file", field="trace")
    if path.suffix == ".csv":
        return _azure(path)
    if path.suffix == ".jsonl":
        return _mooncake(path, spread)
    raise UserInputError(f"{path}: a trace is a .csv (Azure LLM 2023) or a .jsonl (Mooncake) file", field="trace")


def _azure(path: Path) -> Trace:
    columns = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
    times: list[float] = []
    sizes: list[tuple[int, int]] = []
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as f:
        reader = csv.DictReader(f)
        try:
            if reader.fieldnames is None or any(c not in reader.fieldnames for c in columns):
                raise FormatError(f"{path.name}: the first line must name the columns {', '.join(columns)}", field="trace")
            for row in reader:
                where = f"{path.name}: line {reader.line_num}"
                times.append(_seconds(row["TIMESTAMP"], where))
                sizes.append((_length(row["ContextTokens"], f"{where}: ContextTokens"), _length(row["GeneratedTokens"], f"{where}: GeneratedTokens")))
        except csv.Error as e:
            raise FormatError(f"{path.name}: line {reader.line_num + 1}: {e}", field="trace") from None
    return _trace(path.stem, np.array(times), sizes, None)


def _seconds(stamp: str | None, where: str) -> float:
    """A date and time as seconds; without a zone it is read as UTC, so that a change of the clocks where this runs moves no arrival."""
    try:
        when = datetime.fromisoformat((stamp or "").strip()[:26])
        return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise FormatError(f"{where}: TIMESTAMP {stamp!r} is not a date and time", field="trace") from None


def _mooncake(path: Path, spread: bool) -> Trace:
    times: list[float] = []
    sizes: list[tuple[int, int]] = []
    blocks: list[np.ndarray] = []
    with path.open(encoding="utf-8-sig", errors="replace", newline="\n") as f:
        for number, line in enumerate(f, 1):
            if not line.strip():
                continue
            where = f"{path.name}: line {number}"
            try:
                entry = json.loads(line)
                stamp, ids = float(entry["timestamp"]), entry["hash_ids"]
                sizes.append((_length(entry["input_length"], f"{where}: input_length"), _length(entry["output_length"], f"{where}: output_length")))
                blocks.append(_hash_ids(ids))
            except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as e:
                if isinstance(e, FormatError):
                    raise
                what = "needs timestamp, input_length, output_length and hash_ids"
                raise FormatError(f"{where}: {what} ({type(e).__name__}: {e})", field="trace") from None
            if not abs(stamp) <= _LATEST * 1e3:
                raise FormatError(f"{where}: timestamp {stamp:g} is not a number of milliseconds up to {_LATEST * 1e3:g}", field="trace")
            if len(blocks[-1]) * HASH_BLOCK < max(sizes[-1][0], 1):      # an empty prompt counts as one token
                raise FormatError(f"{where}: {len(blocks[-1])} hash ids cannot cover {sizes[-1][0]} tokens ({HASH_BLOCK} each)", field="trace")
            times.append(stamp / 1e3)
    time = np.array(times)
    return _trace(path.stem, _spread(time) if spread and times else time, sizes, blocks)


def _hash_ids(ids: object) -> np.ndarray:
    """int32[n]. Raises ValueError where one would be cut or wrapped: two blocks would become equal that are not."""
    if not isinstance(ids, list) or not all(type(x) is int and -(2**31) <= x < 2**31 for x in ids):
        raise ValueError(f"hash_ids must be a list of integers from {-(2**31)} to {2**31 - 1}")
    return np.array(ids, np.int32)


def _length(value: object, where: str) -> int:
    """Tokens; from JSON an integer (3.0 is one), from CSV its digits."""
    try:
        n = int(value)  # type: ignore[call-overload]
        if isinstance(value, bool) or (isinstance(value, float) and value != n):
            raise ValueError
    except (TypeError, ValueError, OverflowError):
        raise FormatError(f"{where}: {value!r} is not a number of tokens", field="trace") from None
    if not 0 <= n <= _LONGEST:
        raise FormatError(f"{where}: {n} is not a number of tokens from 0 to {_LONGEST}", field="trace")
    return n


def _trace(name: str, time: np.ndarray, sizes: list[tuple[int, int]], blocks: list[np.ndarray] | None) -> Trace:
    if not len(time):
        raise FormatError(f"{name}: the trace has no requests", field="trace")
    order = np.argsort(time, kind="stable")
    length = np.maximum(np.array(sizes, np.int32), 1)[order]
    ragged = None if blocks is None else Ragged.of([blocks[i] for i in order.tolist()])
    return Trace(name, (time - time.min())[order], length[:, 0], length[:, 1], ragged)


def _spread(time: np.ndarray) -> np.ndarray:
    """If most arrivals share few distinct ticks of about three seconds, spread each tick's requests evenly over it (their order stays)."""
    ticks, first, counts = np.unique(np.round(time / _TICK).astype(np.int64), return_index=True, return_counts=True)
    near = np.abs(time - np.round(time / _TICK) * _TICK) < 0.01
    if near.mean() < 0.9 or not np.all(np.diff(time) >= 0):
        return time
    out = np.empty_like(time)
    for tick, at, n in zip(ticks.tolist(), first.tolist(), counts.tolist(), strict=True):
        out[at : at + n] = tick * _TICK + np.arange(n) * (_TICK / n)
    return out


def poisson(requests: int, rate: float, prompt: int, output: int, seed: int, shared: int = 0, bursts: float = 1.0) -> Trace:
    """Made-up arrivals: gaps gamma distributed with mean 1 / rate and squared coefficient of variation `bursts` (1 = Poisson); lengths log-normal
    (sigma 0.8) around the given medians; `shared` prompt tokens are the same for all."""
    if requests < 1 or not 0 < rate < math.inf or prompt < 1 or output < 1 or not 0 < bursts < math.inf:
        raise UserInputError("--generate: requests, rate, prompt, output and bursts must be numbers above 0", field="generate")
    if max(100 * prompt, 100 * output, shared) > _LONGEST:          # lengths reach a hundred medians
        raise UserInputError(f"--generate: prompt and output must be at most {_LONGEST // 100:,}, shared at most {_LONGEST:,}", field="generate")
    rng = np.random.default_rng(seed)
    with np.errstate(over="ignore"):                                # refused below
        time = np.cumsum(rng.gamma(1.0 / bursts, bursts / rate, requests))
    if not time[-1] <= _LATEST:
        raise UserInputError(f"--generate: at this rate the last of {requests} requests would arrive at {time[-1]:g} s, {_LATEST:g} at most", "rate")
    lengths = [np.clip(median * rng.lognormal(0.0, 0.8, requests), 1, 100 * median).astype(np.int32) for median in (prompt, output)]
    if not shared:
        return Trace("poisson", time, lengths[0], lengths[1])
    block = max(min(shared, 512), 1)
    head = shared // block
    own = -(-lengths[0].astype(np.int64) // block)
    begin = head + np.cumsum(own) - own                             # nobody else has these ids
    if begin[-1] + own[-1] >= 2**31:
        raise UserInputError(f"--generate: {requests} prompts have more blocks of {block} shared tokens than can be told apart", field="generate")
    parts = [np.concatenate([np.arange(head), b + np.arange(n)]).astype(np.int32) for b, n in zip(begin.tolist(), own.tolist(), strict=True)]
    return Trace("poisson", time, lengths[0] + head * block, lengths[1], Ragged.of(parts), block)


def arrivals(trace: Trace) -> Iterator[tuple[float, int]]:
    """(time, index) of each request."""
    yield from zip(trace.time.tolist(), range(len(trace)), strict=True)
