"""What drawing a token means, in plain numpy and float64, one row at a time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Row:
    """Parameters of one draw, as in `sampling.Draws`; counts: id -> (times in prompt, times in output); allowed: bool[vocabulary]."""

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition: float = 1.0
    presence: float = 0.0
    frequency: float = 0.0
    seed: int = 0
    position: int = 0
    counts: tuple[tuple[int, int, int], ...] = ()
    bias: tuple[tuple[int, float], ...] = ()
    banned: tuple[int, ...] = ()
    allowed: np.ndarray | None = None


def philox4x32(counter: tuple[int, int, int, int], key: tuple[int, int]) -> tuple[int, int, int, int]:
    """Philox4x32-10 (Salmon et al., SC 2011)."""
    (a, b, c, d), (k0, k1), mask = counter, key, 2**32 - 1
    for _ in range(10):
        first, second = 0xD2511F53 * a, 0xCD9E8D57 * c
        a, b, c, d = (second >> 32) ^ b ^ k0, second & mask, (first >> 32) ^ d ^ k1, first & mask
        k0, k1 = (k0 + 0x9E3779B9) & mask, (k1 + 0xBB67AE85) & mask
    return a, b, c, d


def uniform_at(seed: int, position: int, stream: int = 0) -> float:
    """Uniform in [0, 1), 53 bits: the first two words at counter (position low, position high, stream, 0), keyed by the seed."""
    mask = 2**32 - 1
    high, low, _, _ = philox4x32((position & mask, position >> 32 & mask, stream, 0), (seed & mask, seed >> 32 & mask))
    return ((high << 32 | low) >> 11) / 2**53


def adjust(logits: np.ndarray, row: Row) -> np.ndarray:
    """Penalties, bias, banned ids and mask, float32 as they are applied."""
    x = logits.astype(np.float32).copy()
    for token, in_prompt, in_output in row.counts:
        if in_prompt or in_output:
            x[token] = x[token] / np.float32(row.repetition) if x[token] > 0 else x[token] * np.float32(row.repetition)
        if in_output:
            x[token] = x[token] - np.float32(row.frequency) * np.float32(in_output) - np.float32(row.presence)
    for token, bias in row.bias:
        x[token] += np.float32(bias)
    x[list(row.banned)] = -np.inf
    if row.allowed is not None:
        x[~row.allowed] = -np.inf
    return x


def kept_probabilities(x: np.ndarray, row: Row) -> tuple[np.ndarray, float]:
    """Distribution after temperature, min_p, top_k, top_p: float64[vocabulary] that adds up to 1; and how near the min_p and top_p borders are.

    The border distance tells a test when float32 may decide otherwise.
    """
    weights = np.exp((x - x.max()).astype(np.float64) / row.temperature)
    margin = np.inf
    if row.min_p > 0:
        margin = float(np.abs(weights / row.min_p - 1).min())
        weights[weights < row.min_p] = 0
    order = np.lexsort((np.arange(len(x)), -x))                     # best first, ties to the lower id
    order = order[weights[order] > 0]
    if row.top_k > 0:
        weights[order[row.top_k:]] = 0
        order = order[:row.top_k]
    if row.top_p < 1:
        mass = np.cumsum(weights[order]) / weights.sum()
        margin = min(margin, float(np.abs(mass - row.top_p).min()))
        weights[order[int(np.searchsorted(mass, row.top_p)) + 1:]] = 0
    return weights / weights.sum(), margin


def draw(logits: np.ndarray, row: Row) -> tuple[int, float]:
    """The drawn id (-1: nothing allowed or not finite) and how near the nearest border was (inf for greedy rows)."""
    if not (logits < np.inf).all():
        return -1, np.inf
    x = adjust(logits, row)
    if np.isneginf(x).all():
        return -1, np.inf
    if row.temperature < 1e-5:
        return int(np.argmax(x)), np.inf
    probabilities, margin = kept_probabilities(x, row)
    mass = np.cumsum(probabilities)
    u = uniform_at(row.seed, row.position)
    token = int(np.searchsorted(mass, u * mass[-1], side="right"))
    return token, min(margin, float(np.abs(mass - u * mass[-1]).min()))


def log_softmax(logits: np.ndarray) -> np.ndarray:
    """float64, over the last axis."""
    x = logits.astype(np.float64)
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))
