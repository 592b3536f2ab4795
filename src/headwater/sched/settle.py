"""Settler: what came back from a step becomes state, outputs and published blocks."""

from __future__ import annotations

import numpy as np

from headwater.core.plan import StepPlan, StepResult
from headwater.core.request import FinishReason, Output, ReadResult
from headwater.sched.board import NO_IDS, Board
from headwater.sched.compose import Border
from headwater.sched.seq import Seq, Stage


class Settler:
    def __init__(self, board: Board) -> None:
        self.board = board

    def apply(self, plan: StepPlan, borders: list[Border], result: StepResult, now: float) -> list[Output]:
        """Advance all rows of the plan; outputs in plan order."""
        board, rows = self.board, self.board.rows
        board.kv.unpin(now)
        idx = plan.rows
        counts = np.diff(result.tokens.start)
        good = np.ones(len(idx), bool)
        good[list(result.failed)] = False
        owners = rows.owner[idx]
        prompt = np.where(good, np.minimum(np.maximum(rows.prompt[idx] - rows.done[idx], 0), result.n_ok), 0)
        self._advance(plan, result, counts, good)
        crossed = good & (rows.done[idx] - rows.published[idx] >= board.kv.block)
        board.commit_all(idx[crossed], now)
        for border in borders:
            self._checkpoint(border, bool(good[border.index]), now)
        outputs = self._outputs(plan, result, counts, good, now)
        for i, reason in result.failed.items():
            seq = rows.seqs[int(idx[i])]
            if seq is not None and seq.stage == Stage.RUNNING:
                board.count.failed += 1
                outputs.append(board.output(seq, NO_IDS, finish="error", error=reason))
                board.end(seq, now, publish=False)
        board.policy.ran(owners, prompt, np.where(good, counts, 0))
        return outputs

    def _advance(self, plan: StepPlan, result: StepResult, counts: np.ndarray, good: np.ndarray) -> None:
        board, rows = self.board, self.board.rows
        all_good = bool(good.all())
        idx, n_ok = (plan.rows, result.n_ok) if all_good else (plan.rows[good], result.n_ok[good])
        before = rows.done[idx]
        after = before + n_ok
        rows.done[idx] = after
        board.count.drawn += int(counts.sum() if all_good else counts[good].sum())
        prompts = before < rows.prompt[idx]
        for row in idx[prompts].tolist() if prompts.any() else ():
            seq = rows.at(row)
            end = min(int(rows.done[row]), seq.prompt_len)
            fresh = max(end - seq.counted, 0)
            seq.counted += fresh
            seq.computed += fresh
            board.count.computed += fresh
        if all_good and len(result.tokens.flat) == len(idx) and (counts == 1).all():
            rows.append(idx, result.tokens.flat)
        else:
            one = good & (counts == 1)
            rows.append(plan.rows[one], result.tokens.flat[result.tokens.start[:-1][one]])
            for i in np.flatnonzero(good & (counts > 1)).tolist():
                for token in result.tokens.row(i):
                    rows.append(plan.rows[i : i + 1], token)
        reached = rows.reached[idx]
        again = reached - before
        if again.any() and (again > 0).any():
            board.count.recomputed += int(np.minimum(np.maximum(again, 0), n_ok).sum())
        rows.reached[idx] = np.maximum(reached, after)
        rows.settled[idx] = True

    def _checkpoint(self, border: Border, good: bool, now: float) -> None:
        board, rows = self.board, self.board.rows
        seq = rows.seqs[border.row]
        if good and seq is not None and seq.chain is not None and rows.done[border.row] == border.pos:
            board.kv.point_at(seq.chain, border.pos, border.slot, now)
        else:
            board.kv.give_slot(border.slot)

    # ---- outputs ----------------------------------------------------------------------------------------------------------------

    def _outputs(self, plan: StepPlan, result: StepResult, counts: np.ndarray, good: np.ndarray, now: float) -> list[Output]:
        board, rows = self.board, self.board.rows
        out: list[Output] = []
        flat, start, logprobs = result.tokens.flat, result.tokens.start.tolist(), result.logprobs
        ids, table = flat.tolist(), plan.rows.tolist()
        seqs = [rows.at(row) for row in table]
        for i, seq in enumerate(seqs):
            if seq.doomed:
                out.append(board.output(seq, NO_IDS, finish="abort"))
                board.count.cancelled += 1
                board.end(seq, now, publish=seq.keep and bool(good[i]))
                good[i] = False
        plain = (good & (counts == 1) & ~rows.reading[plan.rows] & (rows.known[plan.rows] < rows.limit[plan.rows])).tolist()
        for i, seq in enumerate(seqs):
            first = start[i]
            if plain[i] and ids[first] not in seq.request.stop_ids:   # the usual decode: one more token, nothing ends
                seq.drawn += 1
                given = logprobs.get(i) if logprobs else None
                out.append(Output(seq.request.request_id, flat[first : first + 1], given, None, None, None, None, None,
                                  seq.cached, seq.computed, seq.queued))
            elif good[i]:
                if seq.reads_open and i in result.reads:
                    seq.reads = _merge(seq.reads, result.reads[i])
                last = start[i + 1]
                if last > first or (seq.request.max_new == 0 and rows.done[table[i]] >= seq.prompt_len):
                    out.append(self._draw(seq, flat[first:last], logprobs.get(i), now))
        return out

    def _draw(self, seq: Seq, ids: np.ndarray, logprobs: list | None, now: float) -> Output:
        """New tokens of one row: find the stop, close the reads, finish."""
        board, request = self.board, seq.request
        keep, finish, stop_id = _cut(seq, ids)
        seq.drawn += keep
        output = board.output(seq, ids[:keep], finish=finish, stop_id=stop_id)
        output.logprobs = logprobs[:keep] if logprobs is not None else None
        if seq.reads_open:
            output.reads, seq.reads, seq.reads_open = seq.reads, None, False
            board.rows.reading[seq.row] = False
        if finish is not None:
            board.count.finished += 1
            board.end(seq, now, hold=request.hold)
        return output


def _cut(seq: Seq, ids: np.ndarray) -> tuple[int, FinishReason | None, int | None]:
    """How many of the drawn ids the client gets, why it ends, and the stop id."""
    request = seq.request
    stops, least = request.stop_ids, request.params.min_tokens
    left = request.max_new - seq.drawn
    if stops:
        for j, token in enumerate(ids.tolist()):
            if j >= left:
                break
            if token in stops and seq.drawn + j >= least:
                return j, "stop", token
    if len(ids) >= left:
        return max(left, 0), "length", None
    return len(ids), None, None


def _merge(old: ReadResult | None, new: ReadResult) -> ReadResult:
    """Reads of one prompt computed in several chunks, in order."""
    if old is None:
        return new
    hidden = new.hidden
    if old.hidden is not None:
        hidden = old.hidden if hidden is None else np.concatenate([old.hidden, hidden])
    labels = new.labels if new.labels is not None else old.labels
    return ReadResult(labels, old.prompt + new.prompt, hidden, new.lse if new.lse is not None else old.lse)
