"""Scheduler: a pure machine. Events and a time go in, plans come out; results go in, outputs come out. No clock, no threads, no I/O."""

from __future__ import annotations

import numpy as np

from headwater.core.events import Arrive, Cancel, Event, ExecutorLost, MaskReady, Release
from headwater.core.executor import Caps, CostModel
from headwater.core.kvspec import BLOCK_TOKENS
from headwater.core.plan import StepPlan, StepResult
from headwater.core.request import Output, Request
from headwater.kv.manager import KVManager
from headwater.policies.evict.api import EvictPolicy
from headwater.policies.sched.api import RequestView, SchedPolicy
from headwater.sched.board import Board, Counters
from headwater.sched.check import violations
from headwater.sched.guess import Guesser
from headwater.sched.planner import Guess, Planner
from headwater.sched.selfdraft import SelfDrafts
from headwater.sched.seq import Seq, Stage
from headwater.sched.settle import Settler

_BORDERS = 4                      # newest message borders that get a checkpoint; a next turn rarely starts before them
_MOST_LOSSES = 3                  # a request that was running in so many executor deaths fails: it may be their cause


class Scheduler:
    """Joins queue, rows, cache and policies. At most one plan is in flight.

    cost: predicts step seconds (None = token budget only). guess: proposes draft tokens for rows that decode. producer: how states are made
    (part of the KV identity). Outputs that no step brings (refusals, cancelled or expired requests) wait in `drain`.
    """

    def __init__(self, caps: Caps, sched_policy: SchedPolicy, evict_policy: EvictPolicy, cost: CostModel | None = None, *,
                 guess: Guess | None = None, producer: str = "exact", block: int = BLOCK_TOKENS) -> None:
        self.caps = caps
        self.kv = KVManager(caps, evict_policy, producer, block)
        self._board = Board(caps, sched_policy, self.kv, cost)
        self._planner = Planner(self._board, None)
        self.draft_with(guess)
        self._settler = Settler(self._board)
        self._flight: StepPlan | None = None
        self._step = 0
        self.kv.wanted = self._wanted

    def draft_with(self, guess: Guess | None) -> None:
        """Who proposes draft tokens from now on (None = nobody). Only while nothing runs."""
        assert not self._board.rows.count, "rows are running: their drafts belong to somebody else"
        self._planner.guess = guess
        self.guesser = guess if isinstance(guess, Guesser) else None
        self.selfdrafts: SelfDrafts | None = None
        if self.guesser is not None:
            self.guesser.rows = self._board.rows
            self.selfdrafts = SelfDrafts(self._board, self.guesser, self._arrive, self._cancel)

    # ---- events -----------------------------------------------------------------------------------------------------------------

    def on(self, event: Event, now: float) -> None:
        """Take an event; what it means for a step in flight happens when that step is applied."""
        if isinstance(event, Arrive):
            self._arrive(event.request, now)
        elif isinstance(event, Cancel):
            self._cancel(event, now)
        elif isinstance(event, Release):
            self._release(event.request_id, now)
        elif isinstance(event, MaskReady):
            self._mask_ready(event, now)
        elif isinstance(event, ExecutorLost):
            self._flight = None
            self._board.lose_all(event.reason, now, _MOST_LOSSES)
            self.kv.reset(())

    def _arrive(self, request: Request, now: float) -> None:
        board = self._board
        board.count.arrived += 1
        board.arrivals += 1
        identity = self.kv.identity(request.cache_salt)
        prompt = np.ascontiguousarray(request.prompt, np.int32)
        seq = Seq(request, board.arrivals, identity, board.owner(request.owner), prompt, ready=request.mask is None)
        seq.reads_open = request.reads.any
        seq.borders = sorted({b for b in (*request.borders, len(prompt)) if 0 < b <= len(prompt)})[-_BORDERS:]
        reason, retry_after = self._refusal(request, prompt, now)
        if reason is not None:
            board.count.refused += 1
            board.say(seq, "error", error=reason, retry_after=retry_after)
            return
        board.seqs[request.request_id] = seq
        if request.parent is not None:
            board.forest.adopt(seq, board.seqs.get(request.parent))
        board.enqueue(seq)

    def _refusal(self, request: Request, prompt: np.ndarray, now: float) -> tuple[str | None, float | None]:
        """Why the request cannot be taken, and when to try again (None = never)."""
        board, n, new = self._board, len(prompt), request.max_new
        if request.request_id in board.seqs:
            return f"request id {request.request_id!r} is in use", None
        if not n:
            return "prompt: must hold at least one token", None
        if int(prompt.min()) < 0 or int(prompt.max()) >= self.caps.vocabulary:
            return f"prompt: token ids must be in 0 … {self.caps.vocabulary - 1}", None
        if n + new > self.caps.context:
            return f"prompt of {n} tokens and {new} new ones do not fit the context of {self.caps.context}", None
        if n + new > self.kv.longest:
            return f"prompt of {n} tokens and {new} new ones do not fit the memory for {self.kv.longest} tokens", None
        admit = board.policy.admit(RequestView(n, new, request.priority, request.owner, request.deadline), board.load(), now)
        return (None, None) if admit.verdict == "take" else (admit.reason or "refused by load", max(float(admit.retry_after), 0.0))

    def _cancel(self, event: Cancel, now: float) -> None:
        board = self._board
        seq = board.seqs.get(event.request_id)
        if seq is None:
            return
        if seq.stage == Stage.HELD:
            board.release(seq, now)
        elif self._flying(seq):
            seq.doomed, seq.keep = True, event.keep
        else:
            board.count.cancelled += 1
            board.say(seq, "abort")
            board.end(seq, now, publish=event.keep)

    def _flying(self, seq: Seq) -> bool:
        return self._flight is not None and seq.stage == Stage.RUNNING and bool((self._flight.rows == seq.row).any())

    def _release(self, request_id: str, now: float) -> None:
        seq = self._board.seqs.get(request_id)
        if seq is None:
            return
        if seq.stage == Stage.HELD:
            self._board.release(seq, now)
        else:
            seq.request.hold = False

    def _mask_ready(self, event: MaskReady, now: float) -> None:
        seq = self._board.seqs.get(event.request_id)
        if seq is None or seq.stage != Stage.WAITING:
            return
        if event.error is not None:
            self._board.fail(seq, event.error, now)
        seq.ready = True
        self._board.changed = True

    # ---- steps ------------------------------------------------------------------------------------------------------------------

    def plan(self, now: float) -> StepPlan | None:
        """What to compute next; None while a plan is in flight or when nothing can run."""
        if self._flight is not None:
            return None
        self._expire(now)
        plan = self._planner.plan(self._step, now)
        if plan is not None:
            self._step += 1
            self._flight = plan
            self._board.count.steps += 1
        return plan

    def apply(self, result: StepResult, now: float) -> list[Output]:
        """Take the result of the plan in flight; a result of another step (of a lost executor) is ignored."""
        plan = self._flight
        if plan is None or result.step != plan.step:
            return self.drain()
        self._flight = None
        if self.guesser is not None:
            self.guesser.verified(plan, result)
        outputs = self._settler.apply(plan, self._planner.borders, result, now)
        if self.guesser is not None and self.selfdrafts is not None:
            self.guesser.attach(outputs)
            outputs = self.selfdrafts.take(outputs)
            self.selfdrafts.turn(now)
        return self.drain() + outputs

    def drain(self) -> list[Output]:
        """Outputs that no step brought."""
        out, self._board.outbox = self._board.outbox, []
        return out if self.selfdrafts is None else self.selfdrafts.take(out)

    def wake_at(self) -> float | None:
        """When to call `plan` again without an event: the earliest deadline of a waiting request."""
        first = float(self._board.queue.deadline.min())
        return first if first < np.inf else None

    def _expire(self, now: float) -> None:
        queue = self._board.queue
        for i in np.flatnonzero(queue.deadline <= now).tolist():
            seq = queue.at(i)
            self._board.count.refused += 1
            self._board.fail(seq, f"its deadline passed after {now - seq.request.arrival:.3f} s in the queue", now, retry_after=1.0)

    def _wanted(self) -> list[np.ndarray]:
        """Cached nodes that the next 64 waiting requests would read."""
        queue = self._board.queue
        idx = queue.index()
        idx = idx[np.argsort(queue.order[idx], kind="stable")][:64]
        return [self._planner.find(seq, seq.cap).path for seq in (queue.at(i) for i in idx.tolist())]

    def check(self, full: bool = False) -> list[str]:
        """Broken invariants as sentences (normally none); `full` recounts every reference. What broke is contained: running rows fail with the
        sentence as reason, blocks with wrong counts are not used again, the cache starts afresh. Between steps only."""
        if self._flight is not None:
            return []
        broken = violations(self._board, full)
        if broken:
            reason = f"internal: {broken[0].sentence}"
            self._board.count.quarantines += 1
            lost = [(group, ids) for v in broken for group, ids in v.blocks]
            self._board.fail_all(reason)
            self.kv.reset(lost)
        return [v.sentence for v in broken]

    # ---- views ------------------------------------------------------------------------------------------------------------------

    @property
    def counters(self) -> Counters:
        return self._board.count

    @property
    def longest(self) -> int:
        """Most tokens one request may have (context and memory)."""
        return min(self.caps.context, self.kv.longest)

    @property
    def waiting(self) -> int:
        return self._board.queue.count

    @property
    def running(self) -> int:
        return self._board.rows.count

    @property
    def held(self) -> list[str]:
        """Request ids that are kept as fork points."""
        return list(self._board.forest.held)

    @property
    def idle(self) -> bool:
        """Nothing waits, runs or flies (held states may remain)."""
        return not self.waiting and not self.running and self._flight is None

    def history(self, row: int) -> np.ndarray:
        """int32[known]: the tokens of a running row (a view; valid until the next call that changes the scheduler)."""
        return self._board.rows.tokens[row, : self._board.rows.known[row]]

    def request(self, row: int) -> Request:
        """The request in a running row."""
        return self._board.rows.at(row).request
