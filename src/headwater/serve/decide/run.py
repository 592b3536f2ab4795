"""Run the reads of a decision on the front: the state is one held row, everything else forks from it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from headwater.core.errors import HeadwaterError
from headwater.core.params import SamplingParams
from headwater.core.request import ReadResult, ReadSpec
from headwater.decide import decider
from headwater.decide.calibration import Temperatures
from headwater.decide.decider import ReadItem, ReadValue, Work
from headwater.decide.types import DecisionRequest, DecisionResult
from headwater.engine.decisions import DecisionText
from headwater.engine.front import Front, GenerateRequest, Stream
from headwater.serve.context import Server, new_id

_GREEDY = SamplingParams(temperature=0.0, max_tokens=1)


async def decide(server: Server, request: DecisionRequest) -> DecisionResult:
    """Plan, read, answer. Raises the core errors of `decider.plan` and of the engine."""
    return (await decide_many(server, [request]))[0]


async def decide_many(server: Server, requests: Sequence[DecisionRequest]) -> list[DecisionResult]:
    """Several states at once: all their reads are in the engine together."""
    front = server.front
    context = front.model_info.context
    text = DecisionText(front.text)
    plans = [await asyncio.to_thread(decider.plan, r, text, context) for r in requests]
    values = await asyncio.gather(*(read(front, plan) for plan in plans))
    temperatures = Temperatures.load(Path(server.settings.temperatures)) if server.settings.temperatures else None
    return [decider.finish(plan, v, temperatures) for plan, v in zip(plans, values, strict=True)]


async def read(front: Front, work: Work) -> list[ReadValue]:
    """One ReadValue per item. The state row and the rows that others fork from are held until all is read."""
    root = new_id("dec")
    salt = work.request.cache_salt
    parents = {i.parent for i in work.items if i.parent >= 0}
    streams: list[Stream] = []
    held: list[str] = []
    try:
        if len(work.state_ids):
            held.append(root)
            streams.append(front.submit(_request(root, work.state_ids, ReadSpec(), None, 0, salt, hold=True)))
        for i, item in enumerate(work.items):
            parent = f"{root}.{item.parent}" if item.parent >= 0 else (root if len(work.state_ids) else None)
            hold = i in parents
            if hold:
                held.append(f"{root}.{i}")
            spec = ReadSpec(labels=item.labels, lse=item.lse)
            streams.append(front.submit(_request(f"{root}.{i}", item.ids, spec, parent, item.parent_pos, salt, hold=hold)))
        results = [await _collect(s) for s in streams]
    finally:
        for s in streams:
            await s.aclose()
        for request_id in held:
            front.release(request_id)
    if len(work.state_ids):
        state, results = results[0], results[1:]
        results[0] = (results[0][0], results[0][1] + state[1], state[2])
    return [_value(item, *r) for item, r in zip(work.items, results, strict=True)]


def _request(
    request_id: str, ids: np.ndarray, reads: ReadSpec, parent: str | None, position: int, salt: str, *, hold: bool
) -> GenerateRequest:
    return GenerateRequest(
        ids, _GREEDY, request_id=request_id, reads=reads, read_only=True, parent=parent, parent_pos=position, cache_salt=salt, hold=hold
    )


async def _collect(s: Stream) -> tuple[ReadResult | None, int, int]:
    """-> (what was read, prompt tokens computed, prompt tokens found)."""
    reads: ReadResult | None = None
    async for delta in s:
        reads = delta.reads or reads
    return reads, s.usage.prompt - s.usage.cached, s.usage.cached


def _value(item: ReadItem, reads: ReadResult | None, computed: int, cached: int) -> ReadValue:
    if reads is None or reads.labels is None or len(reads.labels) != len(item.labels):
        raise HeadwaterError("the engine returned no label logits for a decision")
    return ReadValue(reads.labels, reads.lse, computed, cached)
