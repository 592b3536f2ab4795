"""What hurts users of other engines most, one named test each (the list is in docs/clients.md); what is counted is steps, never seconds."""

import asyncio
import gc
import json
import logging
import random
import subprocess
import sys
import threading

import httpx
import jsonschema
import openai
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater.engine.build import EngineSpec, build_front
from headwater.serve.app import create_app
from headwater.serve.settings import ServeSettings
from tests.wire.stepwise import Call, Stepwise, run, settle

ASK = [{"role": "user", "content": "Say hello."}]
LONG = "long prompt " * 200                                         # 2,400 tokens: 38 steps of 64
SCHEMA = {"type": "object", "properties": {"a": {"enum": ["x", "y"]}}, "required": ["a"], "additionalProperties": False}


# -- 2: the prompt is cut silently; limits surprise ----------------------------------------------------------------------------------------


def test_2_a_prompt_is_never_cut_and_usage_counts_what_the_model_saw(echo) -> None:
    for n in (1, 7, 500):
        ids = httpx.post(f"{echo.url}/tokenize", json={"messages": [{"role": "user", "content": "é" * n}]}).json()["tokens"]
        r = httpx.post(f"{echo.v1}/chat/completions", json={"messages": [{"role": "user", "content": "é" * n}], "max_tokens": 1}).json()
        assert r["usage"]["prompt_tokens"] == len(ids)
    r = httpx.post(f"{echo.v1}/chat/completions", json={"messages": [{"role": "user", "content": "x" * 5000}]})
    assert r.status_code == 400 and "5,0" in r.json()["error"]["message"] and "4,096" in r.json()["error"]["message"]


def test_2_a_chat_without_max_tokens_has_the_rest_of_the_context() -> None:
    async def work() -> None:
        s = await Stepwise.start(context=200)
        call = Call(s.app, "/v1/chat/completions", {"messages": ASK, "ignore_eos": True})
        await s.finish(call)
        usage = call.json()["usage"]
        assert usage["total_tokens"] == 200 and call.json()["choices"][0]["finish_reason"] == "length"

    run(work)


# -- 3: the prefix cache is lost between turns ---------------------------------------------------------------------------------------------


def test_3_each_turn_of_an_agent_computes_its_own_tokens_and_no_older_ones(echo) -> None:
    messages, known = [{"role": "system", "content": "You are an agent. " * 10}], 0
    for turn in range(12):
        messages.append({"role": "user", "content": f"turn {turn}: " + "go on " * 8})
        body = {"messages": messages, "max_tokens": 24, "temperature": 0, "cache_salt": "agent"}
        r = httpx.post(f"{echo.v1}/chat/completions", json=body, timeout=60).json()
        usage = r["usage"]
        assert usage["prompt_tokens_details"]["cached_tokens"] >= known - 16     # at most the last, partial block
        known = usage["prompt_tokens"]
        messages.append({"role": "assistant", "content": r["choices"][0]["message"]["content"]})


# -- 4: structured output is not enforced, or stalls others --------------------------------------------------------------------------------

SCHEMAS = st.recursive(
    st.sampled_from([
        {"type": "integer", "minimum": -9, "maximum": 99}, {"type": "boolean"}, {"type": "string", "maxLength": 3}, {"enum": ["é", 1, None]},
        {"const": {"k": [1]}}, {"type": ["null", "boolean"]}, {"type": "string", "pattern": "^[a-c]{2}$"},
    ]),
    lambda s: st.fixed_dictionaries({"type": st.just("array"), "items": s, "maxItems": st.just(2)}) | st.dictionaries(
        st.sampled_from(["a", "b", "ü"]), s, min_size=1, max_size=3
    ).map(lambda p: {"type": "object", "properties": p, "required": sorted(p)[:1], "additionalProperties": False}),
    max_leaves=5,
)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(schema=SCHEMAS, seed=st.integers(0, 2**62), temperature=st.sampled_from([0.0, 0.7, 3.0, 100.0]), limit=st.sampled_from([3, 40, 300]))
def test_4_any_schema_at_any_temperature_gives_valid_json_or_length(echo, schema, seed, temperature, limit) -> None:
    body = {
        "messages": ASK, "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}, "seed": seed,
        "temperature": temperature, "max_tokens": limit,
    }
    choice = httpx.post(f"{echo.v1}/chat/completions", json=body, timeout=60).json()["choices"][0]
    assert choice["finish_reason"] in ("stop", "length")
    if choice["finish_reason"] == "stop":
        jsonschema.validate(json.loads(choice["message"]["content"]), schema)


def test_4_a_hundred_schemas_that_are_still_compiled_stall_nobody() -> None:
    gate = threading.Event()

    async def work() -> None:
        front = build_front(EngineSpec("echo"))
        await front.start()
        engine = front.client._engine
        compile_now = engine._compile_grammar

        def slow(grammar):
            assert gate.wait(60)
            return compile_now(grammar)

        engine._compile_grammar = slow
        app = create_app(front, ServeSettings())
        body = {"messages": ASK, "max_tokens": 60, "temperature": 1, "seed": 1}
        shaped = [
            Call(app, "/v1/chat/completions", {**body, "response_format": {
                "type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object", "properties": {f"k{i}": {"enum": [i]}},
                                                                              "required": [f"k{i}"], "additionalProperties": False}},
            }})
            for i in range(100)
        ]
        await settle()
        for _ in range(5):                                           # others come and are answered while nothing is compiled
            other = Call(app, "/v1/chat/completions", body)
            await other.task
            assert other.status == 200
        assert not any(c.task.done() for c in shaped)
        gate.set()
        for i, call in enumerate(shaped):
            await call.task
            assert json.loads(call.json()["choices"][0]["message"]["content"]) == {f"k{i}": i}
        await front.close()

    try:
        run(work)
    finally:
        gate.set()


def test_4_blanks_cannot_run_on_for_ever(echo) -> None:
    body = {
        "messages": ASK, "temperature": 1, "max_tokens": 400, "logit_bias": {"32": 100, "10": 100},
        "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}},
    }
    choice = httpx.post(f"{echo.v1}/chat/completions", json=body, timeout=60).json()["choices"][0]
    assert choice["finish_reason"] == "stop" and json.loads(choice["message"]["content"])["a"] in ("x", "y")


# -- 5: tool calls and deltas are subtly wrong ---------------------------------------------------------------------------------------------


def tool(name: str) -> dict:
    digit = {"type": "integer", "minimum": 0, "maximum": 9}
    parameters = {"type": "object", "properties": {"n": digit}, "required": ["n"], "additionalProperties": False}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


@pytest.mark.parametrize("choice", ["auto", "none", "required", {"type": "function", "function": {"name": "g"}}])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_5_the_clients_accumulated_stream_is_the_whole_object(echo, choice, seed) -> None:
    client = openai.OpenAI(base_url=echo.v1, api_key="none", max_retries=0)
    args = {
        "model": "echo", "messages": ASK, "tools": [tool("f"), tool("g")], "tool_choice": choice, "temperature": 1, "seed": seed, "max_tokens": 600,
    }
    whole = client.chat.completions.create(**args)
    with client.chat.completions.stream(**args, stream_options={"include_usage": True}) as stream:
        final = stream.get_final_completion()
    a, b = whole.choices[0], final.choices[0]
    assert (a.finish_reason, a.message.content or "") == (b.finish_reason, b.message.content or "")
    calls = [[(c.function.name, c.function.arguments) for c in x.message.tool_calls or []] for x in (a, b)]
    assert calls[0] == calls[1] and whole.usage.completion_tokens == final.usage.completion_tokens
    if choice == "none":
        assert not calls[0]


ANSWERS = {
    "hermes": 'Säge <tool_call>\n{"name": "f", "arguments": {"s": "ü😀", "n": [1, {"a": null}]}}\n</tool_call> <tool_call>{"name": "g"}</tool_call>',
    "llama3_json": '{"name": "f", "parameters": {"s": "ü😀"}}; {"name": "g", "parameters": {}}',
    "mistral": 'Säge [TOOL_CALLS] [{"name": "f", "arguments": {"s": "ü😀"}}, {"name": "g", "arguments": {}}]',
    "pythonic": "[f(s='ü😀', n=[1, None]), g()]",
}


@pytest.mark.parametrize("style", list(ANSWERS))
@pytest.mark.parametrize("thought", ["", "<think>\nHm, größer?\n</think>\n\n", "<think>cut of"])
def test_5_streams_cut_at_every_byte_parse_like_the_whole(style, thought) -> None:
    from headwater.serve.assemble import Assembler, Message
    from headwater.text.detok import StreamDecoder
    from headwater.text.echo import echo_tokenizer
    from headwater.text.reasoning import FORMATS, ReasoningSplitter
    from headwater.text.tools.api import tool_parser

    tokenizer, ids = echo_tokenizer(320), list((thought + ANSWERS[style]).encode())

    def message(pieces: list[list[int]]) -> tuple:
        assembler = Assembler(ReasoningSplitter(FORMATS["think"]), tool_parser(style, ["f", "g"]))
        decoder, out = StreamDecoder(tokenizer, skip_special=False), Message()
        for piece in pieces:
            for part in assembler.feed(decoder.push(piece), len(piece), final=False):
                out.add(part)
        for part in assembler.feed(decoder.finish(), 0, final=True):
            out.add(part)
        return out.content, out.reasoning, [c["function"] for c in out.calls]

    whole = message([ids])
    assert whole[1] if thought else len(whole[2]) == 2
    assert message([[i] for i in ids]) == whole
    for cut in range(1, len(ids)):
        assert message([ids[:cut], ids[cut:]]) == whole, cut


def test_5_a_turn_with_calls_sent_back_renders_to_the_same_ids(echo) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"n": 1}'}}
    turns = [*ASK, {"role": "assistant", "content": None, "tool_calls": [call]}, {"role": "tool", "tool_call_id": "c", "content": "2"}]
    once, again = (
        httpx.post(f"{echo.url}/tokenize", json={"messages": json.loads(json.dumps(turns)), "tools": [tool("f")]}).json()["tokens"] for _ in range(2)
    )
    as_object = [{**t, "tool_calls": [{**call, "function": {"name": "f", "arguments": {"n": 1}}}]} if t.get("tool_calls") else t for t in turns]
    third = httpx.post(f"{echo.url}/tokenize", json={"messages": as_object, "tools": [tool("f")]}).json()["tokens"]
    assert once == again == third


# -- 6: closing the connection does not stop the work --------------------------------------------------------------------------------------

BODIES = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": LONG}], "max_tokens": 400, "ignore_eos": True},
    "/v1/completions": {"prompt": [LONG, "short"], "max_tokens": 400, "ignore_eos": True},
    "/v1/responses": {"input": LONG, "max_output_tokens": 400},
    "/v1/messages": {"model": "echo", "messages": [{"role": "user", "content": LONG}], "max_tokens": 400},
    "/api/chat": {"model": "echo", "messages": [{"role": "user", "content": LONG}], "options": {"num_predict": 400}},
    "/api/generate": {"model": "echo", "prompt": LONG, "raw": True, "options": {"num_predict": 400}},
}
FORK = {"/v1/chat/completions": {"n": 4}, "/v1/completions": {"n": 4}}
SHAPED = {
    "/v1/chat/completions": {"guided_regex": "[a-z]{300}"}, "/v1/completions": {"guided_regex": "[a-z]{300}"},
    "/v1/responses": {"text": {"format": {"type": "json_schema", "name": "x", "schema": {"type": "string", "minLength": 300}}}},
    "/api/chat": {"format": {"type": "string", "minLength": 300}}, "/api/generate": {"format": {"type": "string", "minLength": 300}},
}


async def reach(s: Stepwise, phase: str) -> None:
    """Step until the request is in the phase."""
    stats = s.front.stats
    if phase == "queue":
        await s.step(3)
        assert stats().waiting > 0
    elif phase == "prefill":
        await s.step(5)
        assert stats().running > 0 and stats().generated_tokens == 0 and stats().kv_usage > 0
    elif phase == "compile":
        await s.step(3)
        assert s.client.compiling
    else:
        while stats().generated_tokens < 12:
            await s.step()
        assert stats().running > 0


# (phase, path, what the body needs for it)
MOMENTS = [(phase, path, {}) for phase in ("queue", "prefill", "decode") for path in BODIES]
MOMENTS += [("compile", path, more) for path, more in SHAPED.items()] + [("fork", path, more) for path, more in FORK.items()]


@pytest.mark.parametrize(("phase", "path", "more"), MOMENTS)
@pytest.mark.parametrize("streamed", [True, False])
def test_6_a_client_that_leaves_frees_its_blocks_within_two_steps(phase, path, more, streamed) -> None:
    async def work() -> None:
        s = await Stepwise.start(blocks=256 if phase == "queue" else 1024)
        first = None
        if phase == "queue":                                        # somebody else has the memory
            first = s.front.submit(_hog())
            await s.step(62)
            assert s.front.stats().running == 1
        before = s.front.stats()
        call = Call(s.app, path, {**BODIES[path], **more, "stream": streamed})
        await settle()
        await reach(s, phase)
        await call.leave()
        await s.step(2)
        after = s.front.stats()
        assert (after.running, after.waiting) == (before.running, before.waiting)
        if phase == "queue":
            assert len(s.front._by_id) == 1
            await first.aclose()
            await s.step(2)
        assert s.front.stats().kv_usage == 0 and not s.front._by_id and s.front.stats().running == 0
        steps = s.front.stats().steps
        await s.step(5)
        assert s.front.stats().steps == steps                       # nothing is computed for nobody

    run(work)


def _hog():
    from headwater.core.params import SamplingParams
    from headwater.engine.front import GenerateRequest

    return GenerateRequest([65] * 3900, SamplingParams(max_tokens=100, ignore_eos=True))


def test_6_a_decision_whose_client_leaves_lets_go_of_its_state() -> None:
    async def work() -> None:
        s = await Stepwise.start()
        questions = {f"q{i}": {"type": "noul", "instructions": f"question {i} " * 10} for i in range(8)}
        call = Call(s.app, "/v1/systemone", {"model": "jev", "state": LONG, "questions": questions})
        while s.front.stats().prompt_tokens < 1000:                 # it is planned on a thread of its own
            await asyncio.sleep(0.001)
            await s.step()
        await call.leave()
        await s.step(2)
        assert s.front.stats().kv_usage == 0 and s.front.stats().running == 0 and not s.front._by_id

    run(work)


# -- 8: memory grows until the machine dies ------------------------------------------------------------------------------------------------


def test_8_mixed_requests_leave_no_objects_behind() -> None:
    """Live objects, not bytes: a request that left a single one would show 150 times. (Bytes over 10,000 requests: tests/judges/soak.py.)"""
    from headwater.text.grammar import GrammarCompiler
    from tests.wire.fuzzed import post
    from tests.wire.test_left_behind import soak_module

    request = soak_module().request

    async def work() -> None:
        front = build_front(EngineSpec("echo", kv_memory="64K"))
        await front.start()
        front.text._compiler = GrammarCompiler(front.text.tokenizer, front.model_info.vocabulary, keep=8)
        app, rng, gate = create_app(front, ServeSettings(access_log=False)), random.Random(3), asyncio.Semaphore(8)

        async def one() -> int:
            async with gate:
                path, body, _ = request(rng, "echo")
                return (await post(app, path, json.dumps(body).encode()))[0]

        async def live(n: int) -> int:
            statuses = set(await asyncio.gather(*(one() for _ in range(n))))
            assert statuses == {200, 400}
            gc.collect()
            return len(gc.get_objects())

        await live(150)                                             # fills what is kept on purpose: compiled grammars, the prefix index
        before = await live(150)
        assert await live(150) - before < 75
        await front.close()

    logging.disable(logging.WARNING)                                # pytest keeps every record
    try:
        run(work)
    finally:
        logging.disable(logging.NOTSET)


def test_8_what_a_server_keeps_has_a_bound_in_bytes_that_the_plan_knows() -> None:
    async def work() -> None:
        s = await Stepwise.start(blocks=300)
        for i in range(40):                                         # far more text than the blocks hold
            await s.finish(Call(s.app, "/v1/completions", {"prompt": f"{i} " * 400, "max_tokens": 2, "ignore_eos": True}))
        nodes = s.client.engine.scheduler.kv.nodes
        assert nodes.total == 300 and nodes.n_free + nodes.n_cached == 300 and s.front.stats().kv_usage == 0
        assert len(s.client.engine.scheduler.kv.index) <= 300

    run(work)


# -- 9: one long prompt freezes everyone ---------------------------------------------------------------------------------------------------


def test_9_streams_get_their_token_in_every_step_while_a_long_prompt_is_read() -> None:
    async def work() -> None:
        s = await Stepwise.start(blocks=1024)
        body = {"messages": ASK, "max_tokens": 400, "temperature": 0, "ignore_eos": True, "stream": True}   # greedy: every token prints at once
        streams = [Call(s.app, "/v1/chat/completions", body) for _ in range(4)]
        while not all(len(c.events()) > 2 for c in streams):
            await asyncio.sleep(0.001)
            await s.step()
        long = Call(s.app, "/v1/completions", {"prompt": [65] * 3900, "max_tokens": 1})
        while not s.front.stats().queue:
            await asyncio.sleep(0.001)
        steps = 0
        while not long.task.done():
            before = [len(c.events()) for c in streams]
            await s.step()
            steps += 1
            assert [len(c.events()) - b for c, b in zip(streams, before, strict=True)] == [1] * 4
        assert 3900 // 64 <= steps < 80                             # and it comes to its end itself
        for call in streams:
            await call.leave()

    run(work)


def test_9_two_long_prompts_at_once_both_complete() -> None:
    async def work() -> None:
        s = await Stepwise.start(blocks=300)                                    # room for one of them at a time
        calls = [Call(s.app, "/v1/completions", {"prompt": [65 + i] * 3900, "max_tokens": 20, "ignore_eos": True}) for i in range(2)]
        await settle()
        for call in calls:
            await s.finish(call)
            assert call.json()["usage"]["completion_tokens"] == 20

    run(work)


SETTLED = """
import gc
from headwater.engine.build import EngineSpec, build_front
from headwater.serve.app import create_app
from headwater.serve.run import settle
from headwater.serve.settings import ServeSettings
app = create_app(build_front(EngineSpec("echo")), ServeSettings(served_names=("echo",)))
settle()
print(gc.get_freeze_count(), len(gc.get_objects()))
"""


def test_9_the_collector_has_nothing_of_a_started_server_left_to_walk_over_while_everybody_waits() -> None:
    said = subprocess.run([sys.executable, "-c", SETTLED], capture_output=True, text=True, check=True).stdout
    frozen, tracked = map(int, said.split())
    assert frozen > 10_000 and tracked < 1000


def test_9_other_requests_are_answered_while_a_prompt_of_a_megabyte_is_cut_into_tokens() -> None:
    reading, go_on = threading.Event(), threading.Event()

    async def work() -> None:
        s = await Stepwise.start()
        encode = s.front.text.tokenizer.encode

        def slow(text: str, *args: object, **kwargs: object) -> list[int]:
            if len(text) > 10**6:
                reading.set()
                assert go_on.wait(60)
            return encode(text, *args, **kwargs)

        s.front.text.tokenizer.encode = slow
        long = [Call(s.app, path, body) for path, body in {
            "/v1/completions": {"prompt": "x" * 10**6 + "y"}, "/v1/chat/completions": {"messages": [{"role": "user", "content": "x" * 10**6}]},
            "/tokenize": {"prompt": "x" * 10**6 + "y"}, "/v1/embeddings": {"input": "x" * 10**6 + "y"},
            "/v1/messages": {"model": "echo", "max_tokens": 1, "messages": [{"role": "user", "content": "x" * 10**6}]},
        }.items()]
        while not reading.is_set():
            await asyncio.sleep(0.001)
        other = Call(s.app, "/v1/chat/completions", {"messages": ASK, "max_tokens": 3})
        await s.finish(other)
        assert other.status == 200 and not any(c.task.done() for c in long)
        go_on.set()
        for call in long:
            await call.task
        assert [c.status for c in long] == [400, 400, 200, 400, 400]        # but for /tokenize, they are longer than the context

    try:
        run(work)
    finally:
        go_on.set()


# -- 10: same prompt, different answer; or it never stops ----------------------------------------------------------------------------------


def test_10_an_answer_is_the_same_alone_in_a_crowd_cold_and_warm() -> None:
    async def work() -> None:
        bodies = [{"messages": [{"role": "user", "content": f"question {i % 3}"}], "max_tokens": 50, "temperature": t, "seed": 7 + i % 3}
                  for i in range(12) for t in (0, 1)]
        alone = []
        for body in bodies[:6]:
            s = await Stepwise.start()
            call = Call(s.app, "/v1/chat/completions", body)
            await s.finish(call)
            alone.append(call.json()["choices"][0]["message"]["content"])
        s = await Stepwise.start()
        for _ in range(2):                                          # cold, then warm
            calls = [Call(s.app, "/v1/chat/completions", b) for b in bodies]
            await settle()
            for i, call in enumerate(calls):
                await s.finish(call)
                assert call.json()["choices"][0]["message"]["content"] == alone[i % 6]

    run(work)


def test_10_every_end_of_turn_of_the_model_ends_the_answer(echo) -> None:
    ends = httpx.get(f"{echo.url}/tokenizer_info").json()["stop_ids"]
    assert len(ends) > 1
    for end in ends:
        body = {"messages": ASK, "logit_bias": {str(end): 100, "65": -100}, "temperature": 0, "max_tokens": 50, "allowed_token_ids": [65, end]}
        choice = httpx.post(f"{echo.v1}/chat/completions", json=body).json()["choices"][0]
        assert choice["finish_reason"] == "stop" and choice["message"]["content"] in ("", "A" * len(choice["message"]["content"]))
