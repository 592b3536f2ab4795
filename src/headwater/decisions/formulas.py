"""Soft-max, the published confidence formulas and calibration measures. Everything in float64."""

from __future__ import annotations

import numpy as np


def softmax(scores: np.ndarray, temperature: float = 1.0) -> np.ndarray:
    """float64[n] log-scores -> float64[n] probabilities that sum to 1."""
    z = np.asarray(scores, np.float64) / temperature
    e = np.exp(z - z.max())
    return e / e.sum()


def choice_confidence(p: np.ndarray) -> float:
    """(max p − 1/n) / (1 − 1/n); 1 for a single option. Source: TypeSafe's published adapter."""
    n = len(p)
    return 1.0 if n == 1 else float((p.max() - 1.0 / n) / (1.0 - 1.0 / n))


def score_confidence(p: np.ndarray) -> float:
    """max(0, 1 − D/U), D = Σ pᵢ·|i − argmax p|, U = mean |i − (n − 1)/2|; 1 for a single level. Source: TypeSafe's published adapter."""
    n = len(p)
    if n == 1:
        return 1.0
    levels = np.arange(n)
    spread = float((p * np.abs(levels - int(p.argmax()))).sum())
    uniform = float(np.abs(levels - (n - 1) / 2).mean())
    return max(0.0, 1.0 - spread / uniform)


def brier(p: np.ndarray, truth: int) -> float:
    """Multi-class Brier score of one decision: Σ (pᵢ − [i = truth])², 0 best, 2 worst."""
    target = np.zeros(len(p))
    target[truth] = 1.0
    return float(((p - target) ** 2).sum())


def ece(confidence: np.ndarray, correct: np.ndarray, bins: int = 10) -> float:
    """Expected calibration error, equal-width bins on the probability of the chosen answer. confidence: float64[n] in 0..1, correct: bool[n]."""
    if len(confidence) == 0:
        return 0.0
    which = np.minimum((confidence * bins).astype(int), bins - 1)
    counts = np.bincount(which, minlength=bins)
    gaps = np.abs(np.bincount(which, confidence, bins) - np.bincount(which, correct.astype(np.float64), bins))
    return float(gaps[counts > 0].sum() / len(confidence))


def ece_floor(confidence: np.ndarray, seed: int = 0, repeats: int = 300) -> float:
    """What `ece` would show for a perfectly calibrated model with these confidences: the mean over simulated outcomes."""
    rng = np.random.default_rng(seed)
    return float(np.mean([ece(confidence, rng.random(len(confidence)) < confidence) for _ in range(repeats)])) if len(confidence) else 0.0
