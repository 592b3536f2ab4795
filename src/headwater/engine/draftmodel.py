"""The small model behind `--draft model:file=…`: an engine of its own, turned by hand for each draft."""

from __future__ import annotations

import numpy as np

from headwater.core.errors import UserInputError
from headwater.core.events import Arrive
from headwater.core.params import SamplingParams
from headwater.core.request import Request
from headwater.engine.engine import Engine
from headwater.engine.text import TextModel


class DraftModel:
    """Continues tokens greedily. What it computed for the last draft is found in its own prefix index by the next one."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._count = 0

    def __call__(self, tokens: np.ndarray, most: int, salt: str) -> np.ndarray:
        """int32[n] tokens -> int32[≤ most] greedy continuation; empty where the small model cannot (its context is full)."""
        if len(tokens) + most > self._engine.scheduler.longest:
            return np.zeros(0, np.int32)
        self._count += 1
        params = SamplingParams(temperature=0.0, max_tokens=most, ignore_eos=True)
        self._engine.post(Arrive(Request(f"draft-{self._count}", tokens, params, most, cache_salt=salt)))
        out: list[np.ndarray] = []
        while (outputs := self._engine.run_once()) is not None:
            for o in outputs:
                if o.finish == "error":
                    return np.zeros(0, np.int32)
                out.append(o.ids)
        return np.concatenate(out).astype(np.int32) if out else np.zeros(0, np.int32)


def check_vocabulary(draft: TextModel, target: TextModel) -> None:
    """Raises UserInputError unless both models mean the same by every id."""
    a, b = draft.tokenizer, target.tokenizer
    if a.vocab_size != b.vocab_size:
        raise UserInputError(f"--draft model: '{draft.name}' has {a.vocab_size:,} tokens, '{target.name}' has {b.vocab_size:,}; "
                             "both must have the same vocabulary", "draft")
    differs = next((i for i in range(a.vocab_size) if a.token_bytes(i) != b.token_bytes(i)), None)
    if differs is not None:
        raise UserInputError(f"--draft model: token {differs} is {a.token_bytes(differs)!r} in '{draft.name}' and {b.token_bytes(differs)!r} in "
                             f"'{target.name}'; both must have the same vocabulary", "draft")
