"""Chain or tree: which branches beside a chain of guesses are worth what they cost in this step."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headwater.policies.draft.api import Branch


def common(a: np.ndarray, b: np.ndarray) -> int:
    """How many ids at the start of both agree."""
    n = min(len(a), len(b))
    return int(np.cumprod(a[:n] == b[:n]).sum())


def worthwhile(chain: np.ndarray, branches: Sequence[Branch], alpha: float, hold: float, price: float, room: int, most: int) -> list[np.ndarray]:
    """Branches to verify beside int32[n] `chain`, each cut to the length that pays.

    A branch that leaves behind d guesses of the chain is tried where these hold and the next does not: alpha^d (1 - alpha). Then it is right with
    chance `hold` · share, and each further guess holds as the chain's do. It costs `price` (of a plain step of the row) for each of its tokens, and
    for those that it repeats: the last sure token and the d guesses. room: tokens that may be spent; most: branches.
    """
    out: list[np.ndarray] = []
    for ids, share in branches:
        d = common(chain, ids)
        longest = min(len(ids), len(chain), room - 1) - d
        if len(out) == most or longest < 1:
            continue
        first = alpha**d * (1 - alpha) * hold * share
        length = min(longest, 1 + int(np.log(price / first) / np.log(alpha))) if first > price and alpha > 0 else 0
        gain = first * (1 - alpha**length) / (1 - alpha) if length else 0.0
        if gain > price * (1 + d + length):
            out.append(ids[: d + length].astype(np.int32, copy=False))
            room -= 1 + d + length
    return out
