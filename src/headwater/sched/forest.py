"""Forks: who waits for whose state, where checkpoints are wanted, which finished rows are held."""

from __future__ import annotations

from bisect import insort

from headwater.kv.manager import KVManager, Source
from headwater.kv.prefix import common_prefix
from headwater.sched.seq import Seq, Stage
from headwater.sched.table import Rows

CHECKPOINT_EVERY = 1024           # tokens


class Forest:
    """Mechanism of forks. A child never blocks its parent; it waits for state that is being computed if that saves at least `share` tokens."""

    def __init__(self, kv: KVManager, rows: Rows) -> None:
        self.kv, self.rows = kv, rows
        self.held: dict[str, Seq] = {}
        self.pending: dict[int, Seq] = {}                           # key of a block that a running row will compute -> that row
        self.share = kv.block

    def adopt(self, child: Seq, parent: Seq | None) -> None:
        """Tie a new request to its explicit parent; another tenant's or an unknown parent is no parent (the prefix index may still help)."""
        if parent is None or parent is child or parent.identity != child.identity:
            return
        child.source, child.source_pos = parent, min(child.request.parent_pos, child.cap)
        self.want_point(parent, child.source_pos)

    def want_point(self, seq: Seq, pos: int) -> None:
        """Ask for a checkpoint at a position that the row has not passed yet."""
        if not self.kv.can_cut and pos > 0 and pos not in seq.borders and seq.stage in (Stage.WAITING, Stage.RUNNING):
            insort(seq.borders, pos)

    def next_border(self, seq: Seq, done: int, end: int) -> int:
        """Where a chunk from `done` must stop so that a checkpoint can be made: at most `end`; `end` itself when no border lies between."""
        if self.kv.can_cut:
            return end
        border = min((b for b in seq.borders if b > done), default=end)
        return min(end, border, (done // CHECKPOINT_EVERY + 1) * CHECKPOINT_EVERY)

    def is_border(self, seq: Seq, pos: int) -> bool:
        return not self.kv.can_cut and (pos % CHECKPOINT_EVERY == 0 or pos in seq.borders)

    def reached(self, seq: Seq) -> int:
        """Most tokens of a sequence whose state was ever valid."""
        return int(self.rows.reached[seq.row]) if seq.stage == Stage.RUNNING else seq.reached

    def blocked(self, seq: Seq) -> bool:
        """Whether it still waits for its parent or for a row that computes the same tokens."""
        parent = seq.source
        if parent is not None:
            if parent.stage in (Stage.WAITING, Stage.RUNNING) and self.reached(parent) < seq.source_pos:
                return True
            if parent.stage == Stage.GONE:
                seq.source = None
        other = seq.blocked
        if other is not None:
            if other.stage == Stage.RUNNING and self.reached(other) < seq.blocked_pos:
                return True
            if other.stage != Stage.RUNNING:
                seq.blocked = None
        return False

    def source(self, seq: Seq) -> Source | None:
        """A running row whose unpublished block may continue what the index knows."""
        for other in (seq.source, seq.blocked):
            if other is not None and other.stage == Stage.RUNNING and self.rows.settled[other.row] and other.chain is not None:
                return other.chain, self.rows.tokens[other.row, : self._lendable(other, int(self.rows.done[other.row]))]
        return None

    def _lendable(self, seq: Seq, tokens: int) -> int:
        """How many of its first tokens others may start from: all, but under a selective policy nothing that it generated."""
        if self.kv.caps.private:
            return 0
        return min(tokens, seq.prompt_len) if self.kv.caps.attend else tokens

    def wait_for(self, seq: Seq, length: int, cap: int) -> bool:
        """Block `seq`, of which the cache knows `length` tokens, on a running row that will soon know more of it. True when blocked."""
        m = length // self.kv.block
        other = self.pending.get(seq.keys[m]) if m < len(seq.keys) else None
        if other is None or other is seq or other.stage != Stage.RUNNING or other.identity != seq.identity:
            return False
        shared = common_prefix(seq.known[:cap], self.rows.tokens[other.row, : self._lendable(other, int(self.rows.known[other.row]))])
        if shared - length < self.share or self.reached(other) >= shared:
            return False
        seq.blocked, seq.blocked_pos = other, shared
        self.want_point(other, shared)
        return True

    def announce(self, seq: Seq, done: int) -> None:
        """The row will compute these blocks: others may wait for them."""
        seq.pending = seq.keys[done // self.kv.block :]
        for key in seq.pending:
            self.pending.setdefault(key, seq)

    def settle(self, seq: Seq, keys: list[int]) -> None:
        """Blocks with these keys are published."""
        if seq.pending:
            for key in keys:
                if self.pending.get(key) is seq:
                    del self.pending[key]

    def retract(self, seq: Seq) -> None:
        """The row computes nothing any more."""
        self.settle(seq, seq.pending)
        seq.pending = []

    def clear(self) -> None:
        self.pending.clear()


