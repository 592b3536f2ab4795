"""Invariants as sentences. The cheap ones cost a few vector operations; the full ones recount every reference."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from headwater.kv.blocks import UNPUBLISHED, Pool
from headwater.kv.chain import Chain
from headwater.sched.board import Board
from headwater.sched.seq import Stage


@dataclass(frozen=True, slots=True)
class Violation:
    """sentence: which invariant broke, with numbers. blocks: (cache group, block ids) that cannot be trusted."""

    sentence: str
    blocks: list[tuple[int, np.ndarray]] = field(default_factory=list)


def violations(board: Board, full: bool) -> list[Violation]:
    """All broken invariants; none in a healthy scheduler between two steps."""
    found = [*_rows(board), *_counts(board)]
    if full:
        found += [*_references(board), *_tree(board), *_writers(board), *_requests(board)]
    return found


def _rows(board: Board) -> Iterator[Violation]:
    rows, block = board.rows, board.kv.block
    idx = rows.index()
    if len(idx) != rows.count:
        yield Violation(f"the table counts its rows: it says {rows.count}, {len(idx)} are alive")
    done, known, room = rows.done[idx], rows.known[idx], rows.room[idx]
    if (done >= known).any() or (done < 0).any():
        yield Violation("valid tokens never reach past the known ones: a running row has nothing to compute")
    if (done > room).any() or (room % block).any():
        yield Violation("every valid token lies in a block of its row")


def _counts(board: Board) -> Iterator[Violation]:
    kv, nodes = board.kv, board.kv.nodes
    live = int(nodes.live.sum())
    named = [("nodes", nodes.ids), *((f"blocks of cache group {g}", p) for g, p in zip(kv.full, nodes.pools, strict=True))]
    for name, pool in named:
        if pool.n_free + live + pool.quarantined != pool.total:
            yield Violation(f"free + used + cached {name} = all: {pool.n_free} + {live} is not {pool.total - pool.quarantined}")
    cached = int((nodes.live & (nodes.refs == 0)).sum())
    if cached != nodes.n_cached:
        yield Violation(f"cached blocks are counted: {nodes.n_cached} counted, {cached} found")
    if (nodes.refs < 0).any() or any((p.refs < 0).any() for p in (*kv.pools, kv.slots)):
        yield Violation("no reference is given back twice")


def _chains(board: Board) -> list[Chain]:
    rows = board.rows
    chains = [rows.at(row).chain for row in rows.index().tolist()] + [seq.chain for seq in board.forest.held.values()]
    return [c for c in chains if c is not None]


def _references(board: Board) -> Iterator[Violation]:
    kv, nodes = board.kv, board.kv.nodes
    chains = _chains(board)
    refs = np.zeros(nodes.total, np.int32)
    for part in [*(c.nodes[: c.n] for c in chains), *(np.array(c.shadows, np.int32) for c in chains), *kv.pins]:
        np.add.at(refs, part, 1)
    wrong = np.flatnonzero((refs != nodes.refs) & (nodes.live | (refs > 0)))
    if len(wrong):
        blocks = [(g, nodes.blocks[i, wrong]) for i, g in enumerate(kv.full)]
        yield Violation(f"a block has as many references as readers: {len(wrong)} differ", [(g, b[b >= 0]) for g, b in blocks])
    for w, pool in enumerate(kv.pools):
        counted = np.zeros(pool.total, np.int32)
        for ids in [*(c.windows[w][: c.n] for c in chains), *(p.windows[w][1] for p in kv.points.all)]:
            np.add.at(counted, ids[ids >= 0], 1)
        yield from _pool(pool, counted, f"window blocks of cache group {kv.windowed[w]}", kv.windowed[w])
    slots = [c.slot for c in chains if c.slot >= 0] + [p.slot for p in kv.points.all if p.slot >= 0]
    yield from _pool(kv.slots, np.bincount(slots, minlength=kv.slots.total).astype(np.int32), "recurrent slots", None)


def _pool(pool: Pool, counted: np.ndarray, name: str, group: int | None) -> Iterator[Violation]:
    free = np.zeros(pool.total, bool)
    free[pool.free_ids()] = True
    wrong = np.flatnonzero((counted != pool.refs) | (free & (counted > 0)))
    if len(wrong):
        yield Violation(f"{name} have as many references as readers: {len(wrong)} differ", [] if group is None else [(group, wrong)])
    if pool.n_free + int((pool.refs > 0).sum()) + pool.quarantined != pool.total:
        yield Violation(f"free + used {name} = all: {pool.n_free} free and {int((pool.refs > 0).sum())} used of {pool.total}")


def _tree(board: Board) -> Iterator[Violation]:
    nodes, points = board.kv.nodes, board.kv.points
    if (nodes.live & (nodes.refs == 0) & (nodes.parent == UNPUBLISHED)).any():
        yield Violation("a cached block can be found")
    children = np.flatnonzero(nodes.live & (nodes.parent >= 0))
    parents = nodes.parent[children]
    kids = np.bincount(parents, minlength=nodes.total)
    if (kids != nodes.kids)[nodes.live].any() or not nodes.live[parents].all():
        yield Violation("a parent outlives its children and counts them")
    if ((nodes.refs[children] > 0) & (nodes.refs[parents] == 0)).any():
        yield Violation("who reads a block reads all blocks before it")
    tied = [p for p in points.all if p.node >= 0]
    if any(not nodes.live[p.node] or not nodes.point[p.node] for p in tied) or sum(map(len, points.by_node.values())) != len(tied):
        yield Violation("a checkpoint ends in a live block")


def _writers(board: Board) -> Iterator[Violation]:
    rows, kv = board.rows, board.kv
    used = np.zeros(kv.nodes.total, np.int32)
    for chain in _chains(board):
        np.add.at(used, chain.nodes[: chain.n], 1)
    for row in rows.index().tolist():
        mine = rows.at(row).chain
        assert mine is not None
        own = mine.nodes[int(rows.done[row]) // kv.block : mine.n]
        if (used[own] != 1).any():
            yield Violation("no block is in two rows that may write it")
        if mine.n * kv.block != rows.room[row]:
            yield Violation("the table knows how many blocks a row has")


def _requests(board: Board) -> Iterator[Violation]:
    rows, queue, forest = board.rows, board.queue, board.forest
    stages = [(rows, Stage.RUNNING), (queue, Stage.WAITING)]
    for table, stage in stages:
        for i in table.index().tolist():
            seq = table.seqs[i]
            if seq is None or seq.stage is not stage or seq.row != i or board.seqs.get(seq.request.request_id) is not seq:
                yield Violation("every admitted request is in one place")
    if len(board.seqs) != rows.count + queue.count + len(forest.held):
        yield Violation(f"no request is lost: {len(board.seqs)} known, {rows.count} run, {queue.count} wait, {len(forest.held)} held")
    if any(seq.stage != Stage.RUNNING for seq in forest.pending.values()):
        yield Violation("only running rows announce blocks")
