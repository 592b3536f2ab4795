"""Nothing of a request is kept once it is over, whatever became of it: 200 mixed requests, some left half-way, some wrong."""

import asyncio
import importlib.util
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from headwater.engine.build import EngineSpec
from tests.wire.conftest import Running, start, stop

pytest.importorskip("llguidance")


def soak_module():
    """tests/judges is no package."""
    path = Path(__file__).parents[1] / "judges" / "soak.py"
    spec = importlib.util.spec_from_file_location("soak", path)
    assert spec is not None and spec.loader is not None
    module = sys.modules["soak"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def used() -> Iterator[Running]:
    running = start(EngineSpec("echo", kv_memory=2**20))
    one = soak_module().one

    async def go() -> None:
        rng, gate = random.Random(5), asyncio.Semaphore(8)
        async with httpx.AsyncClient(base_url=running.url, timeout=120) as client:

            async def ask() -> str:
                async with gate:
                    return await one(client, rng, "echo")

            outcomes = await asyncio.gather(*(ask() for _ in range(200)))
        assert {o.split()[0] for o in outcomes} == {"whole", "stream", "leave", "wrong"}

    asyncio.run(go())
    end = time.monotonic() + 60                                     # those that were left end at the next step border
    while running.front.stats().running and time.monotonic() < end:
        time.sleep(0.05)
    yield running
    stop(running)


def test_the_front_forgets_its_streams(used) -> None:
    assert used.front._by_id == {}


def test_observers_forget_what_they_watched(used) -> None:
    server = used.server.config.app.state.server
    assert server.meter._watches == {} and server.recorder._calls == {}


def test_the_engine_has_neither_rows_nor_grammars_nor_held_memory(used) -> None:
    engine = used.front.client._engine
    assert (engine.scheduler.running, engine.scheduler.waiting) == (0, 0)
    assert engine._masked == set() and engine.executor.runner.masks._matchers == {}
    assert used.front.stats().kv_usage == 0.0
