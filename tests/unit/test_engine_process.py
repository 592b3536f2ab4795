"""The engine in a child process: same answers, frames that keep every value, death and restart."""

import asyncio
import os
import signal
import threading

import numpy as np
import pytest

from headwater.core.errors import UserInputError
from headwater.core.events import Arrive, Cancel
from headwater.core.params import SamplingParams
from headwater.core.request import Output, ReadResult, ReadSpec, Request, TokenLogprobs
from headwater.engine.build import EngineSpec, build_front
from headwater.engine.client import EngineLostError
from headwater.engine.front import GenerateRequest
from headwater.engine.health import Deadlines, restart_delay
from headwater.engine.wire import decode, encode
from headwater.llm import LLM

PARAMS = SamplingParams(max_tokens=12, temperature=1.0, seed=3, ignore_eos=True, logprobs=2)


def same(a: object, b: object) -> bool:
    if isinstance(a, np.ndarray):
        return isinstance(b, np.ndarray) and a.dtype == b.dtype and np.array_equal(a, b)
    if hasattr(a, "__dataclass_fields__"):
        return type(a) is type(b) and all(same(getattr(a, f), getattr(b, f)) for f in a.__dataclass_fields__)
    if isinstance(a, list):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))  # type: ignore[arg-type]
    return a == b


def test_a_request_survives_the_wire() -> None:
    params = SamplingParams(n=2, seed=2**64 - 1, stop=["x", "é"], logit_bias={5: -1.5}, allowed_token_ids=[1, 2], prompt_logprobs=3)
    reads = ReadSpec(labels=np.array([3, 4], np.int32), lse=True, hidden="all")
    request = Request("r", np.arange(7, dtype=np.int32), params, 5, frozenset((2, 9)), 2**64 - 1, reads=reads, deadline=1.5)
    kind, back = decode(encode("arrive", Arrive(request)))
    assert kind == "arrive"
    assert same(back.request, request)


def test_outputs_survive_the_wire() -> None:
    entry = TokenLogprobs(4, -1.25, np.array([4, 1], np.int32), np.array([-1.25, -2.0], np.float32))
    reads = ReadResult(labels=np.ones(2, np.float32), lse=3.5, prompt=[entry], hidden=np.zeros((2, 3), np.float32))
    outputs = [Output("r", np.array([4], np.int32), [entry], reads, "stop", 2, None, None, 3, 4), Output("s", np.zeros(0, np.int32), error="no")]
    assert same(decode(encode("outputs", outputs))[1], outputs)


@pytest.mark.parametrize("frame", [b"", b"\x93", encode("cancel", Cancel("a"))[:-2], b"\x92\xa3foo\xc0", b"\x92\xa6arrive\x05"])
def test_a_broken_frame_is_one_error(frame: bytes) -> None:
    with pytest.raises(ValueError, match="not a frame"):
        decode(frame)


def test_silence_and_standstill_are_told_apart_from_work() -> None:
    d = Deadlines(beat=10, step=60)
    assert d.verdict(1.0, 30.0) is None
    assert "sign of life" in (d.verdict(11.0, 0.0) or "")
    assert "no step" in (d.verdict(1.0, 61.0) or "")
    assert d.verdict(1.0, 61.0, predicted=7.0) is None              # ten predicted steps have not passed
    assert [restart_delay(n) for n in (1, 2, 3, 4, 99)] == [0.0, 1.0, 2.0, 4.0, 30.0]


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT])
def test_signals_to_the_whole_process_group_leave_running_streams_to_the_drain(sig: signal.Signals) -> None:
    async def go() -> int:
        front = build_front(EngineSpec("echo"), process=True)
        await front.start()
        try:
            async with front.submit(GenerateRequest(list(b"abc"), SamplingParams(max_tokens=1500, ignore_eos=True))) as stream:
                n = len((await anext(stream)).token_ids)
                os.kill(front.client.pid, sig)
                return n + sum([len(d.token_ids) async for d in stream])
        finally:
            await front.close()

    assert asyncio.run(go()) == 1500


def test_a_child_answers_like_the_engine_in_this_process_and_a_killed_one_is_replaced() -> None:
    async def ask(front) -> list[int]:
        async with front.submit(GenerateRequest(list(b"abc"), PARAMS)) as stream:
            return [t async for d in stream for t in d.token_ids]

    async def main() -> None:
        front = build_front(EngineSpec("echo"), process=True)
        await front.start()
        try:
            expected = LLM("echo").generate("abc", PARAMS)[0].outputs[0].token_ids
            assert await ask(front) == expected
            stream = front.submit(GenerateRequest(list(b"abc"), SamplingParams(max_tokens=None, ignore_eos=True)))
            await anext(stream)
            os.kill(front.client.pid, signal.SIGKILL)
            with pytest.raises(EngineLostError):
                async for _ in stream:
                    pass
            for _ in range(600):
                try:
                    front.check_health()
                    break
                except EngineLostError:
                    await asyncio.sleep(0.05)
            assert await ask(front) == expected
        finally:
            await front.close()

    asyncio.run(asyncio.wait_for(main(), 120))


def test_a_stopped_child_is_found_killed_and_replaced() -> None:
    async def main() -> None:
        from headwater.engine.front import Front
        from headwater.engine.process import ProcessClient

        client = ProcessClient(EngineSpec("echo"), Deadlines(beat=2.0))
        front = Front(client, LLM("echo")._text)
        await front.start()
        try:
            first = client.pid
            assert first is not None
            os.kill(first, signal.SIGSTOP)
            with pytest.raises(EngineLostError, match=r"no sign of life|new one"):
                while True:
                    front.check_health()
                    await asyncio.sleep(0.05)
            while client.pid in (None, first) or client._dead is not None:
                await asyncio.sleep(0.05)
            front.check_health()
        finally:
            await front.close()

    asyncio.run(asyncio.wait_for(main(), 60))


def test_waiting_long_for_work_is_not_standing_still() -> None:
    from headwater.engine.build import load
    from headwater.engine.thread import ThreadClient

    engine, _ = load(EngineSpec("echo"))
    engine.last_step = engine.clock.now() - 3600.0                  # idle for an hour
    client = ThreadClient(lambda: engine)
    ages: list[float] = []
    done = threading.Event()
    submit = engine.executor.submit

    def watched(plan) -> None:
        ages.append(client.stats().last_step_age)
        submit(plan)

    engine.executor.submit = watched  # type: ignore[method-assign]
    client.start(lambda outputs: done.set() if any(o.finish for o in outputs) else None, lambda reason: None)
    client.send(Arrive(Request("r", np.arange(4, dtype=np.int32), SamplingParams(), 2, arrival=engine.clock.now())))
    assert done.wait(30)
    client.close()
    assert max(ages) < 60


def test_a_model_that_cannot_be_loaded_is_the_callers_error() -> None:
    async def main() -> None:
        from headwater.engine.front import Front
        from headwater.engine.process import ProcessClient

        front = Front(ProcessClient(EngineSpec("echo", sched="nobody")), LLM("echo")._text)
        with pytest.raises(UserInputError, match="no resident 'nobody'"):
            await front.start()

    asyncio.run(main())
