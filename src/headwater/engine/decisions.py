"""Decisions on an engine: prompts of two messages, and the reads of a decision as requests that fork from one held state."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from headwater.core.errors import HeadwaterError, UserInputError
from headwater.core.params import SamplingParams
from headwater.core.request import ReadResult, ReadSpec
from headwater.decisions import decider
from headwater.decisions.calibration import Temperatures
from headwater.decisions.decider import ReadValue, Work
from headwater.decisions.types import DecisionRequest, DecisionResult
from headwater.engine.expand import GenerateRequest
from headwater.engine.offline import Answer, Offline
from headwater.engine.text import TextModel

_GREEDY = SamplingParams(temperature=0.0, max_tokens=1)


class DecisionText:
    """`decisions.decider.TextSide` over a tokenizer and a template; models without a template get plain headings."""

    def __init__(self, text: TextModel) -> None:
        self.text = text

    def prompt_ids(self, first: str, second: str, answer_prefix: str) -> np.ndarray:
        """int32 ids of (state message, question message) up to where the answer starts."""
        if self.text.has_chat:
            ids = self.text.render_chat([{"role": "system", "content": first}, {"role": "user", "content": second}])
            tail = self.text.tokenizer.encode(answer_prefix, add_special=False) if answer_prefix else []
            return np.array([*ids, *tail], np.int32)
        return np.array(self.text.tokenizer.encode(f"{first}\n\n# Question\n{second}\n\n# Answer\n{answer_prefix}"), np.int32)

    def label_ids(self, text: str) -> tuple[int, ...]:
        return tuple(self.text.tokenizer.encode(text, add_special=False))

    def terminator(self) -> tuple[int, ...]:
        """The lowest end-of-turn id. Raises UserInputError where the model has none."""
        if not self.text.stop_ids:
            raise UserInputError("labels: this model has no end-of-turn token, option texts cannot be told apart from their beginnings", "labels")
        return (min(self.text.stop_ids),)


@dataclass(slots=True)
class ReadRequests:
    """The engine requests of one Work: the state (if any is shared) first, then one per item. held: ids to release when all is read."""

    requests: list[GenerateRequest]
    held: list[str]
    has_state: bool


def requests_of(work: Work) -> ReadRequests:
    """Rows that others fork from are held; nothing is sampled."""
    root = f"dec-{uuid.uuid4().hex[:20]}"
    salt = work.request.cache_salt
    has_state = len(work.state_ids) > 0
    parents = {i.parent for i in work.items if i.parent >= 0}

    def request(request_id: str, ids: np.ndarray, reads: ReadSpec, parent: str | None, position: int, hold: bool) -> GenerateRequest:
        return GenerateRequest(
            ids, _GREEDY, request_id=request_id, reads=reads, read_only=True, parent=parent, parent_pos=position, cache_salt=salt, hold=hold
        )

    out = [request(root, work.state_ids, ReadSpec(), None, 0, True)] if has_state else []
    for i, item in enumerate(work.items):
        parent = f"{root}.{item.parent}" if item.parent >= 0 else (root if has_state else None)
        out.append(request(f"{root}.{i}", item.ids, ReadSpec(labels=item.labels, lse=item.lse), parent, item.parent_pos, i in parents))
    held = [root] * has_state + [f"{root}.{i}" for i in sorted(parents)]
    return ReadRequests(out, held, has_state)


@dataclass(slots=True)
class ReadOutcome:
    """What came back for one request: reads, prompt tokens in all, prompt tokens whose state was found."""

    reads: ReadResult | None
    prompt: int
    cached: int


def values_of(work: Work, outcomes: Sequence[ReadOutcome], has_state: bool) -> list[ReadValue]:
    """One ReadValue per item; the state's own tokens count with the first. Raises HeadwaterError where the engine read nothing."""
    state = outcomes[0] if has_state else ReadOutcome(None, 0, 0)
    values: list[ReadValue] = []
    for item, o in zip(work.items, outcomes[has_state:], strict=True):
        if o.reads is None or o.reads.labels is None or len(o.reads.labels) != len(item.labels):
            raise HeadwaterError("the engine returned no label logits for a decision")
        values.append(ReadValue(o.reads.labels, o.reads.lse, o.prompt - o.cached, 0))
    values[0].computed += state.prompt - state.cached
    values[0].cached = state.cached
    return values


def decide_offline(offline: Offline, requests: Sequence[DecisionRequest], temperatures: Temperatures | None = None) -> list[DecisionResult]:
    """Several states at once on the synchronous front; all their reads are in the engine together."""
    text, context = DecisionText(offline.text), offline.engine.executor.caps().context
    works = [decider.plan(r, text, context) for r in requests]
    reads = [requests_of(w) for w in works]
    try:
        answers = offline.run([g for r in reads for g in r.requests])
    finally:
        for r in reads:
            for request_id in r.held:
                offline.release(request_id)
    out, at = [], 0
    for work, r in zip(works, reads, strict=True):
        mine = [_outcome(a) for a in answers[at : at + len(r.requests)]]
        at += len(r.requests)
        out.append(decider.finish(work, values_of(work, mine, r.has_state), temperatures))
    return out


def _outcome(a: Answer) -> ReadOutcome:
    return ReadOutcome(a.choices[0].reads, a.usage.prompt, a.usage.cached)


def load_temperatures(path: str | None) -> Temperatures | None:
    return None if path is None else Temperatures.load(Path(path))
