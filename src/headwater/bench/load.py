"""Load on a server: Poisson, constant, closed loop or a trace; percentiles of TTFT and ITL, goodput against objectives."""

from __future__ import annotations

import asyncio
import csv
import json
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

from headwater.core.errors import UserInputError


@dataclass(frozen=True, slots=True)
class Arrival:
    """at: seconds after the start; prompt and output in tokens."""

    at: float
    prompt: int
    output: int


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
    """The first `count` rows of an Azure LLM trace (TIMESTAMP, ContextTokens, GeneratedTokens), `speed` times as fast; cut to `longest`."""
    from datetime import datetime

    try:
        with path.open(newline="") as f:
            rows = [row for _, row in zip(range(count), csv.DictReader(f), strict=False)]
        stamps = [datetime.fromisoformat(r["TIMESTAMP"][:26]).timestamp() for r in rows]
        lengths = [(int(r["ContextTokens"]), int(r["GeneratedTokens"])) for r in rows]
    except (OSError, KeyError, ValueError) as e:
        raise UserInputError(f"{path}: not a trace with TIMESTAMP, ContextTokens, GeneratedTokens ({e!r})", field=str(path)) from None
    return [Arrival((t - stamps[0]) / speed, max(1, min(p, longest - 1)), max(1, min(o, longest - min(p, longest - 1)))) for t, (p, o) in
            zip(stamps, lengths, strict=True)]


def need_loopback(url: str) -> None:
    """Load goes to this machine only."""
    host = urlparse(url).hostname
    if host not in ("127.0.0.1", "localhost", "::1"):
        raise UserInputError(f"{url}: load is sent to loopback addresses only", field="url")


async def run(url: str, load: Sequence[Arrival], parallel: int, seed: int, progress: Any = None) -> list[Served]:
    """Send everything, at its time; at most `parallel` at once (0 = no bound)."""
    import httpx

    need_loopback(url)
    gate = asyncio.Semaphore(parallel or len(load) or 1)
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=100)
    async with httpx.AsyncClient(base_url=url, timeout=None, limits=limits) as client:
        name = (await client.get("/v1/models")).json()["data"][0]["id"]
        begin = time.perf_counter()

        async def one(i: int, a: Arrival) -> Served:
            await asyncio.sleep(max(0.0, a.at - (time.perf_counter() - begin)))
            async with gate:
                served = await _ask(client, name, a, seed * 1_000_003 + i)
            if progress:
                progress()
            return served

        return list(await asyncio.gather(*(one(i, a) for i, a in enumerate(load))))


async def _ask(client: Any, name: str, a: Arrival, seed: int) -> Served:
    from headwater.bench.peers.protocol import prompt

    body = {
        "model": name, "prompt": prompt(a.prompt, seed), "max_tokens": a.output, "temperature": 0, "ignore_eos": True, "stream": True,
        "return_token_ids": True,
    }
    out, begin = Served(), time.perf_counter()
    last = begin
    try:
        async with client.stream("POST", "/v1/completions", json=body) as r:
            if r.status_code != 200:
                out.error = f"{r.status_code}: {(await r.aread())[:200].decode('utf-8', 'replace')}"
                return out
            async for line in r.aiter_lines():
                if not line.startswith("data: {"):
                    continue
                event = json.loads(line[6:])
                if "error" in event:
                    out.error = event["error"]["message"]
                    return out
                n = len(event["choices"][0].get("token_ids") or ()) if event["choices"] else 0
                now = time.perf_counter()
                if n and not out.tokens:
                    out.ttft = now - begin
                elif n:
                    out.gaps += [(now - last) / n] * n
                if n:
                    out.tokens, last = out.tokens + n, now
    except (OSError, ValueError, RuntimeError) as e:
        out.error = f"{type(e).__name__}: {e}"
    out.total = time.perf_counter() - begin
    return out


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
