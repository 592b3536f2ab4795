"""Seq: one request on its way through the scheduler."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np

from headwater.core.request import ReadResult, Request
from headwater.kv.chain import Chain


class Stage(IntEnum):
    """Where a sequence is. HELD: finished, kept as a fork point; GONE: out of the scheduler."""

    WAITING = 0
    RUNNING = 1
    HELD = 2
    GONE = 3


@dataclass(slots=True, eq=False)
class Seq:
    """row: table row while running, queue row while waiting. known: int32 tokens it should have (up to date only while not running).

    drawn: tokens yielded. reached: most tokens whose state was ever valid, up to the last time it left a row. cached (-1 until first admitted),
    computed: prompt tokens found and computed; counted: their sum so far. queued: seconds until first admitted.
    source, source_pos: explicit parent and fork position. blocked,
    blocked_pos: waits until that row's state reaches the position. sums, keys: hash sums (uint64) and keys of the prompt's full blocks;
    pending: keys announced as being computed. borders: ascending positions at which a checkpoint is wanted. reads: parts collected so far;
    reads_open: something is still to be read. losses: executor deaths while it ran. doomed: ends at the next step border; keep: published then.
    """

    request: Request
    order: int
    identity: str
    owner: int
    known: np.ndarray
    stage: Stage = Stage.WAITING
    row: int = -1
    chain: Chain | None = None
    drawn: int = 0
    reached: int = 0
    counted: int = 0
    source: Seq | None = None
    source_pos: int = 0
    blocked: Seq | None = None
    blocked_pos: int = 0
    sums: np.ndarray | None = None
    keys: list[int] = field(default_factory=list)
    pending: list[int] = field(default_factory=list)
    borders: list[int] = field(default_factory=list)
    reads: ReadResult | None = None
    reads_open: bool = False
    cached: int = -1
    computed: int = 0
    queued: float = 0.0
    losses: int = 0
    ready: bool = True
    doomed: bool = False
    keep: bool = True

    @property
    def prompt_len(self) -> int:
        return len(self.request.prompt)

    @property
    def cap(self) -> int:
        """How many known tokens may come from the cache: all but the last, which is computed for its logits, and none that is scored."""
        spec, cap = self.request.reads, len(self.known) - 1
        if self.reads_open and spec.score_from is not None:
            cap = min(cap, max(spec.score_from - 1, 0))
        if self.reads_open and spec.hidden == "all":
            cap = 0
        return cap

    def wants_read(self, end: int) -> bool:
        """Whether a chunk that ends before position `end` computes something that its ReadSpec asks for. Computed position q scores token q + 1."""
        spec = self.request.reads
        if not self.reads_open:
            return False
        return end >= self.prompt_len or spec.hidden == "all" or (spec.score_from is not None and end >= spec.score_from)
