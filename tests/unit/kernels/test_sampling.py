"""Native sampling against its numpy definition, published random vectors, and itself in other batches."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from headwater.kernels import native, sampling
from headwater.kernels import reference_sampling as reference

pytestmark = pytest.mark.skipif(not native.available(), reason="needs the native module")

BORDER = 1e-5      # float32 probabilities may fall on the other side of a border that is nearer


def draws_of(rows: list[reference.Row], vocabulary: int, n_logprobs: int = -1) -> sampling.Draws:
    draws = sampling.Draws.greedy(len(rows))
    for name in ("temperature", "top_k", "top_p", "min_p", "repetition", "presence", "frequency", "seed", "position"):
        getattr(draws, name)[:] = [getattr(r, name) for r in rows]
    draws.n_logprobs[:] = n_logprobs
    draws.counts = sampling.RaggedIds.of([r.counts for r in rows], np.int32, np.int32)
    draws.bias = sampling.RaggedIds.of([r.bias for r in rows], np.float32)
    draws.banned = sampling.RaggedIds.of([[(i,) for i in r.banned] for r in rows])
    masks = [r.allowed for r in rows if r.allowed is not None]
    if masks:
        padded = np.zeros((len(masks), -(-vocabulary // 32) * 32), bool)
        padded[:, :vocabulary] = masks
        draws.masks = np.packbits(padded, axis=1, bitorder="little").view(np.uint32)
        draws.mask_row[[r.allowed is not None for r in rows]] = np.arange(len(masks))
    return draws


@pytest.fixture(autouse=True)
def restore() -> Iterator[None]:
    threads, isa = native.library().threads(), native.library().isa()
    yield
    native.library().set_threads(threads)
    native.library().set_isa(isa)


@pytest.mark.parametrize(("counter", "key", "want"), [
    # known answers published with Random123
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    ((0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0), (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)),
])
def test_philox_gives_the_published_vectors(counter: tuple, key: tuple, want: tuple) -> None:
    assert tuple(native.library().philox4x32(*counter, *key)) == want
    assert reference.philox4x32(counter, key) == want


def test_uniforms_of_both_implementations_agree() -> None:
    for seed, position, stream in [(0, 0, 0), (2**64 - 1, 2**40 + 5, 3), (12345, 77, 0)]:
        assert native.library().uniform_at(seed, position, stream) == reference.uniform_at(seed, position, stream)


@st.composite
def row_strategy(draw: st.DrawFn, vocabulary: int) -> reference.Row:
    ids = st.integers(0, vocabulary - 1)
    allowed = None
    if draw(st.booleans()):
        allowed = np.random.default_rng(draw(st.integers(0, 99))).random(vocabulary) < draw(st.sampled_from([0.02, 0.5, 0.98]))
    return reference.Row(
        temperature=draw(st.sampled_from([0.0, 0.1, 0.7, 1.0, 2.5, 20.0])), top_k=draw(st.sampled_from([0, 1, 2, 40, 10**6])),
        top_p=draw(st.sampled_from([1.0, 0.95, 0.5, 1e-4])), min_p=draw(st.sampled_from([0.0, 0.05, 0.9])),
        repetition=draw(st.sampled_from([1.0, 1.3, 0.7])), presence=draw(st.sampled_from([0.0, 1.5])),
        frequency=draw(st.sampled_from([0.0, -0.5])), seed=draw(st.integers(0, 2**64 - 1)), position=draw(st.integers(0, 2**20)),
        counts=tuple((i, draw(st.integers(0, 2)), draw(st.integers(0, 3))) for i in draw(st.lists(ids, max_size=5, unique=True))),
        bias=tuple((i, draw(st.floats(-100, 100, width=32))) for i in draw(st.lists(ids, max_size=3, unique=True))),
        banned=tuple(draw(st.lists(ids, max_size=3, unique=True))), allowed=allowed)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_draws_equal_the_definition(data: st.DataObject) -> None:
    vocabulary = data.draw(st.sampled_from([1, 5, 32, 300, 1_000]))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    logits = (rng.normal(size=vocabulary) * data.draw(st.sampled_from([0.1, 3.0, 10.0]))).astype(np.float32)
    if data.draw(st.booleans()):
        logits = np.round(logits)                                   # many ties
    row = data.draw(row_strategy(vocabulary))
    want, margin = reference.draw(logits, row)
    assume(margin > BORDER)
    drawn = sampling.sample(logits[None], draws_of([row], vocabulary))
    assert drawn.tokens[0] == want
    assert (drawn.status[0] == sampling.SAMPLED) == (want >= 0)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_a_row_draws_the_same_alone_and_in_any_batch(data: st.DataObject) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    rows = [data.draw(row_strategy(777)) for _ in range(data.draw(st.integers(2, 5)))]
    logits = rng.normal(size=(len(rows), 777)).astype(np.float32) * 4
    native.library().set_threads(2)
    together = sampling.sample(logits, draws_of(rows, 777, 3))
    native.library().set_threads(1)
    for i, row in enumerate(rows):
        alone = sampling.sample(logits[i:i + 1], draws_of([row], 777, 3))
        for name in ("tokens", "status", "logprobs", "ranks", "top_ids", "top_logprobs"):
            np.testing.assert_array_equal(getattr(alone, name)[0], getattr(together, name)[i])


@pytest.mark.parametrize("isa", ["portable", "avx2", "avx512"])
def test_instruction_sets_draw_the_same_bits(isa: str) -> None:
    rng = np.random.default_rng(5)
    logits = rng.normal(size=(60, 5_003)).astype(np.float32) * 3
    rows = [reference.Row(temperature=0.8, top_p=[1.0, 0.9][i % 2], top_k=[0, 50, 0][i % 3], min_p=[0.0, 0.01][i % 2], seed=i) for i in range(60)]
    best, lse = sampling.sample(logits, draws_of(rows, 5_003, 20)), sampling.log_sum_exp(logits)
    try:
        native.library().set_isa(isa)
    except ValueError as missing:
        pytest.skip(str(missing))
    other = sampling.sample(logits, draws_of(rows, 5_003, 20))
    for name in ("tokens", "logprobs", "ranks", "top_ids", "top_logprobs"):
        np.testing.assert_array_equal(getattr(other, name), getattr(best, name))
    np.testing.assert_array_equal(sampling.log_sum_exp(logits), lse)


def test_drawn_frequencies_follow_the_distribution() -> None:
    logits = np.log(np.array([0.5, 0.25, 0.125, 0.0625, 0.0625], np.float32))
    draws = draws_of([reference.Row(temperature=1.0, seed=11, position=i) for i in range(20_000)], 5)
    counts = np.bincount(sampling.sample(np.broadcast_to(logits, (20_000, 5)), draws).tokens, minlength=5)
    expected = 20_000 * np.exp(logits.astype(np.float64))
    assert ((counts - expected) ** 2 / expected).sum() < 23.5        # chi-square, 4 degrees of freedom, p = 1e-4


def test_greedy_ties_go_to_the_lower_id() -> None:
    logits = np.zeros((1, 1_000), np.float32)
    logits[0, [77, 500, 998]] = 4
    assert sampling.sample(logits, sampling.Draws.greedy(1)).tokens[0] == 77


def test_a_bad_row_fails_alone() -> None:
    logits = np.random.default_rng(0).normal(size=(5, 999)).astype(np.float32)
    logits[1, 998], logits[2, 3], logits[3] = np.nan, np.inf, -np.inf
    drawn = sampling.sample(logits, sampling.Draws.greedy(5))
    assert drawn.status.tolist() == [sampling.SAMPLED, sampling.NOT_FINITE, sampling.NOT_FINITE, sampling.NOTHING_ALLOWED, sampling.SAMPLED]
    assert drawn.tokens[1:4].tolist() == [-1, -1, -1]
    assert drawn.tokens[[0, 4]].tolist() == logits[[0, 4]].argmax(1).tolist()
    assert np.isnan(sampling.log_sum_exp(logits)[[1, 2]]).all()


def test_logprobs_are_of_the_raw_logits() -> None:
    rng = np.random.default_rng(1)
    logits = rng.normal(size=(3, 49_152)).astype(np.float32) * 5
    row = reference.Row(temperature=0.7, top_k=5, repetition=1.5, counts=((3, 1, 0),), bias=((8, 100.0),), seed=4)
    drawn = sampling.sample(logits, draws_of([row] * 3, 49_152, 20))
    want = reference.log_softmax(logits)
    assert drawn.tokens.tolist() == [8, 8, 8]
    np.testing.assert_allclose(drawn.logprobs, want[np.arange(3), drawn.tokens], atol=2e-6)
    order = np.argsort(-logits, axis=1, kind="stable")[:, :20]
    np.testing.assert_array_equal(drawn.top_ids, order)
    np.testing.assert_allclose(drawn.top_logprobs, np.take_along_axis(want, order, 1), atol=2e-6)
    np.testing.assert_array_equal(drawn.ranks, 1 + (logits > logits[:, 8:9]).sum(1))


@pytest.mark.parametrize("k", [1, 7, 150, 1_000])
def test_top_ids_are_a_stable_sort(k: int) -> None:
    logits = np.round(np.random.default_rng(2).normal(size=(4, 1_000)) * 3).astype(np.float32)
    logits[3] = 0
    np.testing.assert_array_equal(sampling.top_ids(logits, k), np.argsort(-logits, axis=1, kind="stable")[:, :k])


def test_more_logprobs_than_the_vocabulary_has_leave_the_rest_empty() -> None:
    drawn = sampling.sample(np.array([[1, 3, 2]], np.float32), draws_of([reference.Row()], 3, 5))
    assert drawn.top_ids.tolist() == [[1, 2, 0, -1, -1]]


def test_log_softmax_at_given_ids() -> None:
    logits = np.random.default_rng(3).normal(size=(3, 1_234)).astype(np.float32) * 8
    ids = sampling.RaggedIds.of([[(5,), (1_233,)], [], [(0,)]])
    want = reference.log_softmax(logits)
    np.testing.assert_allclose(sampling.log_softmax_at(logits, ids), [want[0, 5], want[0, 1_233], want[2, 0]], atol=1e-6)


def test_an_id_outside_the_vocabulary_is_named() -> None:
    with pytest.raises(ValueError, match="bias names id 10, the vocabulary has 10"):
        sampling.sample(np.zeros((1, 10), np.float32), draws_of([reference.Row(bias=((10, 1.0),))], 10))


def test_without_the_native_module_the_definition_draws_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    logits = np.random.default_rng(9).normal(size=(6, 300)).astype(np.float32) * 4
    logits[5, 2] = np.nan
    allowed = np.arange(300) % 2 == 0
    rows = [reference.Row(temperature=0.9, top_p=0.9, seed=s, allowed=allowed if s % 2 else None, banned=(4,), bias=((1, 2.0),)) for s in range(6)]
    fast, top, lse = sampling.sample(logits, draws_of(rows, 300, 5)), sampling.top_ids(logits, 4), sampling.log_sum_exp(logits)
    monkeypatch.setattr(native, "available", lambda: False)
    slow = sampling.sample(logits, draws_of(rows, 300, 5))
    for name in ("tokens", "status", "ranks", "top_ids"):
        np.testing.assert_array_equal(getattr(slow, name), getattr(fast, name))
    np.testing.assert_allclose(slow.logprobs, fast.logprobs, atol=2e-6)
    np.testing.assert_array_equal(sampling.top_ids(logits, 4), top)
    np.testing.assert_allclose(sampling.log_sum_exp(logits), lse, atol=2e-6)
