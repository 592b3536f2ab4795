"""Random requests of every shape, asked with and without drafts, and what must not differ."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Any

from headwater.core.events import Cancel
from headwater.core.params import SamplingParams
from headwater.engine.client import Grammar
from headwater.engine.expand import GenerateRequest
from headwater.engine.offline import Offline

SCHEMA = {
    "type": "object", "properties": {"name": {"type": "string", "maxLength": 6}, "kind": {"enum": ["alpha", "beta"]}, "n": {"type": "integer"}},
    "required": ["name", "kind", "n"], "additionalProperties": False,
}
GRAMMARS = [Grammar("json_schema", SCHEMA), Grammar("regex", "(spam|ham), [a-c]{3}; the very same end"), Grammar("choice", ["maybe so", "certainly"])]


@dataclass
class Asked:
    """want: the request; cancel_at: tokens of choice 0 after which it is cancelled (None = never)."""

    want: GenerateRequest
    cancel_at: int | None = None


@dataclass
class Said:
    """What one choice brought: everything that a client sees but the cuts of the stream."""

    ids: list[int]
    text: str
    finish: str | None
    reason: Any
    logprobs: Any


def prompt(rng: random.Random, vocabulary: int) -> list[int]:
    """Repetitive, so that drafts are made and often hold."""
    words = [[rng.randrange(32, vocabulary) for _ in range(rng.randrange(2, 6))] for _ in range(3)]
    return [t for _ in range(rng.randrange(2, 12)) for t in rng.choice(words)]


def request(rng: random.Random, vocabulary: int, longest: int = 60, *, grammar: bool | None = None, marker: int = 126) -> Asked:
    """grammar: certainly one with a grammar that runs to its end (True), or without (False). marker: an id that some ask for more."""
    params = SamplingParams(
        temperature=rng.choice([0.0, 0.0, 0.7, 1.3]), top_p=rng.choice([1.0, 0.9]), top_k=rng.choice([0, 5]), min_p=rng.choice([0.0, 0.0, 0.05]),
        seed=rng.randrange(2**40), max_tokens=rng.randrange(1, longest), min_tokens=0, n=rng.choice([1, 1, 3]), logprobs=rng.choice([None, 0, 3]),
        ignore_eos=rng.random() < 0.6, repetition_penalty=rng.choice([1.0, 1.0, 1.2]), presence_penalty=rng.choice([0.0, 0.0, 0.5]),
        frequency_penalty=rng.choice([0.0, 0.0, 0.3]), stop=rng.choice([None, None, "e", "the", "~a"]),
        logit_bias=rng.choice([{}, {40: 5.0}, {marker: 4.0}]),
    )
    rules = rng.choice(GRAMMARS) if grammar or (grammar is None and rng.random() < 0.3) else None
    if rules is not None:
        params = replace(params, max_tokens=80, stop=None)
    cancel = rng.randint(1, params.max_tokens or 2) if rng.random() < 0.2 and not grammar else None
    return Asked(GenerateRequest(prompt(rng, vocabulary), params, grammar=rules, cache_salt=rng.choice(["", "", "other"])), cancel)


def ask(offline: Offline, asked: list[Asked], name: str) -> list[list[Said]]:
    """All at once, streamed; -> per request its choices, joined from the deltas."""
    wants = [replace(a.want, request_id=f"{name}-{i}") for i, a in enumerate(asked)]
    said = [[Said([], "", None, None, None) for _ in range(w.params.n)] for w in wants]

    def take(i: int, d: Any) -> None:
        s = said[i][d.index]
        s.ids += d.token_ids
        s.text += d.text
        s.finish, s.reason = d.finish_reason or s.finish, d.stop_reason or s.reason
        if d.logprobs is not None:
            tops = [(e.token, e.logprob, e.top_ids.tolist(), e.top_values.tolist()) for e in d.logprobs]
            s.logprobs = (s.logprobs or []) + tops
        at = asked[i].cancel_at
        if at is not None and d.index == 0 and len(s.ids) >= at:
            offline.engine.post(Cancel(f"{name}-{i}"))

    offline.run(wants, take)
    return said


def same(asked: Asked, plain: list[Said], drafted: list[Said], label: str) -> None:
    """Bit for bit; of a cancelled choice what both heard before the end (a drafted one may be further when it is told)."""
    for i, (p, d) in enumerate(zip(plain, drafted, strict=True)):
        if asked.cancel_at is not None and i == 0 and "abort" in (p.finish, d.finish):
            n = min(len(p.ids), len(d.ids))
            assert n >= asked.cancel_at, label
            assert p.ids[:n] == d.ids[:n], label
            assert (p.logprobs or [])[:n] == (d.logprobs or [])[:n], label
        else:
            assert p == d, label
