"""The prefix index against a dictionary of tuples, and eviction order."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.core.executor import Caps
from headwater.core.kvspec import CacheGroup, KVSpec
from headwater.core.registry import build
from headwater.kv.manager import KVManager
from headwater.kv.prefix import common_prefix

SPEC = KVSpec((CacheGroup("full", 1, 1, 1),))


def manager(blocks: int = 64, evict: str = "lru", block: int = 4) -> KVManager:
    return KVManager(Caps(SPEC, (blocks,), 0, 4096, 1000, "m"), build("evict", evict), block=block)


def learn(kv: KVManager, ids: np.ndarray, now: float = 0.0, salt: str = "") -> int:
    """Compute and keep a prompt; how many of its tokens were known before. -1 when memory was short."""
    identity = kv.identity(salt)
    sums, keys = kv.keys(identity, ids)
    found = kv.match(identity, ids, keys, len(ids))
    m = found.start // kv.block
    start = kv.start(found, int(sums[m - 1]) if m else kv.index.seed(identity), len(ids), now)
    if start is None:
        return -1
    kv.finish(start.chain, ids, len(ids), now)
    kv.drop(start.chain, now)
    kv.unpin(now)
    return found.length


@given(st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=30), min_size=1, max_size=25), st.sampled_from(["", "x"]))
@settings(max_examples=150)
def test_the_index_finds_exactly_the_longest_known_prefix(prompts: list[list[int]], salt: str) -> None:
    kv, known = manager(2000), []
    for i, prompt in enumerate(prompts):
        ids = np.array(prompt, np.int32)
        longest = max((common_prefix(ids, old) for old in known), default=0)
        assert learn(kv, ids, float(i), salt) == longest
        known.append(ids)


def test_another_salt_or_producer_knows_nothing() -> None:
    kv = manager()
    ids = np.arange(20, dtype=np.int32)
    learn(kv, ids)
    assert learn(kv, ids, salt="other") == 0
    pruned = KVManager(kv.caps, kv.policy, "window:32")
    assert pruned.identity("") != kv.identity("")


def test_tokens_decide_and_not_the_hash() -> None:
    kv = manager()
    a, b = np.arange(8, dtype=np.int32), np.arange(100, 108, dtype=np.int32)
    learn(kv, a)
    identity = kv.identity("")
    _, keys = kv.keys(identity, a)
    assert kv.match(identity, b, keys, 8).length == 0               # the keys of a, as if the hashes of b collided with them


def test_a_taken_hash_keeps_a_history_private_and_harms_nobody() -> None:
    kv = manager()
    a, b = np.arange(8, dtype=np.int32), np.arange(100, 108, dtype=np.int32)
    learn(kv, a)
    kv.index.sums = lambda seed, first, ids, real=kv.index.sums: real(seed, first, a[: len(ids)])  # every history hashes like a
    assert learn(kv, b) == 0
    assert learn(kv, a) == 8
    assert kv.nodes.n_free + kv.nodes.n_cached == kv.nodes.total


@pytest.mark.parametrize("evict", ["lru", "slru", "lfu", "demand"])
def test_a_parent_never_leaves_before_its_child(evict: str) -> None:
    kv = manager(32, evict)
    rng = np.random.default_rng(0)
    for i in range(300):
        head = np.full(int(rng.integers(1, 9)), int(rng.integers(3)), np.int32)
        learn(kv, np.concatenate([head, rng.integers(0, 3, int(rng.integers(1, 40))).astype(np.int32)]), float(i))
        children = np.flatnonzero(kv.nodes.live & (kv.nodes.parent >= 0))
        assert kv.nodes.live[kv.nodes.parent[children]].all()
        assert kv.nodes.n_free + kv.nodes.n_cached == 32


def test_lru_forgets_the_prefix_that_was_read_longest_ago() -> None:
    kv = manager(8)
    a, b, c = (np.full(12, x, np.int32) for x in (1, 2, 3))
    learn(kv, a, 1.0)
    learn(kv, b, 2.0)
    learn(kv, a, 3.0)
    learn(kv, c, 4.0)
    assert learn(kv, a, 5.0) == 12
    assert learn(kv, b, 6.0) < 12


def test_memory_that_is_too_small_for_a_prompt_changes_nothing() -> None:
    kv = manager(8)
    learn(kv, np.arange(16, dtype=np.int32))
    assert learn(kv, np.arange(100, 200, dtype=np.int32)) == -1
    assert learn(kv, np.arange(16, dtype=np.int32)) == 16


def test_names_of_tenants_without_blocks_are_forgotten() -> None:
    kv = manager(8)
    for i in range(4500):
        learn(kv, np.array([1, 2, 3]), float(i), salt=f"tenant {i}")
    assert len(kv.index._roots) < 4200
