"""Our two executors as functions from a sequence to logits: the native one and the numpy definition, each with a fresh cache."""

from __future__ import annotations

import numpy as np

from headwater.kernels import native, reference
from headwater.kernels.lower import NativeProgram
from headwater.kernels.program import BLOCK_TOKENS, Step
from headwater.kernels.reference import ReferenceProgram
from headwater.model.load.loader import Model
from headwater.worker.kvpool import KVPool


def hidden_rows(model: Model, program: NativeProgram | ReferenceProgram, ids: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """float32[positions, dim]: one row, one step, read at `positions`."""
    blocks = -(-len(ids) // BLOCK_TOKENS)
    pool = KVPool(model.kvspec, (blocks,) * len(model.kvspec.groups), 1)
    step = Step(
        np.asarray(ids, np.int32), np.arange(len(ids), dtype=np.int32), np.array([0, len(ids)], np.int32), np.asarray(positions, np.int32),
        [np.arange(blocks, dtype=np.int32)[None] for _ in model.kvspec.groups], np.array([-1], np.int32), np.array([0], np.int32),
    )
    return program.run(step, pool.kv, pool.state if model.kvspec.states else None)


def native_logits(model: Model, ids: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """float32[positions, vocabulary] by the native kernels."""
    assert model.program.head is not None
    return native.logits(hidden_rows(model, NativeProgram(model.program), ids, positions), model.program.head)


def numpy_logits(model: Model, ids: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """float32[positions, vocabulary] by the definitions, with dequantised float32 weights."""
    assert model.program.head is not None
    return reference.logits(hidden_rows(model, ReferenceProgram(model.program), ids, positions), model.program.head)
