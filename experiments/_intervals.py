"""Confidence intervals of a few repetitions."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

# two-sided 95 % points of Student's t by degrees of freedom, from 1
_T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145)


def relative_change(ours: Sequence[float], theirs: Sequence[float]) -> tuple[float, tuple[float, float]]:
    """(mean, 95 % interval) of ours / theirs - 1 over paired repetitions: geometric mean, Student's t on the logarithms.

    Needs 2 to 15 pairs of positive numbers.
    """
    logs = [math.log(a / b) for a, b in zip(ours, theirs, strict=True)]
    mean = statistics.fmean(logs)
    half = _T[len(logs) - 2] * statistics.stdev(logs) / math.sqrt(len(logs))
    return math.expm1(mean), (math.expm1(mean - half), math.expm1(mean + half))
