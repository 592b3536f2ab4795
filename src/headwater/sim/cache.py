"""Replay of a trace's prompts through the prefix index alone: hit rates by memory size and eviction rule, without time or decoding."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headwater.core.executor import Caps
from headwater.core.kvspec import CacheGroup, KVSpec
from headwater.core.registry import build
from headwater.kv.manager import KVManager
from headwater.sim.traces import Trace

_VOCABULARY = 2**31 - 1
_AHEAD = 64                       # arrivals that a policy which uses demand may see, as the scheduler's queue would show them


@dataclass(frozen=True, slots=True)
class CacheResult:
    """blocks: prompt blocks asked for; hits: found; tokens, hit_tokens: the same in tokens; memory: blocks of the cache (0 = unlimited)."""

    evict: str
    memory: int
    blocks: int
    hits: int
    tokens: int
    hit_tokens: int
    evicted: int

    @property
    def rate(self) -> float:
        return self.hits / max(self.blocks, 1)


def replay(trace: Trace, memory: int = 0, evict: str = "lru") -> CacheResult:
    """Each request looks up its prompt blocks (one per hash id, whole blocks), computes the missing ones and leaves them cached.

    memory: blocks of `trace.hash_block` tokens, 0 = enough for all. A request longer than the memory keeps what fits from its start.
    """
    if trace.blocks is None:
        raise ValueError("the trace has no hash ids")
    ids = trace.blocks
    block = 4                                                       # ids per node: a hash id stands for its block's content in four numbers
    most = int(np.diff(ids.start).max())
    total = memory or len(np.unique(ids.flat)) + 1
    caps = Caps(KVSpec((CacheGroup("full", 1, 1, 1),)), (total,), 0, block * most, _VOCABULARY, "replay")
    kv = KVManager(caps, build("evict", evict), block=block)
    upcoming: list[np.ndarray] = []
    kv.wanted = lambda: upcoming
    identity = kv.identity("")
    blocks = hits = tokens = hit_tokens = 0
    for i, now in enumerate(trace.time.tolist()):
        row = ids.row(i)[:total]
        prompt = np.repeat(row, block)
        sums, keys = kv.keys(identity, prompt)
        found = kv.match(identity, prompt, keys, len(prompt))
        if kv.policy.uses_wanted and kv.room - kv.nodes.n_cached < len(row):
            upcoming[:] = [_peek(kv, identity, np.repeat(ids.row(j), block)) for j in range(i + 1, min(i + 1 + _AHEAD, len(trace)))]
        n, known = len(ids.row(i)), len(found.path)
        blocks, hits = blocks + n, hits + known
        tokens, hit_tokens = tokens + int(trace.prompt[i]), hit_tokens + min(known * trace.hash_block, int(trace.prompt[i]))
        start = kv.start(found, int(sums[known - 1]) if known else kv.index.seed(identity), len(prompt), now)
        if start is not None:
            kv.finish(start.chain, prompt, len(prompt), now)
            kv.drop(start.chain, now)
            kv.unpin(now)
    return CacheResult(evict, memory, blocks, hits, tokens, hit_tokens, kv.evicted)


def _peek(kv: KVManager, identity: str, prompt: np.ndarray) -> np.ndarray:
    return kv.match(identity, prompt, kv.keys(identity, prompt)[1], len(prompt)).path


def distinct_blocks(trace: Trace) -> int:
    """How many different hash ids the trace has."""
    return 0 if trace.blocks is None else len(np.unique(trace.blocks.flat))


def curve(trace: Trace, rules: list[str], shares: list[float]) -> dict[str, list[CacheResult]]:
    """Hit rate of each rule for memories of `shares` of the distinct blocks of the trace."""
    distinct = distinct_blocks(trace)
    return {rule: [replay(trace, max(int(share * distinct), 1), rule) for share in shares] for rule in rules}
