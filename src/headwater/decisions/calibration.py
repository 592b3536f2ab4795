"""Temperatures per (question type, option-count bucket): fitted on held-out data, kept in a small JSON file, 1 by default."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from headwater.core.errors import UserInputError
from headwater.decisions import formulas
from headwater.decisions.types import Question

BUCKETS = (2, 3, 4, 6, 10, 26, 255, 4096)


def bucket(options: int) -> int:
    """The smallest bucket that holds so many options."""
    return next(b for b in BUCKETS if options <= b)


@dataclass(slots=True)
class Temperatures:
    """values: 'kind:bucket' -> temperature (> 0). Anything not named has 1."""

    values: dict[str, float] = field(default_factory=dict)

    def of(self, question: Question) -> float:
        return self.values.get(f"{question.kind}:{bucket(len(question.options))}", 1.0)

    @staticmethod
    def load(path: Path) -> Temperatures:
        """Read `{"temperatures": {"choice:4": 1.7}}`. Raises UserInputError naming the file and the entry."""
        try:
            values = json.loads(path.read_text("utf-8"))["temperatures"]
            items = dict(values).items()
        except (OSError, ValueError, KeyError, TypeError) as e:
            raise UserInputError(f"{path}: not a temperature file ({e!r})", field=str(path)) from None
        for key, value in items:
            if not isinstance(value, int | float) or not np.isfinite(value) or value <= 0:
                raise UserInputError(f"{path}: temperatures.{key}: must be a positive number, got {value!r}", field=str(path))
        return Temperatures({str(k): float(v) for k, v in items})

    def save(self, path: Path) -> None:
        path.write_text(json.dumps({"temperatures": self.values}, indent=1) + "\n", "utf-8")


@dataclass(slots=True)
class Sample:
    """One decision with a known answer. scores: float64[n] label log-scores at temperature 1; truth: index of the right option."""

    key: str
    scores: np.ndarray
    truth: int


def fit(samples: Sequence[Sample]) -> Temperatures:
    """Temperature of least negative log-likelihood per key, by golden-section search on log T in [-3, 3] (the NLL is unimodal in 1/T)."""
    keys = sorted({s.key for s in samples})
    return Temperatures({k: _fit_one([s for s in samples if s.key == k]) for k in keys})


def _fit_one(samples: Sequence[Sample]) -> float:
    def nll(log_t: float) -> float:
        return float(np.mean([-np.log(max(formulas.softmax(s.scores, np.exp(log_t))[s.truth], 1e-300)) for s in samples]))

    low, high, ratio = -3.0, 3.0, (5**0.5 - 1) / 2
    for _ in range(60):
        a, b = high - ratio * (high - low), low + ratio * (high - low)
        low, high = (low, b) if nll(a) <= nll(b) else (a, high)
    return float(np.exp((low + high) / 2))


def report(samples: Sequence[Sample], temperatures: Temperatures) -> dict[str, float]:
    """Accuracy, Brier, NLL and ECE with its noise floor, over all samples."""
    p = [formulas.softmax(s.scores, temperatures.values.get(s.key, 1.0)) for s in samples]
    top = np.array([float(x.max()) for x in p])
    correct = np.array([int(x.argmax()) == s.truth for x, s in zip(p, samples, strict=True)])
    return {
        "n": float(len(samples)),
        "accuracy": float(correct.mean()) if len(samples) else 0.0,
        "brier": float(np.mean([formulas.brier(x, s.truth) for x, s in zip(p, samples, strict=True)])) if samples else 0.0,
        "nll": float(np.mean([-np.log(max(x[s.truth], 1e-300)) for x, s in zip(p, samples, strict=True)])) if samples else 0.0,
        "ece": formulas.ece(top, correct),
        "ece_noise_floor": formulas.ece_floor(top),
    }
