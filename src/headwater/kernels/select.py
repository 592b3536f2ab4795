"""Selective attention: a query reads part of the cache. What a policy may ask of the kernels, and how a step carries it.

A query at position p reads three zones: the first `sinks` positions; of the indexed segments [0, S) what an index chooses, S being the last
multiple of `segment` at or below p + 1 - local; and everything from S to p. Exact parts and estimates merge by log-sum-exp. What is
read is a function of p, of the keys before it and of the query, never of chunks, forks, the batch or the cache (ADR 001, 10).
Definitions in numpy: `reference_select.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from headwater.kernels.program import BLOCK_TOKENS

WINDOW, QUEST, WAVE = 1, 2, 3            # numbers of csrc/attend/select.h
NEVER = 2**31 - 1


@dataclass(frozen=True, slots=True)
class SelectSpec:
    """kind: WINDOW, QUEST or WAVE. sinks: first positions that are always read. local: WINDOW: newest positions that are read; else the least
    number of newest positions that no index covers. segment: positions indexed together and alone. centroid: positions per cluster (WAVE).

    iterations: rounds of k-means. dense_layers: first layers that read everything. retrieve: share of clusters (WAVE) or pages (QUEST) that
    are read. estimate: share of clusters that are estimated from their summaries. second: weight of the variance in an estimate, 0 = none.
    force: select at full budget too, where reading everything is the same (for tests of the merge).
    """

    kind: int
    sinks: int
    local: int
    segment: int = 1024
    centroid: int = 16
    iterations: int = 10
    dense_layers: int = 0
    retrieve: float = 0.0
    estimate: float = 0.0
    second: float = 0.0
    force: bool = False

    @property
    def vectors(self) -> int:
        """Clusters or pages of a segment."""
        return self.segment // (BLOCK_TOKENS if self.kind == QUEST else self.centroid)

    def indexed_end(self, position: int) -> int:
        """First position that no index covers for a query at `position`."""
        return 0 if self.kind == WINDOW else max(0, (position + 1 - self.local) // self.segment * self.segment)

    @property
    def first_selective(self) -> int:
        """The first position whose query does not read everything; queries before it take the dense path."""
        if self.force:
            return 0
        if self.kind == WINDOW:
            return self.sinks + self.local
        return NEVER if self.retrieve >= 1 else self.segment + self.local - 1

    def index_bytes(self, head_dim: int, block_bytes: int) -> int:
        """Bytes of one segment's index for one kv head of one layer; block_bytes: of one kv head of one block of keys."""
        matrix = 2 * self.vectors * head_dim
        if self.kind == WINDOW:
            return 0
        if self.kind == QUEST:
            return 2 * matrix
        lists = 2 * self.segment + 2 * (self.vectors + 1)
        total = self.segment // BLOCK_TOKENS * block_bytes + (3 if self.second > 0 else 2) * matrix + lists
        return -(-total // 64) * 64


@dataclass(slots=True)
class Selection:
    """A step's view: group: the cache group that it is about. exact_until int32[rows]: queries of a row from there on select.

    index uint8[layers - dense_layers, slots, kv_heads, bytes]; table int32[rows, segments]: slot of each segment of a row, -1 = none;
    builds int32[n, 3]: (row, segment, slot) to fill in this step. stats int64[4], added to, over (query, kv head): how many, positions
    read, index vectors scanned, clusters estimated.
    """

    spec: SelectSpec
    group: int
    exact_until: np.ndarray
    index: np.ndarray
    table: np.ndarray
    builds: np.ndarray
    stats: np.ndarray = field(default_factory=lambda: np.zeros(4, np.int64))
