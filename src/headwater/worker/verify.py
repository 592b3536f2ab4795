"""Drafts against the target's own draws: a deterministic guess is accepted while the keyed draw at its position is that very token.

With draws keyed by (seed, position) this is exact for every temperature: the tokens are those that decoding one by one would have drawn.
"""

from __future__ import annotations

import numpy as np

from headwater.core.plan import Ragged


def accept(drawn: Ragged, guesses: Ragged) -> np.ndarray:
    """drawn row i: the target's draw behind the last sure token and behind each guess (one longer than guesses row i).

    -> int32[rows], how many guesses hold.
    """
    accepted = np.diff(guesses.start).astype(np.int32)
    for i in np.flatnonzero(accepted).tolist():
        wrong = np.flatnonzero(drawn.row(i)[:-1] != guesses.row(i))
        if len(wrong):
            accepted[i] = wrong[0]
    return accepted
