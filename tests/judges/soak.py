"""Soak: many mixed requests on a real server; the anonymous memory of front and engine must stay flat.

    python tests/judges/soak.py [--model echo] [--requests 10000] [--warm 1000] [--growth 0.02] [--clients 8]

Requests are of every kind that the server knows, whole and streamed, some left half-way, some wrong. The KV memory is small enough that it, the
prefix index over it and the store of compiled grammars are full after `--warm` requests; these come from twice as many clients and the largest
grammars first, since the heaps of Python and C grow by the MiB and keep what a crowd once took. Then memory is measured; at the end it may have grown
by `--growth` at most, and at no look (five a second) may the engine have held 10 % more than was planned, Python itself apart. Prints a line each
10 % and a verdict; exit code 1 where a bound is broken.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
from collections import Counter
from pathlib import Path

import httpx

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.trouble.serving import Served, serving

from headwater.engine.build import EngineSpec, survey

SMALL = {"echo": {"kv_memory": "64K"}}
SMALL_REAL = {"kv_memory": "64M", "context": 2048}
LOOK_SECONDS = 0.2
SCHEMA_KIND, FULL_STORE = 7, 80                                     # the first requests bring the largest grammars, more than the engine keeps
PYTHON = 40 * 2**20                                                 # an engine without a model: interpreter, numpy, llguidance
WORDS = ("river", "water", "turns", "the", "mill", "while", "people", "talk", "about", "weather", "bread", "and", "long", "way", "home", "stones")
SCHEMA = {"type": "object", "properties": {"a": {"enum": ["x", "y"]}, "n": {"type": "integer", "maximum": 99}}, "required": ["a"]}


def anonymous(pid: int) -> int:
    """Bytes of anonymous resident memory."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise ValueError(f"/proc/{pid}/status has no RssAnon")


def request(rng: random.Random, model: str, kind: int | None = None) -> tuple[str, dict, str]:
    """-> (path, body, what is done with it: whole, stream, leave or wrong). kind: None = any."""
    text = " ".join(rng.choices(WORDS, k=rng.choice((3, 20, 80))))
    chat = {"messages": [{"role": "user", "content": text}], "max_tokens": rng.randint(1, 32), "model": model}
    kind = rng.randrange(14) if kind is None else kind
    if kind < 3:
        return "/v1/chat/completions", chat, "whole"
    if kind < 6:
        return "/v1/chat/completions", {**chat, "stream": True, "n": rng.choice((1, 1, 2))}, rng.choice(("stream", "stream", "leave"))
    if kind == 6:
        return "/v1/completions", {"prompt": [text, text + " again"], "max_tokens": 8, "logprobs": 3, "echo": True, "model": model}, "whole"
    if kind == SCHEMA_KIND:                                                   # a schema that nobody has sent before, as the expression below
        schema = {"type": "json_schema", "json_schema": {"name": "s", "schema": {**SCHEMA, "title": f"t{rng.randrange(10**6)}"}}}
        return "/v1/chat/completions", {**chat, "response_format": schema}, "whole"
    if kind == 8:
        decide = {"model": model, "state": text, "questions": {w: {"type": "noul", "instructions": f"is it {w}?"} for w in rng.sample(WORDS, 3)}}
        return "/v1/systemone", decide, "whole"
    if kind == 9:
        return "/v1/messages", chat, "whole"
    if kind == 10:
        return "/api/chat", {**chat, "stream": True, "options": {"num_predict": chat["max_tokens"]}}, "stream"
    if kind == 11:
        return "/v1/embeddings", {"input": [text, text[:20]], "model": model}, "whole"
    if kind == 12:
        return "/v1/completions", {"prompt": text, "max_tokens": 8, "guided_regex": f"[a-z]{{3}} {rng.randrange(10**6)}", "model": model}, "whole"
    return "/v1/chat/completions", {**chat, rng.choice(("temperature", "top_p", "n")): -5}, "wrong"


async def one(client: httpx.AsyncClient, rng: random.Random, model: str, kind: int | None = None) -> str:
    """Send one request. -> its kind and status."""
    path, body, way = request(rng, model, kind)
    if way in ("whole", "wrong"):
        return f"{way} {(await client.post(path, json=body)).status_code}"
    async with client.stream("POST", path, json=body) as r:
        async for _ in r.aiter_lines():
            if way == "leave":
                break
    return f"{way} {r.status_code}"


async def soak(served: Served, n: int, warm: int, clients: int) -> tuple[Counter[str], dict[str, tuple[int, int, int]]]:
    """-> (outcomes, {process: (bytes after the first `warm`, bytes at the end, most bytes at any look)})."""
    rng, seen, done = random.Random(0), Counter[str](), 0
    pids = {"front": served.process.pid, "engine": served.engine}
    most = dict.fromkeys(pids, 0)

    async def look() -> None:
        while True:
            for p, pid in pids.items():
                most[p] = max(most[p], anonymous(pid))
            await asyncio.sleep(LOOK_SECONDS)

    async with httpx.AsyncClient(base_url=served.url, timeout=600) as client:
        model = (await client.get("/v1/models")).json()["data"][0]["id"]

        async def worker(upto: int) -> None:
            nonlocal done
            while done < upto:
                done += 1
                k = done
                seen[await one(client, rng, model, SCHEMA_KIND if k <= FULL_STORE else None)] += 1
                if k % max(n // 10, 1) == 0:
                    print(f"{k:7,} " + "  ".join(f"{p} {anonymous(pid) / 2**20:8.1f} MiB" for p, pid in pids.items()), flush=True)

        looking = asyncio.create_task(look())
        await asyncio.gather(*(worker(warm) for _ in range(2 * clients)))
        first = {p: anonymous(pid) for p, pid in pids.items()}
        await asyncio.gather(*(worker(n) for _ in range(clients)))
        await asyncio.sleep(1)
        looking.cancel()
    return seen, {p: (first[p], anonymous(pid), most[p]) for p, pid in pids.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", default="echo")
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--warm", type=int, default=1_000)
    parser.add_argument("--growth", type=float, default=0.02)
    parser.add_argument("--clients", type=int, default=8)
    args = parser.parse_args()
    small = SMALL.get(args.model, SMALL_REAL)
    planned = survey(EngineSpec(args.model, **small)).total if args.model not in SMALL else 0
    options = [part for name, value in small.items() for part in (f"--{name.replace('_', '-')}", str(value))]
    with serving(args.model, "--no-access-log", *options) as served:
        pid = served.engine
        seen, memory = asyncio.run(soak(served, args.requests, args.warm, args.clients))
        same = served.engine == pid
    print(", ".join(f"{k}: {v:,}" for k, v in sorted(seen.items())))
    good = same and not any(k.endswith(" 500") or k.endswith(" 503") for k in seen)
    for name, (before, after, _) in memory.items():
        growth = after / before - 1
        good &= growth < args.growth
        print(f"{name}: {before / 2**20:.1f} MiB after {args.warm:,}, {after / 2**20:.1f} MiB after {args.requests:,}: {100 * growth:+.2f} %")
    if planned:
        held = memory["engine"][2] - PYTHON
        good &= held < 1.1 * planned
        print(f"engine beside Python, at most: {held / 2**20:.1f} MiB of {planned / 2**20:.1f} MiB planned ({100 * held / planned:.0f} %)")
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
