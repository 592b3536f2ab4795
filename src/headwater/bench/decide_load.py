"""Decisions under load: closed-loop clients over one shared state beside running chats, against one large request alone."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from headwater.bench.load import percentile
from headwater.bench.peers.protocol import prompt
from headwater.core.params import SamplingParams
from headwater.decisions.annotations import yes_no
from headwater.decisions.types import DecisionRequest
from headwater.engine.build import EngineSpec, build_front
from headwater.engine.front import Front, GenerateRequest
from headwater.serve.context import Server
from headwater.serve.decide.run import decide
from headwater.serve.settings import ServeSettings


def _request(front: Front, state: str, n: int, seed: int) -> DecisionRequest:
    """n questions of about 20 tokens each that nobody asked before."""
    words = [front.detokenize(prompt(8, seed * 1000 + i)) for i in range(n)]
    return DecisionRequest(state, [yes_no(f"q{i}", w, None, None, f"questions.q{i}") for i, w in enumerate(words)])


async def _timed(server: Server, request: DecisionRequest) -> float:
    begin = time.perf_counter()
    await decide(server, request)
    return time.perf_counter() - begin


async def _chat(front: Front, gaps: list[float], stop: asyncio.Event) -> None:
    """One endless stream; the time between its deltas."""
    while not stop.is_set():
        params = SamplingParams(temperature=0.0, max_tokens=400, ignore_eos=True)
        async with front.submit(GenerateRequest(prompt(64, int(time.time() * 1e6) % 2**31), params)) as s:
            last = None
            async for delta in s:
                now = time.perf_counter()
                if last is not None and delta.token_ids:
                    gaps.append((now - last) / len(delta.token_ids))
                last = now
                if stop.is_set():
                    break


async def run(model: str, clients: int, questions: int, rounds: int, state_tokens: int, chats: int) -> dict[str, Any]:
    """-> seconds: latency of one request of clients · questions questions alone, percentiles under load, the chats' gaps."""
    front = build_front(EngineSpec(model=model))
    await front.start()
    try:
        server = Server(front, ServeSettings())
        state = front.detokenize(prompt(state_tokens, 5))
        await decide(server, _request(front, state, 1, 1))          # the state is kept from here on
        alone = [await _timed(server, _request(front, state, clients * questions, 100 + i)) for i in range(3)]
        gaps: list[float] = []
        stop = asyncio.Event()
        running = [asyncio.ensure_future(_chat(front, gaps, stop)) for _ in range(chats)]

        async def client(i: int) -> list[float]:
            return [await _timed(server, _request(front, state, questions, 1000 + i * rounds + r)) for r in range(rounds)]

        latencies = [x for xs in await asyncio.gather(*(client(i) for i in range(clients))) for x in xs]
        stop.set()
        await asyncio.gather(*running)
        one = sorted(alone)[1]
        return {
            f"one request of {clients * questions} questions, alone, s": one, "p50 under load, s": percentile(latencies, 50),
            "p95 under load, s": percentile(latencies, 95), "p95 / alone": percentile(latencies, 95) / one,
            "chat: longest gap, s": max(gaps, default=0.0), "chat: median gap, s": percentile(gaps, 50), "chat: tokens": float(len(gaps)),
        }
    finally:
        await front.close()
