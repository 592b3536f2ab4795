"""A client may use its request id again as soon as the last answer is complete or it has left: what comes late belongs to the old request."""

import asyncio

import pytest

from headwater.core.errors import UserInputError
from headwater.core.params import SamplingParams
from headwater.engine.client import Grammar
from headwater.engine.front import GenerateRequest, Stream
from tests.wire.stepwise import Stepwise, settle

PROMPT = list(b"Once upon a time")
LONG = SamplingParams(max_tokens=20, temperature=0.0, ignore_eos=True)


async def outcome(app: Stepwise, stream: Stream) -> tuple[list[int], str | None]:
    """All ids and the reason of the end, stepping until it is there."""
    ids: list[int] = []
    task = asyncio.ensure_future(anext(stream))
    for _ in range(200):
        await settle()
        while task.done():
            delta = task.result()
            ids += delta.token_ids
            if delta.finish_reason is not None:
                return ids, delta.finish_reason
            task = asyncio.ensure_future(anext(stream))
            await settle()
        app.client.compile_all()
        app.client.step()
    raise AssertionError("not answered")


def same(params: SamplingParams = LONG, grammar: Grammar | None = None) -> GenerateRequest:
    return GenerateRequest(PROMPT, params, request_id="same", grammar=grammar)


@pytest.mark.parametrize("steps", [0, 1, 5])
def test_an_id_can_be_used_again_right_after_its_client_left(steps: int) -> None:
    async def go() -> None:
        app = await Stepwise.start()
        right = await outcome(app, app.front.submit(GenerateRequest(PROMPT, LONG)))
        left = app.front.submit(same())
        await app.step(steps)
        await left.aclose()
        assert await outcome(app, app.front.submit(same())) == right
        await app.step(3)
        assert app.front._by_id == {} and app.front._leaving == set()

    asyncio.run(go())


def test_an_id_can_be_used_again_right_after_a_stop_string() -> None:
    async def go() -> None:
        app = await Stepwise.start()
        right = await outcome(app, app.front.submit(GenerateRequest(PROMPT, LONG)))
        stop = bytes(right[0][3:5]).decode()
        stopped = SamplingParams(max_tokens=20, temperature=0.0, ignore_eos=True, stop=[stop])
        assert (await outcome(app, app.front.submit(same(stopped))))[1] == "stop"
        assert await outcome(app, app.front.submit(same())) == right
        await app.step(3)
        assert app.front._leaving == set()

    asyncio.run(go())


@pytest.mark.parametrize("compiled", [False, True])
def test_an_id_can_be_used_again_with_another_grammar(compiled: bool) -> None:
    pytest.importorskip("llguidance")
    short = SamplingParams(max_tokens=6, temperature=0.0)

    async def go() -> None:
        app = await Stepwise.start()
        left = app.front.submit(same(short, Grammar("regex", "x{2,9}")))
        if compiled:
            app.client.compile_all()
            await app.step(2)
        await left.aclose()
        ids, finish = await outcome(app, app.front.submit(same(short, Grammar("regex", "yz"))))
        assert (bytes(ids), finish) == (b"yz", "stop")
        await app.step(3)
        assert app.client.engine._masked == set() and app.client.engine.executor.runner.masks._matchers == {}

    asyncio.run(go())


def test_an_id_in_use_is_refused_and_what_runs_goes_on() -> None:
    async def go() -> None:
        app = await Stepwise.start()
        right = await outcome(app, app.front.submit(GenerateRequest(PROMPT, LONG)))
        runs = app.front.submit(same())
        await app.step(3)
        with pytest.raises(UserInputError, match="request_id: 'same' is in use"):
            app.front.submit(same())
        assert await outcome(app, runs) == right

    asyncio.run(go())
