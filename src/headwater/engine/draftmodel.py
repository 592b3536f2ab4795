"""The small model behind `--draft model:file=…`: an engine of its own, turned by hand for each draft."""

from __future__ import annotations

import numpy as np

from headwater.core.errors import UserInputError
from headwater.core.events import Arrive
from headwater.core.params import SamplingParams
from headwater.core.request import Output, ReadSpec, Request
from headwater.engine.engine import Engine
from headwater.engine.text import TextModel

DRAFT = 1                         # with a request's seed and a position: keys a draft's draw, independently of those that verify it


class DraftModel:
    """Continues tokens. What it computed for the last draft is found in its own prefix index by the next one."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._count = 0
        self._all = ReadSpec(labels=np.arange(engine.executor.caps().vocabulary, dtype=np.int32))

    def __call__(self, tokens: np.ndarray, most: int, salt: str) -> np.ndarray:
        """int32[n] tokens -> int32[≤ most] greedy continuation; empty where the small model cannot (its context is full)."""
        if len(tokens) + most > self._engine.scheduler.longest:
            return np.zeros(0, np.int32)
        params = SamplingParams(temperature=0.0, max_tokens=most, ignore_eos=True)
        out = [o.ids for o in self._ask(tokens, params, most, salt, ReadSpec())]
        return np.concatenate(out).astype(np.int32) if out else np.zeros(0, np.int32)

    def sample(self, tokens: np.ndarray, most: int, salt: str, temperature: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """-> (int32[k ≤ most] drawn one behind the other at `temperature`, float64[k, vocabulary] that each was drawn from)."""
        ids = tokens.astype(np.int32)
        laws: list[np.ndarray] = []
        for _ in range(most if len(tokens) + most <= self._engine.scheduler.longest else 0):
            said = self._ask(ids, SamplingParams(max_tokens=1), 0, salt, self._all)
            logits = said[-1].reads.labels if said and said[-1].reads is not None else None
            if logits is None or not np.isfinite(logits).all():
                break
            weights = np.exp((logits - logits.max()).astype(np.float64) / temperature)
            mass = np.cumsum(weights)
            u = np.random.default_rng([DRAFT, seed, len(ids)]).random()
            drawn = int(np.searchsorted(mass, u * mass[-1], side="right"))
            laws.append(weights / mass[-1])
            ids = np.append(ids, np.int32(drawn))
        return ids[len(tokens) :], np.array(laws)

    def _ask(self, tokens: np.ndarray, params: SamplingParams, most: int, salt: str, reads: ReadSpec) -> list[Output]:
        """All outputs of one request; none where it fails."""
        self._count += 1
        self._engine.post(Arrive(Request(f"draft-{self._count}", tokens, params, most, cache_salt=salt, reads=reads)))
        out: list[Output] = []
        failed = False
        while (outputs := self._engine.run_once()) is not None:
            failed = failed or any(o.finish == "error" for o in outputs)
            out += outputs
        return [] if failed else out


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
