"""The prefix index: the longest known prefix of some tokens, by chained hash under the full identity, confirmed token by token.

A key chains all blocks before it: key_i = mix(seed + Σ_{j ≤ i} mix(tokens_j · random odd numbers + j · odd)), so that all keys of a prompt are one
vector operation. The hash only finds candidates; parents and tokens decide.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from itertools import islice, takewhile

import numpy as np

from headwater.kv.blocks import UNPUBLISHED, Nodes

_CANDIDATES = 64                  # newest children compared for a partial match; more can only miss a few tokens of reuse


def mix(z: np.ndarray) -> np.ndarray:
    """Finaliser of splitmix64 over uint64 arrays."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def common_prefix(a: np.ndarray, b: np.ndarray) -> int:
    """How many leading entries are equal."""
    n = min(len(a), len(b))
    differ = np.flatnonzero(a[:n] != b[:n])
    return int(differ[0]) if len(differ) else n


class PrefixIndex:
    """Published nodes as a forest of token blocks. One root per identity string (numeric options, salt, producer tag)."""

    def __init__(self, nodes: Nodes) -> None:
        self.nodes = nodes
        self._odd = mix(np.arange(1, nodes.block + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)) | np.uint64(1)
        self._by_key: dict[int, int] = {}
        self._heads: dict[tuple[int, int], dict[int, None]] = {}    # (parent, first token) -> children, oldest first
        self._roots: dict[str, int] = {}
        self._names: dict[int, str] = {}
        self._seeds: dict[int, int] = {}
        self._size: dict[int, int] = {}                             # published nodes and rows per root; roots of gone tenants go too
        self._next_root = -2

    def __len__(self) -> int:
        return len(self._by_key)

    def root(self, identity: str) -> int:
        """The root (≤ -2) under which states of this identity are published."""
        root = self._roots.get(identity)
        if root is None:
            self._forget_roots()
            root, self._next_root = self._next_root, self._next_root - 1
            self._roots[identity], self._names[root], self._size[root] = root, identity, 0
            self._seeds[root] = int.from_bytes(hashlib.blake2b(identity.encode(), digest_size=8).digest(), "little")
        return root

    def pin_root(self, root: int, by: int) -> None:
        """A row more (by = 1) or less (-1) will publish under `root`."""
        self._size[root] += by

    def _forget_roots(self) -> None:
        if len(self._roots) < 4096 or len(self._roots) < 4 * sum(n > 0 for n in self._size.values()):
            return
        for root in [r for r, n in self._size.items() if n == 0]:
            del self._roots[self._names.pop(root)], self._seeds[root], self._size[root]

    def seed(self, identity: str) -> int:
        """What the sums of an identity start from."""
        return self._seeds[self.root(identity)]

    def sums(self, seed: int, first: int, ids: np.ndarray) -> np.ndarray:
        """uint64[len(ids) // block]: running sums behind the keys of the full blocks of `ids`, which are blocks `first`, `first` + 1, … of a
        history whose sum before them is `seed`; `mix` turns sums into keys."""
        block = self.nodes.block
        n = len(ids) // block
        content = (ids[: n * block].astype(np.uint64).reshape(n, block) + np.uint64(1)) @ self._odd
        content = mix(content + np.arange(first + 1, first + n + 1, dtype=np.uint64) * np.uint64(0xD6E8FEB86659FD93))
        return np.uint64(seed) + np.cumsum(content, dtype=np.uint64)

    def next_sums(self, seeds: np.ndarray, first: np.ndarray, ids: np.ndarray) -> np.ndarray:
        """uint64[rows]: `sums` of one block for each of several histories; seeds uint64[rows], first int[rows] block indices,
        ids int32[rows, block]."""
        content = (ids.astype(np.uint64) + np.uint64(1)) @ self._odd
        return seeds + mix(content + (first.astype(np.uint64) + np.uint64(1)) * np.uint64(0xD6E8FEB86659FD93))

    def find(self, root: int, ids: np.ndarray, keys: Iterable[int]) -> np.ndarray:
        """int32[k]: the published nodes of the longest known run of full blocks from the start of `ids`; keys: python ints, in order."""
        nodes, block = self.nodes, self.nodes.block
        get = self._by_key.get
        path = np.fromiter(takewhile(lambda node: node is not None, map(get, keys)), np.int32)
        if not len(path):
            return path
        same = (nodes.tokens[path] == ids[: len(path) * block].reshape(-1, block)).all(axis=1)
        same &= nodes.parent[path] == np.concatenate([[root], path[:-1]])
        wrong = np.flatnonzero(~same)
        return path[: wrong[0]] if len(wrong) else path

    def partial(self, parent: int, ids: np.ndarray) -> tuple[int, int]:
        """The child of `parent` (node or root) that shares most leading tokens with `ids`, and how many; (-1, 0) when none does."""
        if not len(ids):
            return -1, 0
        children = self._heads.get((parent, int(ids[0])))
        if not children:
            return -1, 0
        idx = np.fromiter(islice(reversed(children), _CANDIDATES), np.int32)
        n = min(len(ids), self.nodes.block)
        same = np.logical_and.accumulate(self.nodes.tokens[idx, :n] == ids[:n], axis=1).sum(axis=1)
        same = np.minimum(same, self.nodes.filled[idx])
        best = int(np.argmax(same))                                 # the newest of equals
        return int(idx[best]), int(same[best])

    def publish(self, node: int, parent: int, key: int, ids: np.ndarray) -> int:
        """Make a full block findable below `parent`. Returns the node that stands for it: `node`, an equal one known before, or -1 (hash taken
        by other tokens: this history stays private from here on)."""
        nodes = self.nodes
        known = self._by_key.get(key)
        if known is not None:
            return known if nodes.parent[known] == parent and np.array_equal(nodes.tokens[known], ids) else -1
        self._by_key[key] = node
        nodes.key[node] = key
        self._insert(node, parent, ids)
        return node

    def publish_partial(self, node: int, parent: int, ids: np.ndarray) -> bool:
        """Make a partly filled block findable unless a child of `parent` already stands for all of it."""
        if self.partial(parent, ids)[1] == len(ids):
            return False
        self._insert(node, parent, ids)
        return True

    def _insert(self, node: int, parent: int, ids: np.ndarray) -> None:
        nodes = self.nodes
        nodes.parent[node] = parent
        nodes.tokens[node, : len(ids)] = ids
        nodes.filled[node] = len(ids)
        if parent >= 0:
            nodes.kids[parent] += 1
        else:
            self._size[parent] += 1
        self._heads.setdefault((parent, int(ids[0])), {})[node] = None

    def replace(self, old: int, new: int) -> None:
        """The unpublished node `new` holds the same block as the published full node `old` and takes its place; `old` becomes unpublished."""
        nodes = self.nodes
        parent, first = int(nodes.parent[old]), int(nodes.tokens[old, 0])
        for column in (nodes.parent, nodes.tokens, nodes.filled, nodes.key, nodes.kids):
            column[new] = column[old]
        self._by_key[int(nodes.key[old])] = new
        children = self._heads[parent, first]
        del children[old]
        children[new] = None
        below = np.flatnonzero(nodes.live & (nodes.parent == old))
        nodes.parent[below] = new
        for token in np.unique(nodes.tokens[below, 0]).tolist():
            self._heads[new, token] = self._heads.pop((old, token))
        nodes.parent[old] = UNPUBLISHED
        nodes.filled[old] = nodes.kids[old] = 0

    def remove(self, node: int) -> None:
        """Forget a published node without children; it becomes unpublished."""
        nodes = self.nodes
        parent = int(nodes.parent[node])
        if nodes.filled[node] == nodes.block:
            del self._by_key[int(nodes.key[node])]
        head = (parent, int(nodes.tokens[node, 0]))
        children = self._heads[head]
        del children[node]
        if not children:
            del self._heads[head]
        if parent >= 0:
            nodes.kids[parent] -= 1
        else:
            self._size[parent] -= 1
        nodes.parent[node] = UNPUBLISHED
        nodes.filled[node] = 0
