"""Where the indices of selective attention live: slots in one array, keyed by the block that ends a segment.

An index is a function of the keys and values of its segment, and the block that holds a segment's last positions belongs to one history only,
so rows that share that block share its index, forks and cached prefixes included. A slot lost to another segment is built again when
a query needs it, with the same bits. What a step writes, copies or imports into a block drops the index that the block stood for.
"""

from __future__ import annotations

import mmap

import numpy as np

from headwater.core.errors import UserInputError
from headwater.core.kvspec import BLOCK_TOKENS, CacheGroup
from headwater.kernels.ops import Rope
from headwater.kernels.program import Program, Step
from headwater.kernels.select import Selection, SelectSpec
from headwater.worker.kvpool import lazy_array

NO_BUILDS = np.zeros((0, 3), np.int32)


def index_slots(spec: SelectSpec, blocks: int, context: int) -> int:
    """Slots for a pool of blocks: one per segment that fits it, and at least what one row can need."""
    return max(blocks * BLOCK_TOKENS // spec.segment, context // spec.segment + 1)


def rope_of(program: Program, group: int) -> Rope | None:
    """The rotary embedding of the queries of a cache group; None where they have none."""
    made = {op.output: op for op in program.ops}
    for op in program.ops:
        if op.kind == "attend" and op.attrs["spec"].group == group:
            maker = made[op.inputs[0].buffer]
            return maker.attrs["spec"] if maker.kind == "rope" else None
    return None


class IndexPool:
    """group: number of the cache group; shape: the group itself; rope: of its queries, for policies that move positions.

    stats: int64[4], see `Selection`, over all steps; built: segments indexed.
    """

    def __init__(self, spec: SelectSpec, group: int, shape: CacheGroup, blocks: int, context: int, rope: Rope | None = None) -> None:
        self.spec, self.group = spec, group
        if spec.moves and rope is None:
            raise UserInputError("--attend: the model has no rotary embedding, and this policy moves positions", "attend")
        self._rope = rope
        self.per = spec.segment // BLOCK_TOKENS
        self.stats = np.zeros(4, np.int64)
        self.built = 0
        self._maps: list[mmap.mmap] = []
        slots = index_slots(spec, blocks, context) if spec.indexed else 0
        size = spec.index_bytes(shape.head_dim, shape.head_bytes_per_block)
        layers = max(shape.layers - spec.dense_layers, 0) if slots else 0
        self.index = lazy_array((layers, slots, shape.kv_heads, size), np.uint8, self._maps)
        self._slot_of = np.full(blocks, -1, np.int32)
        self._block_of = np.full(slots, -1, np.int32)
        self._used = np.zeros(slots, np.int64)
        self._now = 0

    def forget(self, blocks: np.ndarray) -> None:
        """These blocks get other contents."""
        slots = self._slot_of[blocks]
        slots = slots[slots >= 0]
        self._block_of[slots] = -1
        self._used[slots] = 0
        self._slot_of[blocks] = -1

    def plan(self, step: Step) -> Selection | None:
        """The selection of a step with borders; None when its rows need more slots at once than there are (run fewer rows at a time)."""
        assert step.border is not None
        table, counts = step.tables[self.group], np.diff(step.row_start)
        rows = np.flatnonzero(counts)
        start = step.positions[step.row_start[:-1][rows]]
        end = start + counts[rows]
        border = 0 if self.spec.everywhere else step.border
        until = np.broadcast_to(np.maximum(border, self.spec.first_selective), step.border.shape).astype(np.int32)
        if not self.spec.indexed:
            plain = Selection(self.spec, self.group, until, self.index, np.full((len(counts), 0), -1, np.int32), NO_BUILDS, self.stats)
            if self._rope is not None:
                plain.inv_freq, plain.interleaved = np.ascontiguousarray(self._rope.inv_freq, np.float32), self._rope.interleaved
            return plain
        self._now += 1
        for row, a, b in zip(rows.tolist(), start.tolist(), end.tolist(), strict=True):
            self.forget(table[row, a // BLOCK_TOKENS : (b - 1) // BLOCK_TOKENS + 1])
        segments = np.where(end > until[rows], np.maximum(end - self.spec.local, 0) // self.spec.segment, 0)
        slots = np.full((len(counts), int(segments.max(initial=0))), -1, np.int32)
        needed = [table[row, self.per - 1 : n * self.per : self.per] for row, n in zip(rows.tolist(), segments.tolist(), strict=True)]
        blocks = np.unique(np.concatenate([*needed, np.zeros(0, np.int32)]))
        if len(blocks) > len(self._used):
            return None
        have = self._slot_of[blocks]
        self._used[have[have >= 0]] = self._now
        fresh = set(blocks[have < 0].tolist())
        builds = self._build(rows, needed, fresh)
        builds += self._completed(table, rows, start, end)
        for row, known in zip(rows.tolist(), needed, strict=True):
            slots[row, : len(known)] = self._slot_of[known]
        self.built += len(builds)
        return Selection(self.spec, self.group, until, self.index, slots, np.array(builds, np.int32).reshape(-1, 3), self.stats)

    def _build(self, rows: np.ndarray, needed: list[np.ndarray], fresh: set[int]) -> list[tuple[int, int, int]]:
        """Slots for the needed segments that have none."""
        builds = []
        for row, known in zip(rows.tolist(), needed, strict=True):
            for segment, block in enumerate(known.tolist()):
                if block in fresh:
                    fresh.discard(block)
                    builds.append((row, segment, self._take(block)))
        return builds

    def _completed(self, table: np.ndarray, rows: np.ndarray, start: np.ndarray, end: np.ndarray) -> list[tuple[int, int, int]]:
        """Segments that this step completes are indexed while their keys are near, if a slot is left that this step does not need."""
        builds = []
        for row, a, b in zip(rows.tolist(), start.tolist(), end.tolist(), strict=True):
            for segment in range(a // self.spec.segment, b // self.spec.segment):
                block = int(table[row, (segment + 1) * self.per - 1])
                if self._slot_of[block] < 0 and self._used.min() < self._now:
                    builds.append((row, segment, self._take(block)))
        return builds

    def _take(self, block: int) -> int:
        """The slot used longest ago becomes this block's."""
        slot = int(np.argmin(self._used))
        if self._block_of[slot] >= 0:
            self._slot_of[self._block_of[slot]] = -1
        self._block_of[slot], self._slot_of[block], self._used[slot] = block, slot, self._now
        return slot
