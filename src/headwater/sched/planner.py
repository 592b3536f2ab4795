"""Planner: which rows compute how many tokens in the next step. Decodes first and always; then prompts in the policy's order."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from headwater.core.plan import Branches, Guesses, Ragged, StepPlan
from headwater.kv.chain import Match, Start
from headwater.policies.sched.api import Budget, RowsView
from headwater.sched.board import Board
from headwater.sched.compose import Border, StepBuilder
from headwater.sched.seq import Seq, Stage

Guess = Callable[[np.ndarray, np.ndarray], Ragged | Guesses]       # (table rows, most guesses per row) -> guesses per row

_LEAST = 16                       # tokens that the first prompt gets however full the step is: progress


class Planner:
    """One plan at a time. `guess` proposes draft tokens for decoding rows (verified by the executor)."""

    def __init__(self, board: Board, guess: Guess | None) -> None:
        self.board = board
        self.guess = guess
        self.borders: list[Border] = []
        self._stuck: Seq | None = None                              # who was next when memory or seats ran out

    def plan(self, step: int, now: float) -> StepPlan | None:
        board = self.board
        if not board.rows.count and not board.queue.count:
            return None
        load = board.load()
        asked = board.policy.budget(load, now)
        most = board.caps.max_step_tokens
        budget = Budget(min(max(int(asked.tokens), _LEAST), most), min(max(int(asked.rows), 1), most), asked.seconds)
        build = StepBuilder(board)
        self._decodes(build, budget, now)
        self._prompts(build, budget, now)
        if build.empty and board.rows.count:
            self._unblock(build, now)
        elif build.empty and self._stuck is not None:
            board.changed = True                                    # a reservation may fail once; twice is a reason
            self._prompts(build, budget, now)
            self._refuse_stuck(build, now)
        if build.empty:
            board.kv.unpin(now)
            return None
        build.stop_at_borders()
        plan = build.build(step, now)
        self.borders = build.borders
        return plan

    # ---- rows that have one token to compute ------------------------------------------------------------------------------------

    def _decodes(self, build: StepBuilder, budget: Budget, now: float) -> None:
        rows = self.board.rows
        idx = np.flatnonzero(rows.alive & (rows.known - rows.done == 1))
        if not len(idx):
            return
        made = self._guesses(idx, budget, now)
        guesses, branches, laws = (None, None, None) if made is None else made
        if guesses is not None:
            self._reserve_guesses(build, idx, guesses, now)
        short = idx[rows.done[idx] + 1 > rows.room[idx]]
        if len(short) and self._reserve_each(build, short, now):
            short = short[:0]
        for row in short[np.argsort(rows.order[short], kind="stable")].tolist():
            if rows.alive[row]:
                self._reserve_or_preempt(build, row, now)
        if len(short):
            stay = rows.alive[idx]
            if guesses is not None and not stay.all():
                guesses = Ragged.of([guesses.row(i) for i in np.flatnonzero(stay).tolist()])
                branches = laws = None                              # memory is short: no step for trees, and chains can do without their laws
            idx = idx[stay]
        build.add_single(idx, guesses, _within(branches, guesses))
        build.laws = laws

    def _guesses(self, idx: np.ndarray, budget: Budget, now: float) -> Guesses | None:
        rows, kv = self.board.rows, self.board.kv
        if self.guess is None:
            return None
        most = np.maximum(rows.limit[idx] - rows.known[idx] - 1, 0)
        most[(rows.want[idx] == 0) | rows.reading[idx]] = 0
        most = np.minimum(most, max(budget.tokens - len(idx), 0) // len(idx)).astype(np.int32)
        if not kv.can_cut:
            for i, row in enumerate(idx.tolist()):
                done = int(rows.done[row])
                most[i] = self.board.forest.next_border(rows.at(row), done, done + 1 + int(most[i])) - done - 1
        made = self.guess(idx.astype(np.int32), most)
        guesses, branches, laws = made if isinstance(made, Guesses) else (made, None, None)
        counts = np.diff(guesses.start)
        if not counts.any():
            return None
        if (counts > most).any():
            guesses = Ragged.of([guesses.row(i)[: most[i]] for i in range(len(idx))])
        return Guesses(guesses, None if self.board.caps.attend else branches, laws)   # trees only where everything is read

    def _reserve_guesses(self, build: StepBuilder, idx: np.ndarray, guesses: Ragged, now: float) -> None:
        """Blocks for guesses come from free memory only; a row that cannot get them is planned without (its guesses are cleared in place)."""
        rows, kv = self.board.rows, self.board.kv
        counts = np.diff(guesses.start)
        for i in np.flatnonzero(rows.done[idx] + 1 + counts > rows.room[idx]).tolist():
            row = int(idx[i])
            chain = rows.at(row).chain
            assert chain is not None
            before, end = chain.n, int(rows.done[row] + 1 + counts[i])
            if kv.blocks_for(end) - before <= kv.room:
                got = kv.reserve(chain, end, now)
                build.grew(row, before)
                rows.room[row] = chain.n * kv.block
            else:
                got = int(rows.room[row])
            counts[i] = max(min(counts[i], got - int(rows.done[row]) - 1), 0)
        kept = [guesses.row(i)[: counts[i]] for i in range(len(idx))] if (counts != np.diff(guesses.start)).any() else None
        if kept is not None:
            fixed = Ragged.of(kept)
            guesses.start[:] = fixed.start
            guesses.flat[: len(fixed.flat)] = fixed.flat

    def _reserve_each(self, build: StepBuilder, short: np.ndarray, now: float) -> bool:
        rows, kv = self.board.rows, self.board.kv
        chains = [chain for row in short.tolist() if (chain := rows.at(row).chain) is not None]
        if not kv.reserve_each(chains, now):
            return False
        for row, chain in zip(short.tolist(), chains, strict=True):
            build.grew(row, chain.n - 1)
        rows.room[short] += kv.block
        return True

    def _reserve_or_preempt(self, build: StepBuilder, row: int, now: float) -> None:
        board, rows = self.board, self.board.rows
        seq = rows.at(row)
        assert seq.chain is not None
        need = int(rows.done[row]) + 1
        before = seq.chain.n
        while board.kv.reserve(seq.chain, need, now) < need:
            victim = self._victim(now)
            if victim is None:
                build.grown.pop(row, None)
                board.fail(seq, f"out of memory: the row needs a block more than its {before} and {len(board.forest.held)} held states keep the rest",
                           now, retry_after=1.0)
                return
            build.grown.pop(victim.row, None)                       # its index may join again in this step
            board.preempt(victim, now)
            if victim is seq:
                return
        build.grew(row, before)
        rows.room[row] = seq.chain.n * board.kv.block

    def _victim(self, now: float) -> Seq | None:
        """Who steps aside: the policy's choice among all rows but the oldest, which always goes on. None when only that one is left."""
        rows = self.board.rows
        idx = rows.index()
        if len(idx) <= 1:
            return None
        idx = idx[rows.order[idx] != rows.order[idx].min()]
        score = np.nan_to_num(np.asarray(self.board.policy.victim(rows.view(idx, True), now), np.float64), nan=0.0)
        return rows.at(int(idx[np.lexsort((rows.order[idx], score))[-1]]))

    # ---- prompts ----------------------------------------------------------------------------------------------------------------

    def _prompts(self, build: StepBuilder, budget: Budget, now: float) -> None:
        board, rows, queue = self.board, self.board.rows, self.board.queue
        running = np.flatnonzero(rows.alive & (rows.known - rows.done > 1))
        waiting = queue.index() if board.rows.count < budget.rows and board.changed else running[:0]
        if not len(running) and not len(waiting):
            return
        seqs = [rows.at(r) for r in running.tolist()] + [queue.at(r) for r in waiting.tolist()]
        order = self._ranked(running, waiting, now)
        board.changed = False
        closed = False                                              # memory or seats are gone: nobody else is admitted, running prompts go on
        self._stuck = None
        others = len(order)
        for i in order:
            others -= 1
            left = budget.tokens - build.features.tokens
            if left <= 0 or build.full:
                board.changed = True
                return
            seq = seqs[i]
            if i < len(running):
                self._continue(build, budget, seq, left, others, now)
            elif closed:
                continue
            elif board.forest.blocked(seq):
                board.changed = True                                # what it waits for moves on with every step
            elif seq.ready:
                closed = not self._admit(build, budget, seq, left, others, now)
                self._stuck = seq if closed else None

    def _ranked(self, running: np.ndarray, waiting: np.ndarray, now: float) -> list[int]:
        a, b = self.board.rows.view(running, True), self.board.queue.view(waiting, False)
        view = RowsView(*(np.concatenate([getattr(a, name), getattr(b, name)]) for name in RowsView.__slots__))
        score = np.nan_to_num(np.asarray(self.board.policy.rank(view, now), np.float64), nan=np.inf)
        return np.lexsort((view.order, score)).tolist()

    def _chunk(self, build: StepBuilder, budget: Budget, seq: Seq, done: int, pending: int, left: int, others: int) -> int:
        """Tokens of a prompt for this step: the policy's wish, cut to the budget in tokens and seconds and to the next checkpoint."""
        least = 0 if build.chunks else min(_LEAST, pending, left)
        n = min(max(int(self.board.policy.chunk(pending, left, others)), least), pending, left)
        n = self._fit(build, budget, done, n, pending)
        return self.board.forest.next_border(seq, done, done + n) - done

    def _fit(self, build: StepBuilder, budget: Budget, done: int, n: int, pending: int) -> int:
        """The most tokens (at most n) with which the step stays within its seconds; the first prompt of a step gets a few in any case."""
        cost = self.board.cost
        least = min(n, _LEAST) if not build.chunks else 0
        if cost is None or n <= least or cost.bound_seconds(build.with_chunk(done, n, int(n == pending))) <= budget.seconds:
            return n
        build.full = True
        low, high = least, n                                        # low fits or is granted, high does not fit
        while high - low > max(1, low // 16):
            middle = (low + high) // 2
            if cost.bound_seconds(build.with_chunk(done, middle, 0)) <= budget.seconds:
                low = middle
            else:
                high = middle
        return low

    def _continue(self, build: StepBuilder, budget: Budget, seq: Seq, left: int, others: int, now: float) -> None:
        rows, kv, row = self.board.rows, self.board.kv, seq.row
        done = int(rows.done[row])
        n = self._chunk(build, budget, seq, done, int(rows.known[row]) - done, left, others)
        if n <= 0:
            return
        assert seq.chain is not None
        before = seq.chain.n
        n = kv.reserve(seq.chain, done + n, now) - done
        build.grew(row, before)
        rows.room[row] = seq.chain.n * kv.block
        if n > 0:
            build.add_chunk(row, n)

    def _admit(self, build: StepBuilder, budget: Budget, seq: Seq, left: int, others: int, now: float) -> bool:
        """Start a waiting request if memory and seats allow; False when they do not (the queue closes for this step)."""
        board, kv = self.board, self.board.kv
        if board.rows.count >= budget.rows:
            return False
        cap = seq.cap
        found = self.find(seq, cap)
        if board.forest.wait_for(seq, found.length, cap):
            board.count.waited += 1
            board.changed = True
            return True
        if not self._enough_room(found, len(seq.known)):
            return False
        n = self._chunk(build, budget, seq, found.start, len(seq.known) - found.start, left, others)
        if n <= 0:
            board.changed = True
            return True
        begun = self._begin(seq, found, n, now)
        if begun is None and not board.rows.count:
            # alone and still short: what the row would only copy from must not be what keeps it out
            found = found.without_copies(kv.block, kv.can_cut)
            n = self._chunk(build, budget, seq, found.start, len(seq.known) - found.start, left, others)
            begun = self._begin(seq, found, n, now)
        if begun is None:
            return False
        n = min(n, begun.chain.n * kv.block - found.start)
        row = board.enter(seq, begun.chain, found.start, now)
        build.add_join(seq, begun, kv.blocks_for(found.start))
        build.add_chunk(row, n)
        return True

    def _begin(self, seq: Seq, found: Match, n: int, now: float) -> Start | None:
        kv, m = self.board.kv, found.start // self.board.kv.block
        assert seq.sums is not None
        seed = int(seq.sums[m - 1]) if m else kv.index.seed(seq.identity)
        return kv.start(found, seed, found.start + n, now)

    def find(self, seq: Seq, cap: int) -> Match:
        kv = self.board.kv
        if seq.sums is None:
            seq.sums, seq.keys = kv.keys(seq.identity, seq.known)
        return kv.match(seq.identity, seq.known, seq.keys, cap, self.board.forest.source(seq))

    def _enough_room(self, found: Match, total: int) -> bool:
        """Whether a row of `total` tokens can be completed beside what running prompts still need and a block for each running row."""
        board, rows, kv = self.board, self.board.rows, self.board.kv
        m = found.start // kv.block
        idle = int((kv.nodes.refs[found.path[:m]] == 0).sum())      # cached blocks that the row itself would pin
        need = kv.blocks_for(total) - m
        if not board.rows.count:
            return need <= kv.room - idle
        running = rows.index()
        promised = int(np.maximum(-(-rows.known[running] // kv.block) - rows.room[running] // kv.block, 0).sum())
        return need + promised + len(running) <= kv.room - idle

    # ---- nothing could be planned ---------------------------------------------------------------------------------------------------

    def _unblock(self, build: StepBuilder, now: float) -> None:
        """Running prompts that got no block: all but the oldest step aside, one by one, until it can go on; alone, it fails with a reason."""
        board, rows = self.board, self.board.rows
        while rows.count:
            idx = rows.index()
            oldest = rows.at(int(idx[np.argmin(rows.order[idx])]))
            self._continue(build, Budget(board.caps.max_step_tokens, 1, np.inf), oldest, board.caps.max_step_tokens, 0, now)
            if not build.empty:
                return
            victim = self._victim(now)
            if victim is not None:
                board.preempt(victim, now)
            else:
                board.fail(oldest, f"out of memory: {len(board.forest.held)} held states keep the blocks that it needs", now, retry_after=1.0)

    def _refuse_stuck(self, build: StepBuilder, now: float) -> None:
        """Nothing runs and the next request does not fit beside the held states: it gets a reason."""
        board, seq = self.board, self._stuck
        if build.empty and seq is not None and seq.stage == Stage.WAITING:
            need = board.kv.blocks_for(len(seq.known))
            board.count.refused += 1
            held = len(board.forest.held)
            board.fail(seq, f"out of memory: it needs {need} blocks, {held} held states leave {board.kv.room}", now, retry_after=1.0)


def _within(branches: Branches | None, chains: Ragged | None) -> Branches | None:
    """Branches cut to the length that their row's chain has after all: its blocks are what an accepted branch is copied into."""
    if branches is None or chains is None:
        return None
    parts = [(i, branches.ids.row(j)[: len(chains.row(i))]) for j, i in enumerate(branches.row.tolist())]
    return Branches.of([(i, ids) for i, ids in parts if len(ids)])
