"""Load on a server: Poisson, constant, closed loop or a trace; percentiles of TTFT and ITL, goodput against objectives.

A trace is replayed with its lengths, its bursts and, where it has them (Mooncake), its shared prefixes.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlparse

from headwater.core.errors import UserInputError

if TYPE_CHECKING:
    from headwater.sim.traces import Trace


@dataclass(frozen=True, slots=True)
class Arrival:
    """at: seconds after the start; prompt and output in tokens. ids: the prompt itself where a trace says what is shared, else made up."""

    at: float
    prompt: int
    output: int
    ids: Callable[[int], list[int]] | None = None


@dataclass(slots=True)
class Served:
    """Times of one request in seconds since its arrival. gaps: between deltas, per token."""

    ttft: float = 0.0
    total: float = 0.0
    tokens: int = 0
    gaps: list[float] = field(default_factory=list)
    error: str | None = None


def arrivals(kind: str, rate: float, count: int, prompt: int, output: int, seed: int) -> list[Arrival]:
    """`poisson` or `constant` at `rate` requests/s; `closed`: all at once (the caller bounds how many run)."""
    rng = random.Random(seed)
    out, at = [], 0.0
    for _ in range(count):
        out.append(Arrival(at, prompt, output))
        if kind == "poisson":
            at += rng.expovariate(rate)
        elif kind == "constant":
            at += 1.0 / rate
    return out


def from_trace(path: Path, count: int, speed: float, longest: int) -> list[Arrival]:
    """The first `count` requests of an Azure LLM (.csv) or Mooncake (.jsonl) trace, `speed` times as fast; prompt and output are cut to `longest`.

    Raises UserInputError naming the line that cannot be read.
    """
    from headwater.sim.traces import load

    trace = load(path).part(count)
    out = []
    for i, (at, p, o) in enumerate(zip(trace.time.tolist(), trace.prompt.tolist(), trace.output.tolist(), strict=True)):
        p = min(p, longest - 1)
        ids = None if trace.blocks is None else partial(_traced_ids, trace, i, p)
        out.append(Arrival((at - float(trace.time[0])) / speed, p, max(1, min(o, longest - p)), ids))
    return out


def _traced_ids(trace: Trace, i: int, n: int, vocabulary: int) -> list[int]:
    return [int(t) for t in trace.ids(i, vocabulary)[:n]]


def need_loopback(url: str) -> None:
    """Load goes to this machine only."""
    host = urlparse(url).hostname
    if host not in ("127.0.0.1", "localhost", "::1"):
        raise UserInputError(f"{url}: load is sent to loopback addresses only", field="url")


async def run(url: str, load: Sequence[Arrival], parallel: int, seed: int, progress: Any = None, api_key: str | None = None) -> list[Served]:
    """Send everything, at its time; at most `parallel` at once (0 = no bound). Raises UserInputError where no server answers."""
    import httpx

    need_loopback(url)
    gate = asyncio.Semaphore(parallel or len(load) or 1)
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=100)
    headers = {"authorization": f"Bearer {api_key}"} if api_key else {}
    async with httpx.AsyncClient(base_url=url, timeout=None, limits=limits, headers=headers) as client:
        name, vocabulary = await _served_model(client, url)
        begin = time.perf_counter()

        async def one(i: int, a: Arrival) -> Served:
            await asyncio.sleep(max(0.0, a.at - (time.perf_counter() - begin)))
            async with gate:
                ids = a.ids(vocabulary) if a.ids else _made_up_ids(a.prompt, seed * 1_000_003 + i, vocabulary)
                served = await _ask(client, name, ids, a.output)
            if progress:
                progress()
            return served

        return list(await asyncio.gather(*(one(i, a) for i, a in enumerate(load))))


async def _served_model(client: Any, url: str) -> tuple[str, int]:
    """-> (name, ids that prompts are made of; servers that do not say get 40,000)."""
    import httpx

    try:
        r = await client.get("/v1/models")
        r.raise_for_status()
        name = r.json()["data"][0]["id"]
        info = await client.get("/tokenizer_info")
        vocabulary = int(info.json()["vocab_size"]) if info.status_code == 200 else 40_000
    except (httpx.HTTPError, ValueError, LookupError) as e:
        raise UserInputError(f"{url}: no server that lists its models there ({e or type(e).__name__})", field="url") from None
    return name, min(vocabulary, 40_000)


def _made_up_ids(n: int, seed: int, vocabulary: int) -> list[int]:
    from headwater.bench.peers.protocol import prompt

    ids = prompt(n, seed, 40_000)
    return ids if vocabulary >= 40_000 else [t % min(vocabulary, 256) for t in ids]


async def _ask(client: Any, name: str, ids: list[int], output: int) -> Served:
    import httpx

    body = {
        "model": name, "prompt": ids, "max_tokens": output, "temperature": 0, "ignore_eos": True, "stream": True, "return_token_ids": True,
    }
    out, begin = Served(), time.perf_counter()
    try:
        async with client.stream("POST", "/v1/completions", json=body) as r:
            if r.status_code != 200:
                out.error = f"{r.status_code}: {(await r.aread())[:200].decode('utf-8', 'replace')}"
                return out
            await _time_events(r, out, begin)
    except (httpx.HTTPError, OSError, ValueError) as e:
        out.error = f"{type(e).__name__}: {e}"
    out.total = time.perf_counter() - begin
    return out


async def _time_events(r: Any, out: Served, begin: float) -> None:
    last = begin
    async for line in r.aiter_lines():
        if not line.startswith("data: {"):
            continue
        event = json.loads(line[6:])
        if "error" in event:
            out.error = event["error"]["message"]
            return
        n = len(event["choices"][0].get("token_ids") or ()) if event["choices"] else 0
        now = time.perf_counter()
        if n and not out.tokens:
            out.ttft = now - begin
        elif n:
            out.gaps += [(now - last) / n] * n
        if n:
            out.tokens, last = out.tokens + n, now


def percentile(values: Sequence[float], q: float) -> float:
    """Linear interpolation; 0 for no values."""
    if not values:
        return 0.0
    s = sorted(values)
    x = q / 100 * (len(s) - 1)
    low = int(x)
    return s[low] + (s[min(low + 1, len(s) - 1)] - s[low]) * (x - low)


def summary(served: Sequence[Served], seconds: float, ttft_limit: float, tpot_limit: float) -> dict[str, float]:
    """TTFT, ITL and TPOT in seconds, rates per second; goodput counts requests that met both limits (0 = no limit)."""
    ok = [s for s in served if s.error is None and s.tokens]
    ttft, gaps = [s.ttft for s in ok], [g for s in ok for g in s.gaps]
    tpot = [sum(s.gaps) / len(s.gaps) for s in ok if s.gaps]
    good = [s for s in ok if (not ttft_limit or s.ttft <= ttft_limit) and (not tpot_limit or not s.gaps or sum(s.gaps) / len(s.gaps) <= tpot_limit)]
    out = {"requests": float(len(served)), "failed": float(len(served) - len(ok)), "requests/s": len(ok) / seconds}
    out |= {"tokens/s": sum(s.tokens for s in ok) / seconds, "goodput/s": len(good) / seconds}
    for name, values in (("ttft", ttft), ("itl", gaps), ("tpot", tpot), ("e2e", [s.total for s in ok])):
        out |= {f"{name} p{q}": percentile(values, q) for q in (50, 95, 99)}
    return out | {"itl max": max(gaps, default=0.0)}
