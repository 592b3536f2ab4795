"""Run the reads of a decision on the front: the state is one held row, everything else forks from it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from headwater.core.errors import UserInputError
from headwater.decisions import decider
from headwater.decisions.decider import ReadValue, Work
from headwater.decisions.types import DecisionRequest, DecisionResult
from headwater.engine.decisions import DecisionText, ReadOutcome, requests_of, values_of
from headwater.engine.front import Front, Stream
from headwater.serve.context import Server

MAX_QUESTIONS = 4096                                                # of one request, whatever its dialect: more would keep everybody else out
SUBMIT_AT_ONCE = 64


async def decide(server: Server, request: DecisionRequest, check: Callable[[Work], None] | None = None) -> DecisionResult:
    """Plan, read, answer. Raises the core errors of `decider.plan` and of the engine, and what `check` (a dialect's limits) raises of the plan."""
    return (await decide_many(server, [request], check))[0]


async def decide_many(
    server: Server, requests: Sequence[DecisionRequest], check: Callable[[Work], None] | None = None
) -> list[DecisionResult]:
    """Several states at once: all their reads are in the engine together."""
    for request in requests:
        if len(request.questions) > MAX_QUESTIONS:
            raise UserInputError(f"questions: {len(request.questions):,} questions, at most {MAX_QUESTIONS:,} are allowed", "questions")
    front = server.front
    text, context = DecisionText(front.text), front.model_info.context
    plans = [await asyncio.to_thread(decider.plan, r, text, context) for r in requests]
    for plan in plans:
        if check is not None:
            check(plan)
    values = await asyncio.gather(*(read(front, plan) for plan in plans))
    return [decider.finish(plan, v, server.temperatures) for plan, v in zip(plans, values, strict=True)]


async def read(front: Front, work: Work) -> list[ReadValue]:
    """One ReadValue per item. Rows that others fork from are held until all is read."""
    wanted = requests_of(work)
    streams: list[Stream] = []
    try:
        for i, g in enumerate(wanted.requests):
            if i % SUBMIT_AT_ONCE == SUBMIT_AT_ONCE - 1:
                await asyncio.sleep(0)                               # let other requests be heard
            streams.append(front.submit(g))
        outcomes = [await _collect(s) for s in streams]
    finally:
        for s in streams:
            await s.aclose()
        for request_id in wanted.held:
            front.release(request_id)
    return values_of(work, outcomes, wanted.has_state)


async def _collect(s: Stream) -> ReadOutcome:
    reads = None
    async for delta in s:
        reads = delta.reads or reads
    return ReadOutcome(reads, s.usage.prompt, s.usage.cached)
