"""Pools of ids and the columns of nodes. A node is one block's worth of one token history: one block in every `full` cache group."""

from __future__ import annotations

import numpy as np

UNPUBLISHED = -1                  # `Nodes.parent` of a node that the prefix index does not know; roots are -2, -3, …


class Pool:
    """`total` ids with reference counts: blocks of a window group, or recurrent slots. An id is free when nobody refers to it."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.refs = np.zeros(total, np.int32)
        self._stack = np.arange(total - 1, -1, -1, dtype=np.int32)
        self.n_free = total
        self.quarantined = 0

    def take(self, n: int) -> np.ndarray:
        """int32[n] ids with one reference each; the caller checked `n_free`."""
        ids = self._stack[self.n_free - n : self.n_free][::-1].copy()
        self.n_free -= n
        self.refs[ids] = 1
        return ids

    def share(self, ids: np.ndarray) -> None:
        """One more reference each; ids must be distinct and in use."""
        self.refs[ids] += 1

    def give(self, ids: np.ndarray) -> None:
        """Drop one reference each (distinct ids); those that nobody refers to become free."""
        self.refs[ids] -= 1
        free = ids[self.refs[ids] == 0]
        self._stack[self.n_free : self.n_free + len(free)] = free
        self.n_free += len(free)

    def free_ids(self) -> np.ndarray:
        return self._stack[: self.n_free]

    def quarantine(self, ids: np.ndarray) -> None:
        """Take free ids out of circulation for good."""
        keep = self._stack[: self.n_free][~np.isin(self._stack[: self.n_free], ids)]
        lost = self.n_free - len(keep)
        self._stack[: len(keep)] = keep
        self.n_free -= lost
        self.quarantined += lost


class Nodes:
    """Struct of arrays over node ids 0 … total - 1.

    parent int32: node before it, a root (≤ -2), or UNPUBLISHED. tokens int32[total, block]; filled int32: how many of them a published node
    stands for. key uint64 chained hash. refs int32: rows (and steps in flight) that read it. kids int32: published children.
    last_use, created float64 seconds; hits, depth, wanted int32 (see `BlockColumns`). point bool: a checkpoint ends in it.
    blocks int32[full groups, total]: its physical blocks.
    """

    def __init__(self, total: int, block: int, full_pools: list[int]) -> None:
        self.total = total
        self.block = block
        self.ids = Pool(total)
        self.parent = np.full(total, UNPUBLISHED, np.int32)
        self.tokens = np.zeros((total, block), np.int32)
        self.filled = np.zeros(total, np.int32)
        self.key = np.zeros(total, np.uint64)
        self.refs = self.ids.refs
        self.kids = np.zeros(total, np.int32)
        self.last_use = np.zeros(total)
        self.created = np.zeros(total)
        self.hits = np.zeros(total, np.int32)
        self.depth = np.zeros(total, np.int32)
        self.wanted = np.zeros(total, np.int32)
        self.point = np.zeros(total, bool)
        self.live = np.zeros(total, bool)
        self.n_cached = 0                                           # live, published, refs == 0: may be evicted
        self.blocks = np.full((len(full_pools), total), -1, np.int32)
        self.pools = [Pool(n) for n in full_pools]

    @property
    def n_free(self) -> int:
        """How many nodes can be made without evicting anything."""
        return min([self.ids.n_free, *(p.n_free for p in self.pools)])

    def take(self, n: int, depth: np.ndarray, now: float) -> np.ndarray:
        """int32[n] new unpublished nodes at block indices `depth` (int32[n]) of their rows; one reference each."""
        ids = self.ids.take(n)
        for g, pool in enumerate(self.pools):
            self.blocks[g, ids] = pool.take(n)
        self.parent[ids] = UNPUBLISHED
        self.filled[ids] = self.kids[ids] = self.hits[ids] = 0
        self.depth[ids] = depth
        self.created[ids] = self.last_use[ids] = now
        self.live[ids] = True
        self.point[ids] = False
        return ids

    def ref(self, ids: np.ndarray, now: float) -> None:
        """A reader more for each of `ids` (distinct)."""
        refs = self.refs[ids]
        self.n_cached -= int((refs == 0).sum())
        self.refs[ids] = refs + 1
        self.last_use[ids] = now

    def unref(self, ids: np.ndarray, now: float) -> None:
        """A reader less; published nodes stay as cache, others are freed."""
        refs = self.refs[ids] - 1
        self.refs[ids] = refs
        self.last_use[ids] = now
        idle = ids[refs == 0]
        if len(idle):
            private = self.parent[idle] == UNPUBLISHED
            self.n_cached += len(idle) - int(private.sum())
            self.free(idle[private])

    def free(self, ids: np.ndarray) -> None:
        """Give unreferenced nodes and their blocks back."""
        if not len(ids):
            return
        self.live[ids] = False
        for g, pool in enumerate(self.pools):
            pool.give(self.blocks[g, ids])
            self.blocks[g, ids] = -1
        self.ids.refs[ids] = 1                                      # `Pool.give` drops the last reference
        self.ids.give(ids)
