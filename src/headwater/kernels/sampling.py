"""Drawing tokens from logits in native code, a batch at a time; definitions: `reference_sampling.py`.

A row's result depends on its own logits, parameters, seed and position only: the same bits alone and in any batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from headwater.kernels import native, reference_sampling

SAMPLED, NOT_FINITE, NOTHING_ALLOWED = 0, 1, 2     # Drawn.status


@dataclass(frozen=True, slots=True)
class RaggedIds:
    """ids int32[total] of row r: ids[start[r]:start[r + 1]]; values: one array per field, aligned with ids."""

    start: np.ndarray
    ids: np.ndarray
    values: tuple[np.ndarray, ...] = ()

    def row(self, r: int) -> list[tuple]:
        """Tuples (id, one value per field) of row r."""
        span = slice(self.start[r], self.start[r + 1])
        return list(zip(self.ids[span].tolist(), *(v[span].tolist() for v in self.values), strict=True))

    @staticmethod
    def none(rows: int, *dtypes: type) -> RaggedIds:
        """No ids in any row."""
        return RaggedIds(np.zeros(rows + 1, np.int32), np.zeros(0, np.int32), tuple(np.zeros(0, t) for t in dtypes))

    @staticmethod
    def of(rows: Sequence[Sequence[tuple[float, ...]]], *dtypes: type) -> RaggedIds:
        """rows[r]: tuples (id, one value per dtype)."""
        start = np.cumsum([0, *(len(r) for r in rows)]).astype(np.int32)
        flat = [entry for row in rows for entry in row]
        return RaggedIds(start, np.array([e[0] for e in flat], np.int32),
                         tuple(np.array([e[1 + i] for e in flat], t) for i, t in enumerate(dtypes)))


@dataclass(slots=True)
class Draws:
    """How each of the rows is drawn; `Draws.greedy(rows)` has everything switched off, set the fields you need.

    temperature float32, below 1e-5 greedy; top_k int32, 0 = off; top_p float32, 1 = off; min_p float32, 0 = off.
    repetition (1 = off), presence, frequency (0 = off) float32, applied to `counts`: values (times in prompt, times in output) int32;
    repetition touches ids of both, presence and frequency those of the output.
    bias: values (float32,) added to logits. banned: ids that cannot be drawn (stop ids before min_tokens).
    masks uint32[m, ceil(vocabulary / 32)], bit i % 32 of word i // 32 allows id i; mask_row int32: which mask a row has, -1 = none.
    seed uint64 and position int64 (absolute, of the token to be drawn) key the uniform.
    n_logprobs int32: -1 = none, k = of the chosen id and the k most likely.
    """

    temperature: np.ndarray
    top_k: np.ndarray
    top_p: np.ndarray
    min_p: np.ndarray
    repetition: np.ndarray
    presence: np.ndarray
    frequency: np.ndarray
    seed: np.ndarray
    position: np.ndarray
    n_logprobs: np.ndarray
    counts: RaggedIds
    bias: RaggedIds
    banned: RaggedIds
    mask_row: np.ndarray
    masks: np.ndarray | None = None

    @staticmethod
    def greedy(rows: int) -> Draws:
        """Greedy draws of `rows` rows without penalties, masks or log-probabilities."""
        zeros = np.zeros(rows, np.float32)
        ones = np.ones(rows, np.float32)
        return Draws(zeros, np.zeros(rows, np.int32), ones, zeros.copy(), ones.copy(), zeros.copy(), zeros.copy(), np.zeros(rows, np.uint64),
                     np.zeros(rows, np.int64), np.full(rows, -1, np.int32), RaggedIds.none(rows, np.int32, np.int32),
                     RaggedIds.none(rows, np.float32), RaggedIds.none(rows), np.full(rows, -1, np.int32))


@dataclass(slots=True)
class Drawn:
    """tokens int32[rows], -1 where status int32[rows] is not SAMPLED: NOT_FINITE (a NaN or +inf logit), NOTHING_ALLOWED (no id is left).

    logprobs float32[rows], ranks int32[rows] (1 + how many ids are likelier) and top_ids int32[rows, k], top_logprobs float32[rows, k] are of
    the raw logits, zero where not asked for. k is the largest n_logprobs; best first, ties to the lower id; ids are -1 beyond what the row
    asked for or the vocabulary has.
    """

    tokens: np.ndarray
    status: np.ndarray
    logprobs: np.ndarray
    ranks: np.ndarray
    top_ids: np.ndarray = field(repr=False)
    top_logprobs: np.ndarray = field(repr=False)


def sample(logits: np.ndarray, draws: Draws) -> Drawn:
    """Draw one token per row of logits float32[rows, vocabulary]: penalties, bias, banned and mask, temperature, min_p, top_k, top_p, draw.

    The order is vLLM's. A bad row fails alone (status); ValueError when arrays do not fit together or an id is outside the vocabulary.
    """
    rows = len(logits)
    width = max(0, int(draws.n_logprobs.max(initial=0)))
    drawn = Drawn(np.empty(rows, np.int32), np.empty(rows, np.int32), np.empty(rows, np.float32), np.empty(rows, np.int32),
                  np.full((rows, width), -1, np.int32), np.zeros((rows, width), np.float32))
    if not native.available():
        for r in range(rows):
            _sample_slowly(logits[r], draws, r, drawn)
        return drawn
    native.library().sample(
        logits, draws.temperature, draws.top_k, draws.top_p, draws.min_p, draws.repetition, draws.presence, draws.frequency, draws.seed,
        draws.position, draws.n_logprobs, draws.counts.start, draws.counts.ids, *draws.counts.values, draws.bias.start, draws.bias.ids,
        *draws.bias.values, draws.banned.start, draws.banned.ids, draws.masks, draws.mask_row, drawn.tokens, drawn.status, drawn.ranks,
        drawn.logprobs, drawn.top_ids, drawn.top_logprobs)
    return drawn


def row_of(draws: Draws, r: int, vocabulary: int) -> reference_sampling.Row:
    """The parameters of row r, as the definition takes them."""
    allowed = None
    if draws.mask_row[r] >= 0 and draws.masks is not None:
        allowed = np.unpackbits(draws.masks[draws.mask_row[r]].view(np.uint8), bitorder="little")[:vocabulary].astype(bool)
    return reference_sampling.Row(
        float(draws.temperature[r]), int(draws.top_k[r]), float(draws.top_p[r]), float(draws.min_p[r]), float(draws.repetition[r]),
        float(draws.presence[r]), float(draws.frequency[r]), int(draws.seed[r]), int(draws.position[r]), tuple(draws.counts.row(r)),
        tuple(draws.bias.row(r)), tuple(i for (i,) in draws.banned.row(r)), allowed)


def _sample_slowly(logits: np.ndarray, draws: Draws, r: int, drawn: Drawn) -> None:
    """Row r by the definition, where the native module is missing."""
    token, k = reference_sampling.draw(logits, row_of(draws, r, len(logits)))[0], int(draws.n_logprobs[r])
    drawn.tokens[r], drawn.logprobs[r], drawn.ranks[r] = token, 0, 0
    drawn.status[r] = SAMPLED if token >= 0 else NOTHING_ALLOWED if (logits < np.inf).all() else NOT_FINITE
    if k < 0 or token < 0:
        return
    values = reference_sampling.log_softmax(logits)
    best = np.argsort(-logits, kind="stable")[:k]
    drawn.logprobs[r], drawn.ranks[r] = values[token], 1 + int((logits > logits[token]).sum())
    drawn.top_ids[r, : len(best)], drawn.top_logprobs[r, : len(best)] = best, values[best]


def log_sum_exp(logits: np.ndarray) -> np.ndarray:
    """logits float32[rows, vocabulary] -> natural log-sum-exp float64[rows]; NaN where a row has a NaN or +inf."""
    out = np.empty(len(logits), np.float64)
    if native.available():
        native.library().lse_rows(logits, out)
        return out
    for r, row in enumerate(logits.astype(np.float64)):
        top = row.max()
        out[r] = np.nan if not (row < np.inf).all() else top if np.isneginf(top) else top + np.log(np.exp(row - top).sum())
    return out


def log_softmax_at(logits: np.ndarray, ids: RaggedIds) -> np.ndarray:
    """Log-probabilities float64[len(ids.ids)] of the given ids of each row of logits float32[rows, vocabulary]."""
    row_of = np.repeat(np.arange(len(logits)), np.diff(ids.start))
    return logits[row_of, ids.ids].astype(np.float64) - log_sum_exp(logits)[row_of]


def top_ids(logits: np.ndarray, k: int) -> np.ndarray:
    """The k largest ids of each row, best first, ties to the lower id: int32[rows, k]; -1 in a row with a NaN or +inf."""
    out = np.empty((len(logits), k), np.int32)
    if native.available():
        native.library().top_rows(logits, out)
        return out
    out[:] = np.argsort(-logits, axis=1, kind="stable")[:, :k]
    out[~(logits < np.inf).all(1)] = -1
    return out


def uniform_at(seed: int, position: int, stream: int = 0) -> float:
    """The uniform in [0, 1) of Philox4x32-10 keyed by a 64-bit seed at counter (position, stream); stream 0 draws the token at `position`."""
    return reference_sampling.uniform_at(seed, position, stream)
