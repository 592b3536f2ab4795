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

WINDOW, QUEST, WAVE, BLASST = 1, 2, 3, 4      # numbers of csrc/attend/select.h
TREE, DUAL_CHUNK, STREAM = 20, 21, 22
NEVER = 2**31 - 1


@dataclass(frozen=True, slots=True)
class SelectSpec:
    """kind: WINDOW, QUEST, WAVE, TREE, BLASST, DUAL_CHUNK or STREAM. sinks: first positions that are always read. local: WINDOW, STREAM: newest
    positions that are read; else the least number of newest positions that no index covers. segment: positions indexed together and alone, or the
    chunk of DUAL_CHUNK. centroid: positions per cluster (WAVE). iterations: rounds of k-means. dense_layers: first layers that read everything.

    retrieve: share of clusters (WAVE) or pages (QUEST, TREE) that are read. estimate: share of clusters that are estimated from their summaries.
    second: weight of the variance in an estimate, 0 = none. fanout, beam: TREE: children of a node, and nodes of a level whose children are looked
    at. mass: TREE: nodes are scored by the mean and the variance of their keys instead of bounds.
    threshold: BLASST, which holds for prompts too: a chunk of 256 positions whose largest weight is below this share of the largest so far
    is left out. trained: DUAL_CHUNK: positions that the model was made for. force: select at full budget too, where reading everything is the
    same (for tests of the merge).
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
    threshold: float = 0.0
    fanout: int = 4
    beam: int = 64
    mass: bool = False
    trained: int = 0
    force: bool = False

    @property
    def everywhere(self) -> bool:
        """Whether prompts are read selectively too: then all keys and values carry the policy's name, and may be shared under it."""
        return self.kind in (BLASST, DUAL_CHUNK, STREAM)

    @property
    def moves(self) -> bool:
        """Whether far keys are seen from another position than the query's: needs the rotary embedding."""
        return self.kind in (DUAL_CHUNK, STREAM)

    @property
    def indexed(self) -> bool:
        return self.kind in (QUEST, WAVE, TREE)

    @property
    def paged(self) -> bool:
        return self.kind in (QUEST, TREE)

    @property
    def vectors(self) -> int:
        """Clusters or pages of a segment."""
        return self.segment // (BLOCK_TOKENS if self.paged else self.centroid)

    def levels(self) -> list[int]:
        """TREE: nodes of a segment per level, pages first."""
        counts = [self.vectors]
        while counts[-1] >= self.fanout and counts[-1] % self.fanout == 0:
            counts.append(counts[-1] // self.fanout)
        return counts

    def indexed_end(self, position: int) -> int:
        """First position that no index covers for a query at `position`."""
        return 0 if not self.indexed else max(0, (position + 1 - self.local) // self.segment * self.segment)

    def near_from(self, position: int) -> int:
        """First key that a query at `position` sees from there (policies that move positions)."""
        if self.kind == STREAM:
            return 0 if position < self.sinks + self.local else position + 1 - self.local
        chunk = position // self.segment
        previous = max(0, chunk - 1) * self.segment
        return previous if position - previous < self.trained else chunk * self.segment

    @property
    def first_selective(self) -> int:
        """The first position whose query does not read everything; queries before it take the dense path."""
        if self.force or self.kind == BLASST:
            return 0
        if self.kind in (WINDOW, STREAM):
            return self.sinks + self.local
        if self.kind == DUAL_CHUNK:
            return self.trained
        return NEVER if self.retrieve >= 1 else self.segment + self.local - 1

    def index_bytes(self, head_dim: int, block_bytes: int) -> int:
        """Bytes of one segment's index for one kv head of one layer; block_bytes: of one kv head of one block of keys."""
        matrix = 2 * self.vectors * head_dim
        if not self.indexed:
            return 0
        if self.kind == QUEST:
            return 2 * matrix
        if self.kind == TREE:
            return 4 * sum(self.levels()) * head_dim
        lists = 2 * self.segment + 2 * (self.vectors + 1)
        total = self.segment // BLOCK_TOKENS * block_bytes + (3 if self.second > 0 else 2) * matrix + lists
        return -(-total // 64) * 64


@dataclass(slots=True)
class Selection:
    """A step's view: group: the cache group that it is about. exact_until int32[rows]: queries of a row from there on select.

    index uint8[layers - dense_layers, slots, kv_heads, bytes]; table int32[rows, segments]: slot of each segment of a row, -1 = none;
    builds int32[n, 3]: (row, segment, slot) to fill in this step. stats int64[4], added to, over (query, kv head): how many, positions
    read, index vectors scanned, clusters estimated; BLASST: over (query, head, chunk) computed and left out. inv_freq float32[dims / 2], interleaved:
    the group's rotary embedding, for policies that move positions.
    """

    spec: SelectSpec
    group: int
    exact_until: np.ndarray
    index: np.ndarray
    table: np.ndarray
    builds: np.ndarray
    stats: np.ndarray = field(default_factory=lambda: np.zeros(4, np.int64))
    inv_freq: np.ndarray = field(default_factory=lambda: np.zeros(0, np.float32))
    interleaved: bool = False
