"""95 % intervals of paired ratios."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple


class Ratio(NamedTuple):
    """Geometric mean of paired ratios with its 95 % interval."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:.3f} [{self.low:.3f}, {self.high:.3f}]"


def paired(a: Sequence[float], b: Sequence[float]) -> Ratio:
    """a / b pair by pair: Student's t on the logarithms. At least two pairs of positive numbers."""
    logs = [math.log(x / y) for x, y in zip(a, b, strict=True)]
    if len(logs) < 2:
        raise ValueError(f"{len(logs)} pairs: an interval needs two")
    mean, half = statistics.fmean(logs), t95(len(logs) - 1) * statistics.stdev(logs) / math.sqrt(len(logs))
    return Ratio(math.exp(mean), math.exp(mean - half), math.exp(mean + half))


def t95(freedom: int) -> float:
    """Two-sided 95 % point of Student's t (exact up to 4 degrees of freedom, then Cornish and Fisher's expansion: within 0.1 %)."""
    exact = {1: 12.706205, 2: 4.302653, 3: 3.182446, 4: 2.776445}
    if freedom in exact:
        return exact[freedom]
    z, v = 1.959964, float(freedom)
    return (z + (z**3 + z) / (4 * v) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * v**2) + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * v**3))
