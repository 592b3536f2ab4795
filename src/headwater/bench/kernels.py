"""Each operation against its roofline: bytes against a read probe, integer operations against a register-only loop of the same instruction mix.

Kernel and ceiling run in turn, so that a slow minute of a shared machine slows both; the figure that counts is the fraction. Weights are
rotated over more memory than the caches hold where the limit is bandwidth.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from headwater.bench.report import Figure, Report
from headwater.kernels import native
from headwater.kernels.layouts import LAYOUTS
from headwater.kernels.weights import Part, Weight, pack

PROBE_BYTES = 256 << 20
COLS, ROWS = 1536, 1536
TILE_ROWS = 24                             # rows from which products run on matrix tiles (csrc/linear/linear_amx.cpp)
INPUT_ROWS = (1, 4, 8, 16, 64, 480)
STEP_CONTEXTS = (128, 2048)
FORMATS = {"Q4_1": ("q4m", 4), "Q8_0": ("q8", 8), "F16": ("f16", 0)}    # file format -> layout, code bits


@dataclass(frozen=True, slots=True)
class Ceiling:
    """bytes_per_s: read bandwidth, the best of 1, 2, 4 and 8 streams per thread; ops_per_s by code bits: integer operations; flops_per_s.

    tile_ops_per_s: integer operations of matrix tiles, empty where they are not in use.
    """

    bytes_per_s: float
    ops_per_s: dict[int, float]
    flops_per_s: float
    tile_ops_per_s: dict[int, float]

    def integer(self, bits: int, rows: int) -> float:
        """The ceiling of a product of this many rows."""
        return (self.tile_ops_per_s if rows >= TILE_ROWS and self.tile_ops_per_s else self.ops_per_s)[bits]


def _rate(work: Callable[[], float], seconds: float) -> float:
    """Best rate of `work` (which returns what it did) within about `seconds`."""
    best, end = 0.0, time.perf_counter() + seconds
    while True:
        begin = time.perf_counter()
        done = work()
        now = time.perf_counter()
        best = max(best, done / (now - begin))
        if now > end:
            return best


def ceilings(probe: np.ndarray, seconds: float = 0.3) -> Ceiling:
    """Measure the machine now. probe: uint8, larger than the caches, every page touched."""
    lib = native.library()
    return Ceiling(
        max(_rate(partial(lib.read_streams, probe, n), seconds / 4) for n in (1, 2, 4, 8)),
        {bits: _rate(partial(lib.dot_ceiling, bits, 20_000), seconds / 3) for bits in (4, 8)},
        _rate(partial(lib.fma_ceiling, 200_000), seconds / 3),
        {bits: _rate(partial(lib.dot_ceiling, bits, 20_000, True), seconds / 3) for bits in (4, 8)} if lib.isa() == "amx" else {})


def random_weights(name: str, copies: int) -> list[Weight]:
    """`copies` weights [ROWS, COLS] of a file format with scales that keep sums finite."""
    rng = np.random.default_rng(1)
    out = []
    for _ in range(copies):
        x = rng.integers(-8, 8, (ROWS, COLS)).astype(np.float32)
        out.append(Weight(pack(name, _encoded(name, x), ROWS, COLS)))
    return out


def _encoded(name: str, x: np.ndarray) -> np.ndarray:
    """File bytes whose codes are those of small integers; the speed of a product does not depend on values."""
    if name == "F16":
        return x.astype("<f2").reshape(-1).view(np.uint8)
    blocks = x.astype(np.int8).reshape(-1, 32)
    one = np.broadcast_to(np.array([1.0], "<f2").view(np.uint8), (len(blocks), 2))
    if name == "Q8_0":
        return np.concatenate((one, blocks.view(np.uint8)), axis=1).reshape(-1)
    codes = (blocks + 8).astype(np.uint8)
    return np.concatenate((one, one, codes[:, :16] | codes[:, 16:] << 4), axis=1).reshape(-1)           # Q4_1


def bench(seconds: float = 0.2, rounds: int = 3, model: str | None = None, advance: Callable[[str], None] = lambda _: None) -> Report:
    """Products of one to 480 rows in three encodings, each as a fraction of the nearer ceiling, then whole steps of `model` (None: none).

    advance: called with a name before each of the `figures(model)` measurements.
    """
    report = Report(f"kernels, {native.library().isa()}, {native.library().threads()} threads")
    probe = native.library().allocate(PROBE_BYTES)
    probe[::64] = 1
    for name, (layout, _) in FORMATS.items():
        nbytes = LAYOUTS[layout].nbytes(ROWS, COLS)
        first = random_weights(name, 1)[0]
        weights = [first, *(Weight(copied(first.parts[0])) for _ in range(max(1, (96 << 20) // nbytes - 1)))]
        for rows in INPUT_ROWS:
            advance(f"{name} x {rows}")
            _products(report, name, weights, rows, probe, seconds, rounds)
    if model is not None:
        _steps(report, model, probe, seconds, rounds, advance)
    return report


def figures(model: str | None) -> int:
    """How many measurements `bench` makes."""
    return len(FORMATS) * len(INPUT_ROWS) + (0 if model is None else len(STEP_CONTEXTS))


def copied(part: Part) -> Part:
    """The same packed bytes elsewhere in memory."""
    data = native.library().allocate(part.nbytes)
    data[:] = part.data
    return Part(part.layout, part.rows, part.cols, data, part.source)


def _products(report: Report, name: str, weights: list[Weight], rows: int, probe: np.ndarray, seconds: float, rounds: int) -> None:
    x = np.random.default_rng(2).normal(0, 1, (rows, COLS)).astype(np.float32)
    out = np.empty((rows, ROWS), np.float32)
    lib = native.library()
    few = weights if rows <= 16 else weights[:4]

    def once() -> float:
        for w in few:
            lib.linear(w.native, x, None, out)
        return float(len(few))

    fractions, rates, limits = [], [], []
    ops, bits = 2.0 * rows * ROWS * COLS, FORMATS[name][1]
    for _ in range(rounds):
        top = ceilings(probe, seconds)
        per_second = _rate(once, seconds)
        arithmetic = top.integer(bits, rows) if bits else top.flops_per_s
        limit = min(top.bytes_per_s / weights[0].nbytes, arithmetic / ops)
        fractions.append(per_second / limit)
        rates.append(per_second * (weights[0].nbytes if limit < arithmetic / ops else ops) / 1e9)
        limits.append("bytes" if limit < arithmetic / ops else "operations")
    unit = "GB/s" if limits[-1] == "bytes" else "GOP/s"
    note = f"{limits[-1]}: {weights[0].nbytes / 1e6:.1f} MB, {ops / 1e9:.3g} GOP"
    report.add(f"linear {name} x {rows}", "share", Figure("of the ceiling", "1", fractions, note=note))
    report.add(f"linear {name} x {rows}", "rate", Figure("achieved", unit, rates))


def _steps(report: Report, model: str, probe: np.ndarray, seconds: float, rounds: int, advance: Callable[[str], None]) -> None:
    """Whole steps of one token: bytes of weights and cache that it must read over its time, as a share of the read bandwidth."""
    from headwater.bench.profile import load_stepper, one_token

    stepper = load_stepper(model, max(STEP_CONTEXTS) + 1)
    for context in STEP_CONTEXTS:
        advance(f"one token at {context:,}")
        stepper.step(0, context)
        nbytes = stepper.weight_bytes + context * stepper.kv_bytes_per_token
        shares, rates = [], []
        for _ in range(rounds):
            bandwidth = max(_rate(partial(native.library().read_streams, probe, n), seconds / 4) for n in (1, 2, 4, 8))
            per_second = _rate(partial(one_token, stepper, context), seconds)
            shares.append(per_second * nbytes / bandwidth)
            rates.append(per_second * nbytes / 1e9)
        report.add(f"one token at {context:,}", "share", Figure("of read bandwidth", "1", shares, note=f"{nbytes / 1e6:.1f} MB a token"))
        report.add(f"one token at {context:,}", "rate", Figure("achieved", "GB/s", rates))
