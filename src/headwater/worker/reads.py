"""Reads: label logits, log-probabilities of prompt tokens, hidden rows. Nothing here depends on the batch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headwater.core.plan import StepPlan, Want
from headwater.core.request import ReadResult, TokenLogprobs
from headwater.kernels import native
from headwater.worker.forward import Forward
from headwater.worker.inputs import Inputs

CHUNK_ROWS = 32                                                     # full rows of logits held at a time (32 x 150k floats = 19 MB)


def log_sum_exp(logits: np.ndarray) -> np.ndarray:
    """float32[n, v] -> float64[n]; each row alone."""
    if native.available():
        from headwater.kernels import sampling

        return sampling.log_sum_exp(np.ascontiguousarray(logits))
    top = logits.max(axis=1)
    with np.errstate(under="ignore"):
        return top + np.log(np.exp(logits - top[:, None], dtype=np.float32).sum(axis=1, dtype=np.float64))


def top_k(logits: np.ndarray, k: int) -> np.ndarray:
    """float32[v] -> int32[k], best first; ties go to the lower id."""
    if k == 0:
        return np.zeros(0, np.int32)
    k = min(k, len(logits))
    floor = np.partition(logits, len(logits) - k)[len(logits) - k]
    ids = np.flatnonzero(logits >= floor)
    return ids[np.lexsort((ids, -logits[ids]))][:k].astype(np.int32)


def token_logprobs(logits: np.ndarray, lse: float, token: int, k: int) -> TokenLogprobs:
    """Raw log-soft-max of one position (numeric contract 7)."""
    ids = top_k(logits, k)
    return TokenLogprobs(token, float(logits[token] - lse), ids, (logits[ids] - lse).astype(np.float32))


@dataclass(frozen=True, slots=True)
class RowReads:
    """The part of a row's ReadSpec that this step can serve. Token indices are flat over the step.

    scored: (first, last) hidden rows whose next prompt token is scored; at: index of the last prompt token, -1 while it is not computed or not read.
    """

    plan_row: int
    row: int
    scored: tuple[int, int]
    at: int
    span: tuple[int, int]                                           # prompt tokens of this step, for hidden='all'


def find_reads(plan: StepPlan, inputs: Inputs) -> list[RowReads]:
    """Rows with Want.READ, and which of their tokens must be read."""
    found = []
    for i in np.flatnonzero(plan.want & Want.READ).tolist():
        row, flat = int(plan.rows[i]), int(plan.tokens.start[i])
        init = inputs.inits[row]
        done = int(plan.n_done[i])
        stop = min(done + int(plan.n_new[i]) - int(plan.n_guess[i]), init.prompt_len)
        first = last = flat
        if init.reads.score_from is not None:
            first = flat + max(init.reads.score_from - 1, done) - done      # the token before the scored one
            last = flat + min(stop, init.prompt_len - 1) - done
        last_wanted = init.reads.labels is not None or init.reads.lse or init.reads.hidden == "last"
        at = flat + init.prompt_len - 1 - done if last_wanted and done < init.prompt_len <= stop else -1
        found.append(RowReads(i, row, (first, max(first, last)), at, (flat, flat + max(0, stop - done))))
    return found


def wanted_tokens(found: list[RowReads], inputs: Inputs) -> list[np.ndarray]:
    """Flat token indices whose hidden rows the reads need."""
    parts = []
    for r in found:
        spec = inputs.inits[r.row].reads
        parts.append(np.arange(*r.scored))
        if spec.hidden == "all":
            parts.append(np.arange(*r.span))
        if r.at >= 0:
            parts.append(np.array([r.at]))
    return parts


def serve_reads(
    found: list[RowReads], inputs: Inputs, plan: StepPlan, forward: Forward, hidden: np.ndarray, where: np.ndarray
) -> dict[int, ReadResult]:
    """where: int32[n_reads] sorted token indices of the rows of `hidden`."""
    results = {}
    for r in found:
        spec = inputs.inits[r.row].reads
        result = ReadResult()
        if r.scored[1] > r.scored[0]:
            result.prompt = _score(r, spec.prompt_top, inputs, plan, forward, hidden, where)
        if spec.hidden == "all" and r.span[1] > r.span[0]:
            result.hidden = hidden[np.searchsorted(where, np.arange(*r.span))].copy()
        if r.at >= 0:
            vector = hidden[np.searchsorted(where, r.at)]
            if spec.hidden == "last":
                result.hidden = vector[None].copy()
            if spec.lse:
                logits = forward.logits(vector[None])
                result.lse = float(log_sum_exp(logits)[0])
                if spec.labels is not None:
                    result.labels = logits[0, spec.labels]
            elif spec.labels is not None:
                result.labels = forward.label_logits(vector, spec.labels)
        results[r.plan_row] = result
    return results


def _score(r: RowReads, k: int, inputs: Inputs, plan: StepPlan, forward: Forward, hidden: np.ndarray, where: np.ndarray) -> list[TokenLogprobs]:
    """Log-probability of the prompt token behind each scored row, CHUNK_ROWS rows of logits at a time."""
    flat = np.arange(*r.scored)
    targets = inputs.history[r.row, flat - int(plan.tokens.start[r.plan_row]) + int(plan.n_done[r.plan_row]) + 1]
    out = []
    for a in range(0, len(flat), CHUNK_ROWS):
        logits = forward.logits(hidden[np.searchsorted(where, flat[a : a + CHUNK_ROWS])])
        lse = log_sum_exp(logits)
        out += [token_logprobs(row, one, int(t), k) for row, one, t in zip(logits, lse, targets[a : a + CHUNK_ROWS], strict=True)]
    return out
