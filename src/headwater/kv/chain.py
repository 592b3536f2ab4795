"""Chain: what one running or held row owns in the cache. Match: what the cache knows about some tokens."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from headwater.kv.points import Point


@dataclass(slots=True)
class Match:
    """path int32[m]: published nodes of full blocks; tail: node whose first tokens continue them, -1 = none; length: tokens known in all;
    start: tokens a new row can start with (less than `length` where the model needs a checkpoint); point: that checkpoint."""

    identity: str
    root: int
    path: np.ndarray
    tail: int
    length: int
    start: int
    point: Point | None = None

    def without_copies(self, block: int, can_cut: bool) -> Match:
        """The same match for a row that copies nothing: it starts at a block border, or from nothing where that needs a checkpoint."""
        m = self.start // block if can_cut else 0
        return Match(self.identity, self.root, self.path[:m], -1, m * block, m * block)


@dataclass(slots=True, eq=False)
class Chain:
    """Blocks of one row in order. nodes[:n] are the row's nodes (shared ones first); windows: per window group int32 block ids by block index, -1
    behind the window, first[g] = first kept index. tip: node (or root) below which the next full block is published; seed: hash sum before
    it; published: full blocks the index knows; private: publishing stopped (hash taken). shadows: published twins of own blocks, kept alive
    because later blocks hang below them. loose: checkpoints inside the unpublished block. end: the checkpoint at the end of a finished chain."""

    identity: str
    root: int
    tip: int
    seed: int
    published: int
    nodes: np.ndarray
    n: int
    windows: list[np.ndarray]
    first: list[int]
    slot: int = -1
    private: bool = False
    shadows: list[int] = field(default_factory=list)
    loose: list[Point] = field(default_factory=list)
    end: Point | None = None

    def grow(self, n: int) -> None:
        """Make space for n blocks in the arrays."""
        if n > len(self.nodes):
            more = np.full(max(n, 2 * len(self.nodes)) - len(self.nodes), -1, np.int32)
            self.nodes = np.concatenate([self.nodes, more])
            self.windows = [np.concatenate([w, more]) for w in self.windows]

    def table(self, blocks: np.ndarray) -> np.ndarray:
        """int32[n]: the row's blocks in a full group whose column is `blocks`."""
        return blocks[self.nodes[: self.n]]


@dataclass(slots=True)
class Start:
    """A chain made for a new row: copies (cache group, from block, to block); state_from: recurrent slot to start from, -1 = zeros."""

    chain: Chain
    copies: list[tuple[int, int, int]]
    state_from: int
