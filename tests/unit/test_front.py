"""The asynchronous front over an echo engine on its own thread."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from headwater.core.errors import CapacityError, ContextLengthError, UserInputError
from headwater.core.params import SamplingParams
from headwater.core.request import ReadSpec
from headwater.engine.build import EngineSpec, build_front
from headwater.engine.client import EngineLostError
from headwater.engine.front import Front, GenerateRequest
from headwater.llm import LLM

PROMPT = list(b"Once upon a time")


def with_front(work: Callable[[Front], Awaitable[Any]], **fields: Any) -> Any:
    async def main() -> Any:
        front = build_front(EngineSpec("echo", **fields))
        await front.start()
        try:
            return await work(front)
        finally:
            await front.close()

    return asyncio.run(asyncio.wait_for(main(), 60))


async def collect(front: Front, g: GenerateRequest) -> dict[int, dict[str, Any]]:
    out: dict[int, dict[str, Any]] = {}
    async with front.submit(g) as stream:
        async for d in stream:
            c = out.setdefault(d.index, {"text": "", "ids": [], "finish": None})
            c["text"] += d.text
            c["ids"] += d.token_ids
            c["finish"] = d.finish_reason or c["finish"]
            c["stop"], c["seed"], c["usage"], c["reads"] = d.stop_reason, d.x_seed, d.usage, d.reads
    return out


def offline(params: SamplingParams) -> list[int]:
    return LLM("echo").generate(PROMPT, params)[0].outputs[0].token_ids


def test_a_stream_brings_the_tokens_of_the_offline_engine() -> None:
    params = SamplingParams(max_tokens=30, temperature=0.7, seed=3, ignore_eos=True)
    got = with_front(lambda f: collect(f, GenerateRequest(PROMPT, params)))
    assert got[0]["ids"] == offline(params)
    assert got[0]["finish"] == "length"
    assert got[0]["usage"].completion == 30


def test_each_choice_is_the_request_that_its_seed_makes() -> None:
    got = with_front(lambda f: collect(f, GenerateRequest(PROMPT, SamplingParams(n=4, max_tokens=12, temperature=1.0, seed=9, ignore_eos=True))))
    assert sorted(got) == [0, 1, 2, 3]
    for c in got.values():
        assert c["ids"] == offline(SamplingParams(max_tokens=12, temperature=1.0, seed=c["seed"], ignore_eos=True))


def test_a_stop_string_across_tokens_ends_the_stream_and_is_cut_off() -> None:
    whole = bytes(offline(SamplingParams(max_tokens=40, temperature=0.0, ignore_eos=True))).decode()
    stop = whole[10:13]
    params = SamplingParams(max_tokens=40, temperature=0.0, stop=[stop], ignore_eos=True)
    got = with_front(lambda f: collect(f, GenerateRequest(PROMPT, params)))
    assert got[0]["text"] == whole[: whole.index(stop)]
    assert (got[0]["finish"], got[0]["stop"]) == ("stop", stop)
    assert got[0]["usage"].completion == whole.index(stop) + 3


def test_many_streams_at_once_do_not_disturb_each_other() -> None:
    async def work(front: Front) -> list[list[int]]:
        wants = [GenerateRequest(PROMPT[: i % 7 + 3], SamplingParams(max_tokens=9, temperature=1.0, seed=i, ignore_eos=True)) for i in range(40)]
        return [r[0]["ids"] for r in await asyncio.gather(*(collect(front, w) for w in wants))]

    together = with_front(work)
    llm = LLM("echo")
    alone = [
        llm.generate([PROMPT[: i % 7 + 3]], SamplingParams(max_tokens=9, temperature=1.0, seed=i, ignore_eos=True))[0].outputs[0].token_ids
        for i in range(40)
    ]
    assert together == alone


def test_leaving_a_stream_cancels_its_request() -> None:
    async def work(front: Front) -> tuple[int, int]:
        async with front.submit(GenerateRequest(PROMPT, SamplingParams(max_tokens=None, ignore_eos=True))) as stream:
            await anext(stream)
            running = front.stats().running
        while front.stats().running:
            await asyncio.sleep(0.01)
        return running, front.stats().running

    assert with_front(work) == (1, 0)


def test_a_prompt_beyond_the_context_is_refused_with_both_numbers() -> None:
    async def work(front: Front) -> None:
        with pytest.raises(ContextLengthError, match=r"65 tokens.*context of 64"):
            front.submit(GenerateRequest([1] * 65))
        with pytest.raises(ContextLengthError, match=r"60 prompt tokens.*= 70"):
            front.submit(GenerateRequest([1] * 60, SamplingParams(max_tokens=10)))

    with_front(work, context=64)


@pytest.mark.parametrize(("prompt", "field"), [([], "prompt"), ([1, 400], "prompt"), ([[1]], "prompt"), ([-1], "prompt")])
def test_bad_prompts_are_refused_before_anything_is_queued(prompt: list, field: str) -> None:
    async def work(front: Front) -> str | None:
        with pytest.raises(UserInputError) as e:
            front.submit(GenerateRequest(prompt))
        return e.value.field

    assert with_front(work) == field


def test_a_full_queue_refuses_with_a_time_to_come_back() -> None:
    async def work(front: Front) -> list[BaseException]:
        wants = [GenerateRequest(PROMPT, SamplingParams(max_tokens=50, ignore_eos=True)) for _ in range(40)]
        results = await asyncio.gather(*(collect(front, w) for w in wants), return_exceptions=True)
        return [r for r in results if isinstance(r, BaseException)]

    refused = with_front(work, sched="fcfs:queue=3,rows=2")
    assert refused
    assert all(isinstance(r, CapacityError) and r.retry_after > 0 for r in refused)


def test_reads_come_with_the_answer() -> None:
    async def work(front: Front) -> Any:
        got = await collect(front, GenerateRequest(PROMPT, SamplingParams(), reads=ReadSpec(score_from=1), read_only=True))
        return got[0]["reads"]

    assert [e.token for e in with_front(work).prompt] == PROMPT[1:]


def test_a_second_request_finds_the_state_of_the_first() -> None:
    async def work(front: Front) -> int:
        await collect(front, GenerateRequest(PROMPT * 8, SamplingParams(max_tokens=1)))
        return (await collect(front, GenerateRequest(PROMPT * 8, SamplingParams(max_tokens=1))))[0]["usage"].cached

    assert with_front(work) == len(PROMPT) * 8 - 1


def test_a_dead_engine_fails_its_streams_and_its_health() -> None:
    async def work(front: Front) -> None:
        stream = front.submit(GenerateRequest(PROMPT, SamplingParams(max_tokens=None, ignore_eos=True)))
        await anext(stream)
        engine = front.client._engine  # type: ignore[attr-defined]
        engine.scheduler.plan = lambda now: 1 / 0
        with pytest.raises(EngineLostError, match="ZeroDivisionError"):
            async for _ in stream:
                pass
        with pytest.raises(EngineLostError):
            front.check_health()
        with pytest.raises(EngineLostError):
            front.submit(GenerateRequest(PROMPT))

    with_front(work)


def test_a_step_that_raises_fails_its_rows_and_the_engine_goes_on() -> None:
    async def work(front: Front) -> list[int]:
        runner = front.client._engine.executor.runner  # type: ignore[attr-defined]
        hidden = runner.forward.hidden
        runner.forward.hidden = lambda step: 1 / 0
        with pytest.raises(Exception, match="the step failed"):
            await collect(front, GenerateRequest(PROMPT))
        runner.forward.hidden = hidden
        return (await collect(front, GenerateRequest(PROMPT, SamplingParams(max_tokens=3, ignore_eos=True))))[0]["ids"]

    assert len(with_front(work)) == 3
