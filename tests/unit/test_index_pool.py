"""Slots of indices: shared by rows that share the block, rebuilt when lost, dropped when a block gets other contents, never short of an answer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from headwater.core.kvspec import CacheGroup
from headwater.kernels import native
from headwater.kernels.program import Step
from headwater.kernels.select import WAVE, SelectSpec
from headwater.worker.index_pool import IndexPool, index_slots
from headwater.worker.inputs import drop_rows

SPEC = SelectSpec(WAVE, sinks=4, local=16, segment=256, iterations=2, retrieve=0.1, estimate=0.2)
GROUP = CacheGroup("full", 2, 1, 32)


def pool(blocks: int = 64, context: int = 700) -> IndexPool:
    return IndexPool(SPEC, 0, GROUP, blocks, context)


def step(rows: list[tuple[int, int, np.ndarray]], border: int = 0) -> Step:
    """Rows of (first position, tokens, blocks)."""
    positions = np.concatenate([np.arange(a, a + n, dtype=np.int32) for a, n, _ in rows])
    start = np.cumsum([0, *(n for _, n, _ in rows)]).astype(np.int32)
    width = max(len(b) for _, _, b in rows)
    table = np.full((len(rows), width), -1, np.int32)
    for r, (_, _, blocks) in enumerate(rows):
        table[r, : len(blocks)] = blocks
    n = len(positions)
    return Step(np.zeros(n, np.int32), positions, start, np.arange(n, dtype=np.int32), [table], border=np.full(len(rows), border, np.int32))


def test_a_segment_is_built_once_for_all_rows_that_share_its_last_block() -> None:
    p = pool()
    trunk = np.arange(16, dtype=np.int32)
    rows = [(300, 1, np.append(trunk, [20 + 3 * r, 21 + 3 * r, 22 + 3 * r]).astype(np.int32)) for r in range(3)]
    plan = p.plan(step(rows))
    assert plan is not None and plan.builds.tolist() == [[0, 0, plan.table[0, 0]]]
    assert (plan.table == plan.table[0, 0]).all()
    again = p.plan(step(rows))
    assert again is not None and len(again.builds) == 0 and np.array_equal(again.table, plan.table)


def test_a_step_that_completes_a_segment_builds_it_at_once() -> None:
    p = pool()
    blocks = np.arange(20, dtype=np.int32)
    assert len(p.plan(step([(0, 250, blocks)], border=10_000)).builds) == 0
    assert p.plan(step([(250, 10, blocks)], border=10_000)).builds[:, :2].tolist() == [[0, 0]]
    assert len(p.plan(step([(300, 1, blocks)])).builds) == 0


def test_a_block_with_other_contents_loses_its_index() -> None:
    p = pool()
    blocks = np.arange(20, dtype=np.int32)
    p.plan(step([(300, 1, blocks)]))
    p.forget(np.array([15], np.int32))                              # the block that ends the segment was copied over
    assert len(p.plan(step([(300, 1, blocks)])).builds) == 1
    p.plan(step([(250, 2, blocks)], border=10_000))                 # written again by a step, as after a refused guess
    assert len(p.plan(step([(300, 1, blocks)])).builds) == 1


def test_slots_go_to_who_needs_them_and_lost_ones_are_built_again() -> None:
    p = pool(blocks=40, context=300)
    assert p.index.shape[1] == index_slots(SPEC, 40, 300) == 2
    rows = [(300, 1, (np.arange(19) + 19 * r).astype(np.int32)) for r in range(2)]
    third = [(300, 1, np.arange(39, 20, -1).astype(np.int32))]
    assert len(p.plan(step(rows)).builds) == 2
    assert len(p.plan(step(third)).builds) == 1                     # takes the slot used longest ago
    assert len(p.plan(step(rows)).builds) >= 1


def test_more_segments_than_slots_are_refused_as_one_step_and_fit_in_pieces() -> None:
    p = pool(blocks=64, context=300)
    rows = [(300, 1, np.append(np.arange(15), [15 + 4 * r, 16 + 4 * r, 17 + 4 * r, 18 + 4 * r]).astype(np.int32)) for r in range(6)]
    whole = step(rows)
    assert p.plan(whole) is None
    half = drop_rows(whole, np.arange(3, 6))
    assert len(half.row_start) == 4 and len(half.reads) == 3 and len(half.border) == 3
    assert p.plan(half) is not None


@pytest.mark.slow
def test_rows_that_cannot_all_be_indexed_at_once_get_the_same_answers(smollm2: Path) -> None:
    if not native.available():
        pytest.skip("the numpy reference is too slow for this")
    from headwater.model.load.loader import load_model
    from headwater.worker.model_forward import ModelForward

    model = load_model(smollm2)
    outs = []
    trunk = np.random.default_rng(0).integers(0, 49152, 255).astype(np.int32)
    for slots in (None, 1):
        forward = ModelForward(model.program, model.kvspec, (64,), 0, context=300, identity="", step_tokens=512, vocabulary=49152, select=SPEC)
        tables = np.arange(60, dtype=np.int32).reshape(3, 20)
        for r in range(3):                                          # three rows of their own blocks, 256 + 30 tokens each
            ids = np.concatenate([trunk, np.arange(100 * r, 100 * r + 31, dtype=np.int32)])
            n = len(ids)
            positions = np.arange(n, dtype=np.int32)
            start, nothing = np.array([0, n], np.int32), np.zeros(0, np.int32)
            forward.hidden(Step(ids, positions, start, nothing, [tables[r : r + 1]], border=np.array([n], np.int32)))
        if slots is not None:
            forward.index = IndexPool(SPEC, 0, model.kvspec.groups[0], 64, 200)
            forward.index._used, forward.index._block_of = np.zeros(1, np.int64), np.full(1, -1, np.int32)
        outs.append(forward.hidden(Step(np.array([5, 6, 7], np.int32), np.full(3, 286, np.int32), np.arange(4, dtype=np.int32),
                                        np.arange(3, dtype=np.int32), [tables], border=np.full(3, 286, np.int32))).copy())
    assert np.array_equal(*outs)
