"""Rejection sampling of sampled drafts: the answer has the distribution of plain decoding, not its draws.

Source: Leviathan, Kalman, Matias, "Fast Inference from Transformers via Speculative Decoding" (2211.17192), 2.3.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from headwater.core.plan import Ragged
from headwater.kernels.reference_sampling import adjust, kept_probabilities
from headwater.kernels.sampling import Drawn, Draws, RaggedIds, log_softmax_at, row_of, uniform_at

ACCEPT, RESIDUAL = 1, 2           # streams of the keyed generator; 0 draws tokens


def decide(p: np.ndarray, q: np.ndarray, guess: int, u: float, v: float) -> int:
    """The token that follows where `guess` was drawn from law q and p is the target's: the guess with chance min(1, p/q), else a draw from what
    p has more than q. p, q: float64[vocabulary], each adds up to 1; u, v: uniform in [0, 1), independent of the guess."""
    if u * q[guess] < p[guess]:
        return guess
    mass = np.cumsum(np.maximum(p - q, 0.0))
    if mass[-1] <= 0.0:                                             # both laws are one, but for rounding
        return guess
    return int(np.searchsorted(mass, v * mass[-1], side="right"))


def reject(logits: np.ndarray, draws: Draws, start: np.ndarray, guesses: Ragged, laws: Mapping[int, np.ndarray], drawn: Drawn) -> None:
    """Put what `decide` says in the place of draws, for rows of guesses that have laws: j -> float[guesses of row j, vocabulary]. Changes `drawn`;
    from the first token on that is no guess, a row is left as it is.

    logits: float32[n, vocabulary]; start: int[rows + 1], places of each row among the n: one more than its guesses.
    """
    for j, law in laws.items():
        for k, guess in enumerate(guesses.row(j).tolist()):
            d = int(start[j]) + k
            if drawn.status[d]:
                break
            row = row_of(draws, d, logits.shape[1])
            p, _ = kept_probabilities(adjust(logits[d], row), row)
            token = decide(p, law[k], guess, uniform_at(row.seed, row.position, ACCEPT), uniform_at(row.seed, row.position, RESIDUAL))
            if draws.n_logprobs[d] >= 0:
                drawn.logprobs[d] = log_softmax_at(logits[d : d + 1], RaggedIds.of([[(token,)]]))[0]
            drawn.tokens[d] = token
            if token != guess:
                break
