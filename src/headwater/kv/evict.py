"""Mechanism of eviction: which nodes may leave, in which order a policy's scores let them, never a parent before its child."""

from __future__ import annotations

import heapq
from collections.abc import Callable

import numpy as np

from headwater.kv.blocks import UNPUBLISHED, Nodes
from headwater.policies.evict.api import BlockColumns, EvictPolicy


def columns(nodes: Nodes) -> BlockColumns:
    """The policy's view of all nodes."""
    return BlockColumns(nodes.last_use, nodes.created, nodes.hits, nodes.depth, nodes.wanted, nodes.total)


def evict(nodes: Nodes, policy: EvictPolicy, k: int, now: float, remove: Callable[[int], None]) -> int:
    """Remove at least k cached nodes if so many exist (a few more, so that the next call is far). Returns how many left."""
    idle = np.flatnonzero((nodes.refs == 0) & nodes.live)
    k = min(len(idle), k + min(len(idle) // 32, 256))
    if k <= 0:
        return 0
    score = np.full(nodes.total, -np.inf)
    score[idle] = np.nan_to_num(policy.score(columns(nodes), idle.astype(np.int32), now), nan=-np.inf)
    leaves = idle[nodes.kids[idle] == 0]
    if len(leaves) > k:                                             # only the k lowest leaves can be among the k that leave
        leaves = leaves[np.argpartition(score[leaves], k)[: k + 1]]
    heap = list(zip(score[leaves].tolist(), (-nodes.depth[leaves]).tolist(), leaves.tolist(), strict=True))
    heapq.heapify(heap)
    for _ in range(k):
        _, _, node = heapq.heappop(heap)
        parent = int(nodes.parent[node])
        remove(node)
        if parent > UNPUBLISHED and nodes.kids[parent] == 0 and nodes.refs[parent] == 0:
            heapq.heappush(heap, (float(score[parent]), -int(nodes.depth[parent]), parent))
    return k
