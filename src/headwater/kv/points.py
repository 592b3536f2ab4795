"""Checkpoints: the state at one position of a token history, for layers that cannot be cut back (sliding window, recurrent)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headwater.kv.blocks import Pool
from headwater.policies.evict.api import BlockColumns, EvictPolicy


@dataclass(slots=True, eq=False)
class Point:
    """State after `pos` tokens. windows: per window group (first block index, int32 block ids up to the block of pos - 1), each with one
    reference; slot: a recurrent slot with one reference, -1 = none. node: the published node that covers pos - 1, -1 = not yet published.
    """

    pos: int
    windows: list[tuple[int, np.ndarray]]
    slot: int
    node: int = -1
    created: float = 0.0
    last_use: float = 0.0
    hits: int = 0
    pins: int = 0                                                   # held states and steps in flight


class Points:
    """All checkpoints, findable by the node that they end in. Keeps the references that its points hold."""

    def __init__(self, window_pools: list[Pool], slots: Pool) -> None:
        self.window_pools = window_pools
        self.slots = slots
        self.by_node: dict[int, list[Point]] = {}
        self.all: dict[Point, None] = {}

    def add(self, point: Point) -> None:
        """Register a point whose references its maker took."""
        self.all[point] = None

    def attach(self, point: Point, node: int) -> bool:
        """Tie a point to the published node it ends in. False when the same position is known already (the point is dropped)."""
        if any(other.pos == point.pos for other in self.by_node.get(node, ())):
            self.drop(point)
            return False
        point.node = node
        self.by_node.setdefault(node, []).append(point)
        return True

    def at(self, node: int, limit: int) -> Point | None:
        """The latest point in `node` at or before position `limit`."""
        return max((p for p in self.by_node.get(node, ()) if p.pos <= limit), key=lambda p: p.pos, default=None)

    def move(self, old: int, new: int) -> None:
        """Points that end in node `old` end in `new` from now on."""
        if old in self.by_node:
            self.by_node[new] = self.by_node.pop(old)
            for point in self.by_node[new]:
                point.node = new

    def drop(self, point: Point) -> bool:
        """Give everything back. True when its node has no point left (the caller clears the node's flag)."""
        del self.all[point]
        for pool, (_, ids) in zip(self.window_pools, point.windows, strict=True):
            pool.give(ids)
        if point.slot >= 0:
            self.slots.give(np.array([point.slot], np.int32))
        if point.node < 0:
            return False
        rest = self.by_node[point.node]
        rest.remove(point)
        if rest:
            return False
        del self.by_node[point.node]
        return True

    def leaving(self, policy: EvictPolicy, now: float) -> list[Point]:
        """Points that may leave, the policy's first choice first."""
        idle = [p for p in self.all if p.pins == 0]
        if not idle:
            return []
        depth = np.array([p.pos for p in idle], np.int32)
        columns = BlockColumns(
            last_use=np.array([p.last_use for p in idle]),
            created=np.array([p.created for p in idle]),
            hits=np.array([p.hits for p in idle], np.int32),
            depth=depth,
            wanted=np.zeros(len(idle), np.int32),
            total=len(idle),
        )
        score = np.nan_to_num(policy.score(columns, np.arange(len(idle), dtype=np.int32), now), nan=-np.inf)
        return [idle[i] for i in np.lexsort((-depth, score))]
