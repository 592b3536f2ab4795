"""The threads that compile grammars: one slow grammar keeps nobody else waiting, however many ask for it; what goes wrong is said."""

import asyncio
import threading

import pytest

from headwater.core.errors import UserInputError
from headwater.core.params import SamplingParams
from headwater.engine.build import EngineSpec, build_front
from headwater.engine.client import Grammar
from headwater.engine.compilers import THREADS, Compilers
from headwater.engine.front import Front, GenerateRequest

PATIENCE = 60.0


def test_jobs_of_one_name_take_one_thread_and_those_of_others_go_on() -> None:
    compilers, gate, order = Compilers(2), threading.Event(), []
    slow = [threading.Event() for _ in range(5)]
    for i, done in enumerate(slow):
        compilers.submit("slow", lambda i=i, done=done: (gate.wait(PATIENCE), order.append(i), done.set()))
    for i in range(20):
        other = threading.Event()
        compilers.submit(f"quick {i}", other.set)
        assert other.wait(PATIENCE)
    assert not order
    gate.set()
    assert all(done.wait(PATIENCE) for done in slow) and order == sorted(order)
    again = threading.Event()
    compilers.submit("slow", again.set)                             # the name is free again
    assert again.wait(PATIENCE)
    compilers.close()


def test_no_more_than_so_many_are_compiled_at_once() -> None:
    compilers, gate, lock = Compilers(), threading.Event(), threading.Lock()
    begun, most, ended = 0, 0, threading.Semaphore(0)

    def job() -> None:
        nonlocal begun, most
        with lock:
            begun += 1
            most = max(most, begun)
        gate.wait(PATIENCE)
        with lock:
            begun -= 1
        ended.release()

    for i in range(3 * THREADS):
        compilers.submit(str(i), job)
    gate.set()
    assert all(ended.acquire(timeout=PATIENCE) for _ in range(3 * THREADS))
    assert 0 < most <= THREADS
    compilers.close()


def shaped(regex: str, n: int = 1) -> GenerateRequest:
    return GenerateRequest(list(b"abc"), SamplingParams(max_tokens=40, temperature=1.0, seed=1, n=n), grammar=Grammar("regex", regex))


async def text_of(front: Front, g: GenerateRequest) -> dict[int, str]:
    out: dict[int, str] = {}
    async with front.submit(g) as stream:
        async for d in stream:
            out[d.index] = out.get(d.index, "") + d.text
    return out


@pytest.fixture
def slow_front(monkeypatch):
    """(front, gate): grammars with SLOW in them are compiled once the gate is open, those with BROKEN never are."""
    pytest.importorskip("llguidance")
    gate = threading.Event()

    def build() -> Front:
        front = build_front(EngineSpec("echo"))
        make = front.client._make

        def made():
            engine = make()
            compile_now = engine._compile_grammar

            def compile_grammar(grammar: Grammar):
                if "SLOW" in grammar.source:
                    assert gate.wait(PATIENCE)
                if "BROKEN" in grammar.source:
                    raise MemoryError("secret insides")
                return compile_now(grammar)

            engine._compile_grammar = compile_grammar
            return engine

        front.client._make = made
        return front

    yield build, gate
    gate.set()


def with_front(build, work) -> None:
    async def main() -> None:
        front = build()
        await front.start()
        try:
            await work(front)
        finally:
            await front.close()

    asyncio.run(asyncio.wait_for(main(), PATIENCE))


def test_one_slow_schema_that_many_ask_for_does_not_block_the_others(slow_front) -> None:
    build, gate = slow_front

    async def work(front: Front) -> None:
        slow = [asyncio.create_task(text_of(front, shaped("SLOW[0-9]", n=4))) for _ in range(2 * THREADS)]
        for i in range(10):
            assert await text_of(front, shaped(f"quick{i}")) == {0: f"quick{i}"}
        assert not any(t.done() for t in slow)
        gate.set()
        for t in slow:
            texts = (await t).values()
            assert len(texts) == 4 and all(x[:4] == "SLOW" and x[4:].isdigit() for x in texts)

    with_front(build, work)


def test_a_compiler_that_breaks_ends_the_request_with_a_reason_and_no_unconstrained_token(slow_front) -> None:
    build, _ = slow_front

    async def work(front: Front) -> None:
        for _ in range(2):
            with pytest.raises(UserInputError, match="response_format: cannot be compiled") as e:
                await text_of(front, shaped("BROKEN"))
            assert "secret" not in str(e.value)
        assert await text_of(front, shaped("fine")) == {0: "fine"}

    with_front(build, work)
