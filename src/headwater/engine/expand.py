"""From what a caller wants to the requests that an engine knows: one per choice, checked against the model's limits."""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from headwater.core.errors import CapacityError, ContextLengthError, HeadwaterError, UserInputError
from headwater.core.params import SamplingParams, choice_seed
from headwater.core.request import Output, ReadSpec, Request
from headwater.core.unicode import encodable
from headwater.engine.client import GRAMMAR_FIELD, Grammar
from headwater.engine.text import ANY, grammar_spec

# how the engine's failures begin where the request asked for what cannot be, and the field that did
_WISHES = {f"{GRAMMAR_FIELD}:": GRAMMAR_FIELD, "grammar of this request: the grammar": GRAMMAR_FIELD, "no token is allowed here": "allowed_token_ids"}
MESSAGE_BORDERS = 8                                                 # newest ends of turns in a prompt that are worth a checkpoint


@dataclass(slots=True)
class GenerateRequest:
    """What a caller wants. prompt: token ids. request_id: made up when None. max_tokens None in `params` = the rest of the context.

    read_only: nothing is sampled, only `reads` are served. timeout: seconds that it may wait in the queue. parent, parent_pos, hold: see `Request`.
    """

    prompt: Sequence[int] | np.ndarray
    params: SamplingParams = field(default_factory=SamplingParams)
    request_id: str | None = None
    reads: ReadSpec = field(default_factory=ReadSpec)
    read_only: bool = False
    grammar: Grammar | None = None
    priority: int = 0
    owner: str = ""
    cache_salt: str = ""
    parent: str | None = None
    parent_pos: int = 0
    hold: bool = False
    timeout: float | None = None


def expand(
    g: GenerateRequest, context: int, vocabulary: int, stop_ids: frozenset[int], arrival: float = 0.0, *, generates: bool = True
) -> list[Request]:
    """A caller's request -> one Request per choice; choice i > 0 is a fork of choice 0 behind the prompt, with the seed choice_seed(seed, i).

    Raises ContextLengthError with both numbers, UserInputError naming the field.
    """
    p = g.params
    if not generates and (not g.read_only or g.reads.labels is not None or g.reads.lse or g.reads.score_from is not None):
        raise UserInputError("model: this one embeds texts; it cannot generate or score", "model")
    prompt = _prompt_ids(g.prompt, vocabulary)
    room = context - len(prompt)
    if room < (0 if g.read_only else 1):
        raise ContextLengthError(f"prompt: {len(prompt):,} tokens do not fit the model's context of {context:,}", "prompt")
    if p.max_tokens is not None and p.max_tokens > room and not g.read_only:
        both = len(prompt) + p.max_tokens
        raise ContextLengthError(
            f"max_tokens: {len(prompt):,} prompt tokens + {p.max_tokens:,} wanted = {both:,}; the model's context is {context:,}", "max_tokens"
        )
    for name, texts in (("cache_salt", [g.cache_salt]), ("request_id", [g.request_id or ""]), ("stop", p.stop or ())):
        for text in texts:
            encodable(text, name)
    if not -(2**31) <= g.priority < 2**31:                           # the scheduler keeps it as int32
        raise UserInputError(f"priority: must be an integer from {-(2**31)} to {2**31 - 1}, got {g.priority}", "priority")
    for name in ("logit_bias", "allowed_token_ids", "stop_token_ids"):
        bad = [t for t in (getattr(p, name) or ()) if not 0 <= t < vocabulary]
        if bad:
            raise UserInputError(f"{name}: token id {bad[0]} is outside the vocabulary of {vocabulary:,}", name)
    reads = g.reads
    if p.prompt_logprobs is not None and reads.score_from is None:
        reads = replace(reads, score_from=1, prompt_top=p.prompt_logprobs)
    max_new = 0 if g.read_only else p.max_tokens if p.max_tokens is not None else room
    if g.grammar is not None:
        grammar_spec(g.grammar)
    # a complete grammar leaves only ends of turn to draw: they stop the row even where ignore_eos is set
    ruled = g.grammar is not None and g.grammar.kind != ANY
    stops = (frozenset() if p.ignore_eos and not ruled else stop_ids) | frozenset(p.stop_token_ids)
    ends = np.flatnonzero(np.isin(prompt, list(stop_ids)))[-MESSAGE_BORDERS:] + 1
    seed = p.seed if p.seed is not None else secrets.randbits(63)
    root = g.request_id or f"req-{uuid.uuid4().hex[:24]}"
    salt = g.cache_salt if generates else f"{g.cache_salt}/{root}"   # where tokens see what follows them, no prefix means the same twice
    return [
        Request(
            request_id=root if i == 0 else f"{root}/{i}", prompt=prompt, params=p, max_new=max_new, stop_ids=stops, seed=choice_seed(seed, i),
            arrival=arrival, priority=g.priority, owner=g.owner, cache_salt=salt, parent=g.parent if i == 0 else root,
            parent_pos=g.parent_pos if i == 0 else len(prompt), hold=g.hold and i == 0, borders=tuple(ends.tolist()),
            deadline=None if g.timeout is None else arrival + g.timeout, reads=reads if i == 0 else ReadSpec(),
            mask=None if g.grammar is None else (root if i == 0 else f"{root}/{i}"),
        )
        for i in range(1 if g.read_only else p.n)
    ]


def _prompt_ids(prompt: Sequence[int] | np.ndarray, vocabulary: int) -> np.ndarray:
    ids = np.asarray(prompt)
    if ids.ndim != 1 or (ids.size and ids.dtype.kind not in "iu"):
        raise UserInputError("prompt: must be a flat list of token ids", "prompt")
    if not ids.size:
        raise UserInputError("prompt: is empty; the model needs at least one token", "prompt")
    bad = ids[(ids < 0) | (ids >= vocabulary)]
    if bad.size:
        raise UserInputError(f"prompt: token id {bad[0]} is outside the vocabulary of {vocabulary:,}", "prompt")
    return ids.astype(np.int32)


def failure(out: Output) -> HeadwaterError:
    """The exception that an Output with finish 'error' stands for."""
    message = out.error or "the engine failed this request without saying why"
    for begin, name in _WISHES.items():
        if message.startswith(begin):
            return UserInputError(message if begin.startswith(name) else f"{name}: {message}", name)
    return HeadwaterError(message) if out.retry_after is None else CapacityError(message, out.retry_after)
