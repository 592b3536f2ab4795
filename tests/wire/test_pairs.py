"""Structured output, streaming, tools, reasoning, forks and drafts in every combination: the same final text as the plain request."""

import asyncio
import itertools
import json
from dataclasses import replace
from typing import Any

import pytest

from headwater.engine.build import EngineSpec, build_front
from headwater.serve.app import create_app
from headwater.serve.assemble import Message
from headwater.serve.chatrun import generate_request
from headwater.serve.schema.chat import ChatRequest
from headwater.serve.settings import ServeSettings
from headwater.serve.shape import shape_of
from tests.wire.stepwise import Call

# every printable byte as likely as the end of thinking, so that thinking does end
EVEN = {str(i): -8 for i in range(32, 127)} | {"260": 100}
# the prompt opens thinking, closes it, or leaves it to the model
THINKING = {"opened": "<think>\n", "closed": "<think>\n\n</think>\n\n", "open": ""}
TEMPLATE = """
{%- for m in messages -%}
<|im_start|>{{ m.role }}
{{ m.content.split('</think>')[-1] }}<|im_end|>
{% endfor -%}
{%- if add_generation_prompt -%}<|im_start|>assistant
THINKING{% endif -%}
"""
DIGIT = {"type": "integer", "minimum": 0, "maximum": 9}
TOOLS = [
    {"type": "function", "function": {"name": n, "parameters": {"type": "object", "properties": {"d": DIGIT}, "required": ["d"],
                                                               "additionalProperties": False}}}
    for n in ("f", "g")
]
SCHEMA = {
    "type": "object", "properties": {"k": {"type": "string", "maxLength": 9}, "d": DIGIT}, "required": ["k", "d"], "additionalProperties": False,
}
SHAPES: dict[str, dict[str, Any]] = {
    "free": {}, "schema": {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}},
    "regex": {"guided_regex": "[a-f]{5,30}é"},
}
OFFERS: dict[str, dict[str, Any]] = {"none": {}, "auto": {"tools": TOOLS}, "required": {"tools": TOOLS, "tool_choice": "required"}}


def said(message: dict[str, Any]) -> tuple[str, str, list[tuple[str, str]]]:
    """(content, reasoning, calls) of a message."""
    calls = [(c["function"]["name"], c["function"]["arguments"]) for c in message.get("tool_calls") or []]
    return message.get("content") or "", message.get("reasoning_content") or "", calls


def joined(events: list[dict[str, Any]]) -> dict[int, tuple[tuple[str, str, list[tuple[str, str]]], str]]:
    """The message of each choice of a stream, and its finish reason."""
    messages: dict[int, dict[str, Any]] = {}
    ends: dict[int, str] = {}
    for choice in (c for e in events for c in e["choices"]):
        m = messages.setdefault(choice["index"], {"content": "", "reasoning_content": "", "tool_calls": []})
        delta = choice["delta"]
        for name in ("content", "reasoning_content"):
            m[name] += delta.get(name) or ""
        for t in delta.get("tool_calls") or []:
            if "id" in t:
                assert t["index"] == len(m["tool_calls"])
                m["tool_calls"].append({"function": {"name": t["function"]["name"], "arguments": ""}})
            m["tool_calls"][t["index"]]["function"]["arguments"] += t["function"]["arguments"]
        if choice["finish_reason"]:
            assert choice["index"] not in ends
            ends[choice["index"]] = choice["finish_reason"]
    return {i: (said(m), ends[i]) for i, m in messages.items()}


async def plain(front: Any, body: dict[str, Any], seed: int) -> tuple[tuple[str, str, list[tuple[str, str]]], str]:
    """The request by itself, its whole text read in one piece."""
    request = ChatRequest.model_validate({**body, "n": 1, "seed": seed, "stream": False})
    shape = shape_of(front, request)
    wanted = generate_request(front, request, shape)
    text, finish = "", ""
    async with front.submit(replace(wanted, cache_salt="plain")) as stream:
        async for d in stream:
            text, finish = text + d.text, d.finish_reason or finish
    assembler, message = shape.assembler(front.detokenize(list(wanted.prompt[-64:]))), Message()
    for part in assembler.feed(text, 1, final=True):
        message.add(part)
    return said(message.as_object(True)), assembler.finish_reason(finish)


@pytest.mark.parametrize(("thinks", "draft"), [(None, "none"), ("opened", "none"), ("open", "ngram"), ("closed", "none"), ("open", "none")])
def test_every_combination_says_what_the_plain_request_says(tmp_path, thinks, draft) -> None:
    async def work() -> None:
        template = tmp_path / "template.jinja"
        template.write_text(TEMPLATE.replace("THINKING", THINKING[thinks or "open"]))
        front = build_front(EngineSpec("echo", chat_template=str(template) if thinks else None, draft=draft))
        await front.start()
        app = create_app(front, ServeSettings())
        reasoned = called = 0
        bias = EVEN | ({"259": 100} if thinks == "open" else {})
        for shape, offer, n, seed in itertools.product(SHAPES, OFFERS, (1, 3), (1, 2)):
            if shape != "free" and offer == "required":
                continue                                            # refused: a demanded call and a response format exclude each other
            body = {
                "messages": [{"role": "user", "content": "hi"}], "max_tokens": 150, "temperature": 1, "seed": seed, "n": n, "logit_bias": bias,
                **SHAPES[shape], **OFFERS[offer],
            }
            whole, streamed = Call(app, "/v1/chat/completions", body), Call(app, "/v1/chat/completions", {**body, "stream": True})
            await asyncio.gather(whole.task, streamed.task)
            parts = joined(streamed.events())
            assert len(whole.json()["choices"]) == len(parts) == n
            for choice in whole.json()["choices"]:
                want = await plain(front, body, choice["x_seed"])
                where = f"{shape}, tools {offer}, n {n}, seed {seed}, choice {choice['index']}"
                assert (said(choice["message"]), choice["finish_reason"]) == want, where
                assert parts[choice["index"]] == want, where
                reasoned += bool(want[0][1] and (want[0][0] or want[0][2]))
                called += bool(want[0][2])
                if shape == "schema" and want[1] == "stop":
                    assert set(json.loads(want[0][0])) == {"k", "d"}
        assert called and bool(reasoned) is (thinks in ("opened", "open"))      # the combinations did happen
        await front.close()

    asyncio.run(asyncio.wait_for(work(), 300))
