"""One sequence on an executor, fed in pieces; what tests of executors and pages share."""

import numpy as np

from headwater.kernels.program import StateArrays, Step
from headwater.kernels.reference_attention import new_cache


class Sequence:
    """One row with a cache of its own on an executor."""

    def __init__(self, model, executor) -> None:
        self.model, self.executor, self.done = model, executor, 0
        spec = model.kvspec
        self.kv = [new_cache(g.layers, 8, g.kv_heads, g.head_dim) for g in spec.groups]
        self.states = StateArrays({s.name: np.zeros((s.layers, 1, *s.shape), np.float32) for s in spec.states}) if spec.states else None

    def feed(self, ids: np.ndarray) -> np.ndarray:
        """float32[len(ids), dim]: hidden rows of all new tokens."""
        n, first = len(ids), self.done
        self.done += n
        step = Step(
            ids.astype(np.int32), np.arange(first, first + n, dtype=np.int32), np.array([0, n], np.int32), np.arange(n, dtype=np.int32),
            [np.arange(8, dtype=np.int32)[None] for _ in self.kv], np.array([0 if first else -1], np.int32), np.zeros(1, np.int32),
        )
        return self.executor.run(step, self.kv, self.states)
