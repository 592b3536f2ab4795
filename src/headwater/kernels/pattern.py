"""Prompts read in patterns: what a policy may ask of the kernels, and how a step carries it. Definitions in numpy: `reference_pattern.py`.

Queries of a request's own prompt are taken in absolute tiles of `tile` positions. What the queries of a tile read of the keys before the tile is
decided per layer and head from samples: of every block of 16 positions one query is kept in float16 beside the block's keys, and the last
`queries` samples before the tile judge those keys. So a decision is a function of positions and of what lies before the tile, never of
chunks, forks, the batch or the cache (ADR 001, 9 and 10). The tile's own keys are read. Generated tokens read everything.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from headwater.kernels.program import BLOCK_TOKENS

CRISP, VERTICAL_SLASH, XATTENTION = 1, 2, 3                         # numbers of csrc/attend/pattern.h
ROUTES = ("mass", "divergence", "slash", "pooled")                  # in the order of PatternRoute


@dataclass(frozen=True, slots=True)
class PatternSpec:
    """kind: CRISP, VERTICAL_SLASH or XATTENTION. tile: queries decided for together. block: keys kept or left out together. rows: queries of a
    tile that share a set of keys. queries: samples that decide. sinks, local: first positions, and newest before a run of `rows` queries, that
    are read in any case. dense_layers: first layers that read everything.

    route: of CRISP, index into ROUTES: how a head is sent to columns and distances or to block means; tau: the border. alpha: how far above the
    noise floor a block's mass must lie; coverage: keep blocks by their share `gamma` of the mass instead. least: fewest blocks per direction.
    gamma: share that block means (CRISP) or antidiagonals (XATTENTION) must reach. vertical, slash: of VERTICAL_SLASH, positions by column and
    distances that are kept. whole: decide once per row and step from the step's own last `queries` queries, as published: depends on chunks.
    group: query heads per kv head, filled in from the model.
    """

    kind: int
    tile: int = 512
    block: int = 128
    rows: int = 128
    queries: int = 16
    sinks: int = 128
    local: int = 128
    dense_layers: int = 0
    route: int = 0
    tau: float = 0.2
    alpha: float = 1.0
    coverage: bool = False
    gamma: float = 0.95
    least: int = 8
    vertical: int = 0
    slash: int = 0
    whole: bool = False
    group: int = 0

    @property
    def segment(self) -> int:
        """Positions that one sample stands for."""
        return BLOCK_TOKENS

    def index_bytes(self, head_dim: int, block_bytes: int) -> int:
        """Bytes of the samples of one block for one kv head of one layer."""
        del block_bytes
        return 2 * self.group * padded(head_dim)


def padded(head_dim: int) -> int:
    """Channels of a stored sample: whole sixteens."""
    return -(-head_dim // 16) * 16


def sample_slot(block: int) -> int:
    """Which position of a row's block number `block` is sampled: sixteen neighbouring blocks have sixteen residues (for antidiagonals)."""
    return BLOCK_TOKENS - 1 - block % BLOCK_TOKENS


@dataclass(slots=True)
class Pattern:
    """A step's view. group: the cache group that it is about. until int32[rows]: queries of a row before that position follow the pattern.

    samples float16[layers - dense_layers, blocks, heads, padded head_dim]. stats int64[4], added to: (query, head, block of 16) in sight and left
    out; (tile, head) decided by columns and distances, and by means. mass float64[layers, heads, 2], if given: answers are dense, and captured
    soft-max mass and queries are added up.
    """

    spec: PatternSpec
    group: int
    until: np.ndarray
    samples: np.ndarray
    stats: np.ndarray = field(default_factory=lambda: np.zeros(4, np.int64))
    mass: np.ndarray | None = None
