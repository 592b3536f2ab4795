"""Board: everything the scheduler knows, and the life of a row (enter, step aside, end). Planner and settler work on it."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np

from headwater.core.executor import Caps, CostModel
from headwater.core.plan import StepFeatures, Want
from headwater.core.request import FinishReason, Output, ReadResult
from headwater.kv.chain import Chain
from headwater.kv.manager import KVManager
from headwater.policies.sched.api import LoadView, SchedPolicy
from headwater.sched.forest import Forest
from headwater.sched.seq import Seq, Stage
from headwater.sched.table import Rows, Table

OWNERS = 1 << 16                  # codes of owners; bounded, since clients choose the names
NO_IDS = np.zeros(0, np.int32)


@dataclass(slots=True)
class Counters:
    """Totals since the start. Tokens: computed (prompt tokens, first time), cached (prompt tokens found), recomputed (after a preemption or a
    lost executor), drawn. Requests: arrived, refused, finished, cancelled, failed, preempted. waited: blocked on a prefix in flight."""

    steps: int = 0
    computed: int = 0
    cached: int = 0
    recomputed: int = 0
    drawn: int = 0
    arrived: int = 0
    refused: int = 0
    finished: int = 0
    cancelled: int = 0
    failed: int = 0
    preempted: int = 0
    waited: int = 0
    forks: int = 0
    quarantines: int = 0


class Board:
    def __init__(self, caps: Caps, policy: SchedPolicy, kv: KVManager, cost: CostModel | None) -> None:
        self.caps, self.policy, self.kv, self.cost = caps, policy, kv, cost
        self.rows = Rows()
        self.queue = Table()
        self.forest = Forest(kv, self.rows)
        self.seqs: dict[str, Seq] = {}
        self.outbox: list[Output] = []
        self.leaves: list[int] = []
        self.trims: dict[int, list[tuple[int, int]]] = {}           # row -> (cache group, block index) to report with the next plan
        self.count = Counters()
        self.changed = True                                         # somebody in the queue might be admitted now who could not before
        self.arrivals = 0

    # ---- what policies see ------------------------------------------------------------------------------------------------------

    def load(self) -> LoadView:
        rows = self.rows
        decoding = int(np.count_nonzero(rows.alive & (rows.known - rows.done <= 1)))
        tokens = int(self.queue.known[self.queue.alive].sum()) if self.queue.count else 0
        n = min(self.policy.tokens, self.caps.max_step_tokens)
        rate = n / max(self.cost.step_seconds(StepFeatures(n, 1, 1, n * n // 2, 0, n)), 1e-9) if self.cost else 1000.0
        return LoadView(self.queue.count, rows.count, decoding, tokens, self.kv.room / max(self.kv.nodes.total, 1), rate)

    @staticmethod
    def owner(name: str) -> int:
        """Code of an owner in policies' columns; two of very many owners may share one."""
        return zlib.crc32(name.encode()) % OWNERS

    # ---- outputs ----------------------------------------------------------------------------------------------------------------

    def say(self, seq: Seq, finish: FinishReason, *, error: str | None = None, retry_after: float | None = None) -> None:
        """Queue an output that no step brought."""
        self.outbox.append(self.output(seq, NO_IDS, finish=finish, error=error, retry_after=retry_after))

    @staticmethod
    def output(seq: Seq, ids: np.ndarray, *, finish: FinishReason | None = None, stop_id: int | None = None, error: str | None = None,
               retry_after: float | None = None, reads: ReadResult | None = None) -> Output:
        return Output(seq.request.request_id, ids, None, reads, finish, stop_id, error, retry_after, max(seq.cached, 0), seq.computed, seq.queued)

    # ---- the life of a row ------------------------------------------------------------------------------------------------------

    def enqueue(self, seq: Seq) -> None:
        seq.stage = Stage.WAITING
        seq.blocked = None
        self.queue.add(seq)
        self.changed = True

    def enter(self, seq: Seq, chain: Chain, start: int, now: float) -> int:
        """A waiting request becomes a running row whose first `start` tokens have state."""
        self.queue.remove(seq.row)
        row = self.rows.add(seq)
        seq.stage, seq.chain = Stage.RUNNING, chain
        self.rows.done[row] = start
        self.rows.room[row] = chain.n * self.kv.block
        self.rows.published[row] = chain.published * self.kv.block
        draws = seq.request.max_new > 0
        self.rows.want[row] = (Want.SAMPLE | (Want.MASK if seq.request.mask else Want.NONE)) if draws else Want.NONE
        if seq.cached < 0:
            seq.cached = seq.counted = min(start, seq.prompt_len)
            seq.queued = max(now - seq.request.arrival, 0.0)
            self.count.cached += seq.cached
            self.count.forks += start > 0
        self.rows.reached[row] = max(seq.reached, start)
        self.forest.announce(seq, start)
        return row

    def shared(self, seq: Seq, done: int) -> int:
        """How many of `done` tokens may serve others: a generated token that read only part of the cache wrote what is its row's own."""
        if self.caps.private:
            return 0
        return min(done, seq.prompt_len) if self.caps.attend else done

    def commit_all(self, idx: np.ndarray, now: float) -> None:
        """Publish the blocks that became full in these rows, and free what no query reads any more."""
        rows, block = self.rows, self.kv.block
        one: list[tuple[Seq, Chain]] = []                           # the usual decode: one full block, published together
        for row, done in zip(idx.tolist(), rows.done[idx].tolist(), strict=True):
            seq = rows.at(row)
            chain = seq.chain
            assert chain is not None
            if self.shared(seq, done) < done:
                self.forest.settle(seq, self.kv.commit(chain, rows.tokens[row], self.shared(seq, done)))
            elif not chain.private and not seq.pending and done // block == chain.published + 1:
                one.append((seq, chain))
            else:
                self.forest.settle(seq, self.kv.commit(chain, rows.tokens[row], done))
                if chain.published >= len(seq.keys):
                    seq.pending = []
        if one:
            at = np.array([c.published for _, c in one])[:, None] * block + np.arange(block)
            self.kv.commit_next([c for _, c in one], rows.tokens[np.array([s.row for s, _ in one])[:, None], at])
        rows.published[idx] = rows.done[idx] // block * block
        if not self.kv.can_cut:
            for row in idx.tolist():
                chain = rows.at(row).chain
                assert chain is not None
                gone = self.kv.trim(chain, int(rows.done[row]))
                if gone:
                    self.trims.setdefault(row, []).extend(gone)

    def leave(self, seq: Seq, now: float, *, publish: bool, hold: bool = False) -> None:
        """A running row gives up its seat: state stays cached (`publish`), pinned as a fork point (`hold`), or is dropped."""
        row, chain = seq.row, seq.chain
        assert chain is not None and seq.stage == Stage.RUNNING
        done, known = int(self.rows.done[row]), int(self.rows.known[row])
        seq.known = self.rows.tokens[row, :known].copy()
        if publish or hold:
            self.kv.finish(chain, seq.known, self.shared(seq, done), now)
        self.forest.retract(seq)
        if hold:
            self.kv.hold(chain, 1)
        else:
            self.kv.drop(chain, now)
            seq.chain = None
        seq.reached = int(self.rows.reached[row])
        self.rows.remove(row)
        self.leaves.append(row)
        self.trims.pop(row, None)
        self.changed = True
        seq.row = -1

    def preempt(self, seq: Seq, now: float) -> None:
        """Give the row's blocks back; it waits and recomputes what is gone by then."""
        self.leave(seq, now, publish=True)
        self.count.preempted += 1
        self._again(seq)

    def _again(self, seq: Seq) -> None:
        seq.reads = None if seq.reads_open else seq.reads
        seq.sums, seq.keys = None, []
        self.enqueue(seq)

    def end(self, seq: Seq, now: float, *, publish: bool = True, hold: bool = False) -> None:
        """The request is over, whatever its stage."""
        if seq.stage == Stage.RUNNING:
            self.leave(seq, now, publish=publish, hold=hold)
        elif seq.stage == Stage.WAITING:
            self.queue.remove(seq.row)
        elif seq.stage == Stage.HELD:
            self.release(seq, now)
            return
        seq.row = -1
        if hold and seq.chain is not None:
            seq.stage = Stage.HELD
            self.forest.held[seq.request.request_id] = seq
            return
        seq.stage = Stage.GONE
        self._forget(seq)

    def release(self, seq: Seq, now: float) -> None:
        """A held fork point is no longer needed; what it kept stays cached until evicted."""
        self.forest.held.pop(seq.request.request_id, None)
        if seq.chain is not None:
            self.kv.hold(seq.chain, -1)
            self.kv.drop(seq.chain, now)
            seq.chain = None
        seq.stage = Stage.GONE
        self._forget(seq)

    def _forget(self, seq: Seq) -> None:
        self.changed = True
        if self.seqs.get(seq.request.request_id) is seq:
            del self.seqs[seq.request.request_id]
        seq.source = seq.blocked = None

    def fail(self, seq: Seq, reason: str, now: float, retry_after: float | None = None) -> None:
        """End a request with an error of its own."""
        self.count.failed += 1
        self.say(seq, "error", error=reason, retry_after=retry_after)
        self.end(seq, now, publish=False)

    def lose_all(self, reason: str, now: float, most: int) -> None:
        """Every state is gone: rows wait again, those that were running in `most` losses fail; held states are recomputed by their forks."""
        for row in self.rows.index().tolist():
            seq = self.rows.at(row)
            seq.known = self.rows.tokens[row, : self.rows.known[row]].copy()
            self.rows.remove(row)
            seq.chain, seq.row, seq.pending, seq.reached = None, -1, [], 0
            seq.losses += 1
            if seq.losses >= most or seq.doomed:
                seq.stage = Stage.GONE
                self._forget(seq)
                self.count.failed += 1
                self.say(seq, "error", error=f"{reason} ({seq.losses} times while this request was running)")
            else:
                self._again(seq)
        self._unhold()
        self.leaves.clear()

    def fail_all(self, reason: str) -> None:
        """An invariant broke: no state can be trusted; every running row fails, waiting requests stay."""
        for row in self.rows.index().tolist():
            seq = self.rows.at(row)
            self.rows.remove(row)
            self.leaves.append(row)
            self.count.failed += 1
            seq.stage, seq.chain, seq.row, seq.pending = Stage.GONE, None, -1, []
            self.say(seq, "error", error=reason)
            self._forget(seq)
        self._unhold()

    def _unhold(self) -> None:
        """Held states lost their blocks; they stay as names, their forks recompute."""
        for seq in self.forest.held.values():
            seq.chain, seq.reached = None, 0
        self.forest.clear()
        self.trims.clear()
