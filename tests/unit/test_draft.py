"""Drafters and the guesser: histories against their definition, acceptance that decides how much is guessed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.core.registry import residents
from headwater.kernels import native
from headwater.kernels.history import ReferenceHistory, TokenHistory
from headwater.policies.draft.ngram import NgramDraft
from headwater.policies.draft.suffix import SuffixDraft

ids = st.lists(st.integers(0, 3), min_size=0, max_size=60)


def i32(x) -> np.ndarray:
    return np.array(x, np.int32)


@pytest.mark.skipif(not native.available(), reason="needs the native module")
@given(st.lists(ids, min_size=1, max_size=8), ids)
def test_the_native_history_finds_what_its_definition_finds(sequences, tail) -> None:
    fast, slow = TokenHistory(100), ReferenceHistory(100)
    for s in sequences:
        for h in (fast, slow):
            h.begin()
            h.extend(i32(s))
    out = np.empty(9, np.int32)
    match, n = slow.find(i32(tail)[-64:], out)
    got, got_match = fast.find(i32(tail), 9)
    assert (got_match, got.tolist()) == (match, out[:n].tolist())
    assert fast.size == slow.size


def test_a_history_keeps_the_newest_tokens_and_forgets_the_oldest() -> None:
    h = TokenHistory(64)
    h.extend(np.arange(1000, 1010, dtype=np.int32))
    assert h.find(i32([1001, 1002, 1003]), 2)[0].tolist() == [1004, 1005]
    h.extend(np.arange(200, dtype=np.int32))
    assert h.size == 64 and not len(h.find(i32([1001, 1002, 1003]), 2)[0])
    assert h.find(i32([150, 151, 152]), 3)[0].tolist() == [153, 154, 155]


def test_ten_million_tokens_of_history_take_at_most_24_bytes_each() -> None:
    assert TokenHistory(10_000_000).bytes / 10_000_000 <= 24


@pytest.mark.slow
@pytest.mark.skipif(not native.available(), reason="needs the native module")
def test_a_history_of_ten_million_tokens_stays_within_its_bytes_while_the_oldest_leave() -> None:
    h = TokenHistory(10_000_000)
    rng = np.random.default_rng(3)
    empty, kept, outputs = h.bytes, h.size, [rng.integers(0, 30_000, 1000).astype(np.int32) for _ in range(2000)]
    for i in range(36_000):                                         # twice what the ring holds; every output is marked with its number
        h.begin()
        h.extend(np.concatenate([[40_000 + i % 18_000, 60_000 + i // 18_000, 59_999], outputs[i % 2000]]).astype(np.int32))
    assert h.bytes == empty <= 24 * 10_000_000 and h.size >= 10_000_000 > kept
    newest, oldest = ([40_000 + i % 18_000, 60_000 + i // 18_000, 59_999] for i in (35_999, 0))
    assert h.find(i32(newest), 5)[0].tolist() == outputs[35_999 % 2000][:5].tolist()
    assert not len(h.find(i32(oldest), 5)[0])


def test_the_tenant_whose_history_was_used_longest_ago_leaves() -> None:
    d = SuffixDraft(tenants=2)
    for row, salt in enumerate(["a", "b", "a", "c"]):
        d.begin(row, i32([1]), salt)
        d.extend(row, i32([10, 11, 12, 13]))
        d.end(row)
    kept = []
    for row, salt in enumerate("abc", 10):
        d.begin(row, i32([9, 10, 11, 12]), salt)
        kept.append(d.propose(row, 2).ids.tolist())
    assert kept == [[13], [], [13]]


def test_no_match_crosses_from_one_output_into_the_next() -> None:
    h = TokenHistory(100)
    h.extend(i32([1, 2, 3]))
    h.begin()
    h.extend(i32([4, 5, 6]))
    assert not len(h.find(i32([1, 2, 3]), 4)[0]) and not len(h.find(i32([3, 4, 5]), 4)[0])


@pytest.mark.parametrize("name", ["ngram", "suffix"])
def test_a_drafter_copies_what_followed_the_same_words_before(name) -> None:
    d = residents("draft")[name]()
    d.begin(1, i32([5, 6, 7, 8, 9, 1, 5, 6, 7]), "")
    assert d.propose(1, 3).ids.tolist()[:2] == [8, 9]
    d.extend(1, i32([8]))
    assert d.propose(1, 2).ids.tolist()[:1] == [9]
    d.end(1)


def test_a_new_row_finds_nothing_to_copy_in_fresh_text() -> None:
    for d in (NgramDraft(), SuffixDraft()):
        d.begin(1, np.arange(50, dtype=np.int32), "")
        assert not len(d.propose(1, 5).ids)


def test_past_outputs_serve_their_own_tenant_and_no_other() -> None:
    d = SuffixDraft()
    d.begin(1, i32([1, 2]), "a")
    d.extend(1, i32([10, 11, 12, 13, 14]))
    d.end(1)
    for row, salt, want in ((2, "a", [13, 14]), (3, "b", [])):
        d.begin(row, i32([9, 10, 11, 12]), salt)
        assert d.propose(row, 2).ids.tolist() == want
