"""What a selective query finds: the share of the keys with the largest weights that it reads, and the share of attention mass that it reads.

A few queries behind a prefilled document are replayed in numpy with float32 weights, over the keys and values that the cache holds. Attention is
dense on the way, so that every policy is asked about the same queries.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from headwater.core.errors import UserInputError
from headwater.core.kvspec import BLOCK_TOKENS
from headwater.kernels import reference
from headwater.kernels.ops import Attend
from headwater.kernels.program import Program, Step
from headwater.kernels.reference_select import Clusters, clusters_of, read_positions
from headwater.kernels.select import WAVE, SelectSpec

if TYPE_CHECKING:
    from headwater.bench.longcontext import Trunk


@dataclass(slots=True)
class Found:
    """Sums over (query, head): recall: share of the top keys that is read; read: attention mass at positions that are read; estimated: at those
    that are estimated; count: how many were added."""

    recall: float = 0.0
    read: float = 0.0
    estimated: float = 0.0
    count: int = 0

    def means(self) -> dict[str, float]:
        n = max(self.count, 1)
        return {"recall": self.recall / n, "mass": self.read / n, "estimated_mass": self.estimated / n}


class Watcher:
    """Dense attention in numpy that asks policies, in every `every`-th layer of the selected group, what they would read. top: keys that count."""

    def __init__(self, trunk: Trunk, policies: dict[str, SelectSpec], top: int, every: int) -> None:
        if any(g.format != "f16" for g in trunk.kv.groups):
            raise UserInputError("bench longcontext: recall of keys is measured over an f16 cache; --kv f16", "kv")
        self.group, self.policies, self.top, self.every = trunk.full, policies, top, every
        self.length = trunk.length
        self.arrays = trunk.forward.export_row([t[0] for t in trunk.tables], trunk.length)
        self.found = {name: Found() for name in policies}
        self._clusters: dict[tuple[object, ...], list[Clusters]] = {}

    def cached(self, spec: Attend) -> tuple[np.ndarray, np.ndarray]:
        """Keys and values of one layer, float32[kv_heads, length, head_dim]."""
        k, v = (self.arrays[2 * spec.group + i][spec.layer].astype(np.float32) for i in (0, 1))
        blocks = len(k)
        keys = k.transpose(1, 0, 3, 2).reshape(spec.kv_heads, blocks * BLOCK_TOKENS, spec.head_dim)
        values = v.transpose(1, 0, 2, 3).reshape(spec.kv_heads, blocks * BLOCK_TOKENS, spec.head_dim)
        return keys[:, : self.length], values[:, : self.length]

    def __call__(self, spec: Attend, q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
        n = len(q)
        old_keys, old_values = self.cached(spec)
        queries = q.reshape(n, spec.kv_heads, -1, spec.head_dim) * np.float32(spec.scale)
        out = np.empty(queries.shape, np.float32)
        for h in range(spec.kv_heads):
            own_k, own_v = (x.reshape(n, spec.kv_heads, spec.head_dim)[:, h].astype(np.float16).astype(np.float32) for x in (k, v))
            keys, values = np.concatenate([old_keys[h], own_k]), np.concatenate([old_values[h], own_v])
            for t in range(n):
                end = self.length + t + 1
                start = max(0, end - spec.window) if spec.window else 0
                scores = queries[t, h] @ keys[start:end].T
                if spec.softcap:
                    scores = spec.softcap * np.tanh(scores / spec.softcap)
                weights = np.exp(scores - scores.max(1, keepdims=True))
                weights /= weights.sum(1, keepdims=True)
                out[t, h] = weights @ values[start:end]
                if spec.group == self.group and spec.layer % self.every == 0:
                    self._ask(spec, h, queries[t, h], keys[:end], values[:end], weights)
        return out.reshape(n, -1)

    def _ask(self, layer: Attend, h: int, q: np.ndarray, keys: np.ndarray, values: np.ndarray, weights: np.ndarray) -> None:
        top = np.argpartition(-weights, min(self.top, len(keys)) - 1, axis=1)[:, : self.top]
        for name, spec in self.policies.items():
            read, estimated = read_positions(spec, q.astype(np.float64), keys, self._index(spec, layer.layer, h, keys, values))
            found = self.found[name]
            found.recall += float(read[top].mean(1).sum())
            found.read += float(weights[:, read].sum())
            found.estimated += float(weights[:, estimated].sum())
            found.count += len(weights)

    def _index(self, spec: SelectSpec, layer: int, h: int, keys: np.ndarray, values: np.ndarray) -> list[Clusters]:
        if spec.kind != WAVE:
            return []
        end = spec.indexed_end(len(keys) - 1)
        name = (layer, h, end, spec.sinks, spec.segment, spec.centroid, spec.iterations)
        if name not in self._clusters:
            self._clusters[name] = clusters_of(spec, keys[:end], values[:end])
        return self._clusters[name]


def key_recall(
    trunk: Trunk, program: Program, tokens: np.ndarray, policies: dict[str, SelectSpec], *, top: int = 64, every: int = 6,
) -> dict[str, dict[str, float]]:
    """policy -> recall, mass and estimated_mass over the queries of `tokens`, which follow the prefilled document; means over queries and heads.

    trunk: prefilled. program: of its model. Raises UserInputError for caches other than f16.
    """
    watcher = Watcher(trunk, policies, top, every)
    n = len(tokens)
    step = Step(np.asarray(tokens, np.int32), np.arange(trunk.length, trunk.length + n, dtype=np.int32), np.array([0, n], np.int32),
                np.arange(n, dtype=np.int32), [])
    reference.run(program, step, [], watch=watcher)
    return {name: found.means() for name, found in watcher.found.items()}
