"""Where the sampled queries of prompts under a pattern live: one per block, beside the block's keys, kept, copied and saved with it."""

from __future__ import annotations

import mmap

import numpy as np

from headwater.core.kvspec import BLOCK_TOKENS, CacheGroup
from headwater.kernels.pattern import Pattern, PatternSpec, padded
from headwater.kernels.program import Step
from headwater.worker.kvpool import lazy_array


class PatternPool:
    """group: number of the cache group; shape: the group itself; spec.group must be set. stats: int64[4], see `Pattern`, over all steps.

    mass: float64[layers, heads, 2] to measure captured soft-max mass while answers stay dense, or None.
    """

    def __init__(self, spec: PatternSpec, group: int, shape: CacheGroup, blocks: int) -> None:
        self.spec, self.group = spec, group
        self.stats = np.zeros(4, np.int64)
        self.mass: np.ndarray | None = None
        self._maps: list[mmap.mmap] = []
        layers = max(shape.layers - spec.dense_layers, 0)
        self.samples = lazy_array((layers, blocks, spec.group * shape.kv_heads, padded(shape.head_dim)), np.float16, self._maps)

    def plan(self, step: Step) -> Pattern:
        """The pattern of a step with borders: a row's own prompt follows it."""
        assert step.border is not None
        return Pattern(self.spec, self.group, np.ascontiguousarray(step.border, np.int32), self.samples, self.stats, self.mass)

    def measure(self) -> None:
        """From now on answers are dense, and captured mass is added up in `mass`."""
        self.mass = np.zeros((self.samples.shape[0] + self.spec.dense_layers, self.samples.shape[2], 2))

    def copy(self, pairs: np.ndarray) -> None:
        """pairs: int32[k, 2] of (from block, to block), in order."""
        for source, target in pairs.tolist():
            self.samples[:, target] = self.samples[:, source]

    def shape_of(self, tokens: int) -> tuple[tuple[int, ...], np.dtype]:
        """Shape and type of what `export` gives for `tokens` positions."""
        layers, _, heads, dim = self.samples.shape
        return (layers, -(-tokens // BLOCK_TOKENS), heads, dim), self.samples.dtype
