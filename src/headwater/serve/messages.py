"""POST /v1/messages and /v1/messages/count_tokens: Anthropic's shape."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any, Literal

from fastapi import APIRouter, Request
from pydantic import Field
from starlette.responses import Response

from headwater.core.errors import HeadwaterError, UserInputError
from headwater.serve import errors
from headwater.serve.assemble import Message as Assembled
from headwater.serve.assemble import arguments_object
from headwater.serve.chatrun import ChatRun, chat_request, render
from headwater.serve.context import new_id, server_of
from headwater.serve.errors import json_response
from headwater.serve.jsonbody import JsonRoute
from headwater.serve.offloop import off_loop, size_of
from headwater.serve.schema.chat import ChatRequest
from headwater.serve.schema.common import Int, Wire
from headwater.serve.sse import event, stream, unless_client_leaves

router = APIRouter(route_class=JsonRoute)
_NAMES = {"stop": "stop_sequences"}                                 # our field -> its name in this dialect
_STOP = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}


class Block(Wire):
    type: str
    text: str | None = None
    thinking: str | None = None
    id: str | None = None
    name: str | None = None
    input: dict[str, Any] | None = None
    tool_use_id: str | None = None
    content: Any = None


class Turn(Wire):
    role: Literal["user", "assistant"]
    content: str | list[Block]


class AnthropicTool(Wire):
    name: str
    description: str | None = None
    input_schema: dict[str, Any] = Field(default_factory=dict)


class ToolChoice(Wire):
    type: Literal["auto", "any", "tool", "none"]
    name: str | None = None
    disable_parallel_tool_use: bool = False


class MessagesRequest(Wire):
    model: str
    messages: list[Turn] = Field(min_length=1)
    max_tokens: Int | None = None
    system: str | list[Block] | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: Int | None = None
    stop_sequences: list[str] | None = None
    stream: bool = False
    tools: list[AnthropicTool] | None = None
    tool_choice: ToolChoice | None = None
    metadata: dict[str, Any] | None = None
    thinking: dict[str, Any] | None = None


def _texts(content: Any, where: str) -> str:
    """Text of a string or of text blocks; anything else is refused by name."""
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list) or not all(isinstance(b, Block | dict) for b in content):
        raise UserInputError(f"{where}: must be a text or a list of text blocks", field=where)
    out = []
    for i, b in enumerate(content):
        kind = b.type if isinstance(b, Block) else b.get("type")
        text = b.text if isinstance(b, Block) else b.get("text")
        if kind != "text":
            raise UserInputError(f"{where}[{i}].type: '{kind}' is not supported, this model reads text only", field=f"{where}[{i}].type")
        if not isinstance(text, str | None):
            raise UserInputError(f"{where}[{i}].text: must be a text", field=f"{where}[{i}].text")
        out.append(text or "")
    return "".join(out)


def _turn(turn: Turn, where: str) -> list[dict[str, Any]]:
    """One Anthropic turn as OpenAI messages: tool results become messages of their own."""
    if isinstance(turn.content, str):
        return [{"role": turn.role, "content": turn.content}]
    out: list[dict[str, Any]] = []
    texts, calls, thinking = [], [], []
    for i, b in enumerate(turn.content):
        if b.type == "tool_result":
            out.append({"role": "tool", "tool_call_id": b.tool_use_id, "content": _texts(b.content, f"{where}.content[{i}].content")})
        elif b.type == "tool_use":
            calls.append({"id": b.id, "type": "function", "function": {"name": b.name or "", "arguments": json.dumps(b.input or {})}})
        elif b.type == "thinking":
            thinking.append(b.thinking or "")
        elif b.type != "redacted_thinking":
            texts.append(_texts([b], f"{where}.content"))
    if texts or calls or not out:
        message: dict[str, Any] = {"role": turn.role, "content": "".join(texts)}
        if calls:
            message["tool_calls"] = calls
        if thinking:
            message["reasoning_content"] = "".join(thinking)
        out.append(message)
    return out


def to_chat(body: MessagesRequest) -> ChatRequest:
    """The same request in OpenAI's shape. Raises UserInputError naming the field."""
    messages: list[dict[str, Any]] = []
    if body.system:
        messages.append({"role": "system", "content": _texts(body.system, "system")})
    for i, turn in enumerate(body.messages):
        messages += _turn(turn, f"messages[{i}]")
    choice: Any = None
    if body.tool_choice is not None:
        kinds: dict[str, Any] = {"auto": "auto", "any": "required", "none": "none"}
        choice = kinds.get(body.tool_choice.type) or {"type": "function", "function": {"name": body.tool_choice.name or ""}}
    tools = [{"function": {"name": t.name, "description": t.description, "parameters": t.input_schema}} for t in body.tools or []]
    extra: dict[str, Any] = {}
    if body.thinking is not None and body.thinking.get("type") == "disabled":
        extra["reasoning_effort"] = "none"
    elif body.thinking is not None and body.thinking.get("budget_tokens") is not None:
        extra["thinking_token_budget"] = body.thinking["budget_tokens"]
    return chat_request({
        "messages": messages, "max_tokens": body.max_tokens, "temperature": body.temperature, "top_p": body.top_p, "top_k": body.top_k,
        "stop": body.stop_sequences, "tools": tools or None, "tool_choice": choice, **extra,
        **({"parallel_tool_calls": False} if body.tool_choice is not None and body.tool_choice.disable_parallel_tool_use else {}),
    }).advise()


def error_object(error: BaseException) -> dict[str, Any]:
    status, _, _ = errors.status_of(error)
    message = errors.error_object(error)["error"]["message"]
    return {"type": "error", "error": {"type": errors.ANTHROPIC_KINDS.get(status, "api_error"), "message": message}}


def refusal(error: HeadwaterError) -> Response:
    """The error in Anthropic's shape, its field under Anthropic's name."""
    response = errors.error_response(errors.in_words_of(error, _NAMES))
    return json_response(error_object(error), response.status_code, {k: v for k, v in response.headers.items() if k == "retry-after"})


@router.post("/v1/messages", response_model=None)
async def messages(request: Request, body: MessagesRequest) -> Response:
    """Anthropic-style chat, streamed or whole."""
    server = server_of(request)
    try:
        if body.max_tokens is None:
            raise UserInputError("max_tokens: is missing", field="max_tokens")
        model, headers = server.check_model(body.model), server.headers(request, body)
        server.admit()
        run = await ChatRun.start(request, server.front, to_chat(body))
    except HeadwaterError as e:
        return refusal(e)
    writer = Writer(model, run)
    try:
        if body.stream:
            await unless_client_leaves(request, run.begin())
            return stream(writer.events(), headers, run.aclose, done=b"", on_error=lambda e: event(error_object(e), "error"))
        return await unless_client_leaves(request, writer.whole(headers))
    except HeadwaterError as e:
        await run.aclose()
        return refusal(e)
    except BaseException:
        await run.aclose()
        raise


@router.post("/v1/messages/count_tokens", response_model=None)
async def count_tokens(request: Request, body: MessagesRequest) -> Response:
    """How many tokens the messages are to the model."""
    server = server_of(request)
    try:
        server.check_model(body.model)
        ids = await off_loop(size_of(request), render, server.front, to_chat(body))
        return json_response({"input_tokens": len(ids)}, headers=server.headers(request, body))
    except HeadwaterError as e:
        return refusal(e)


class Writer:
    """What was said as Anthropic's message object, or as its named events."""

    def __init__(self, model: str, run: ChatRun) -> None:
        self.run = run
        self.base = {"id": new_id("msg"), "type": "message", "role": "assistant", "model": model}

    def usage(self) -> dict[str, int]:
        u = self.run.usage
        return {
            "input_tokens": u.prompt - u.cached, "cache_read_input_tokens": u.cached, "cache_creation_input_tokens": 0, "output_tokens": u.completion,
        }

    async def whole(self, headers: dict[str, str]) -> Response:
        message, finish, stop = Assembled(), "stop", None
        async with contextlib.aclosing(self.run.said()) as said:
            async for s in said:
                for part in s.parts:
                    message.add(part)
                finish, stop = s.finish or finish, s.delta.stop_reason or stop
        content: list[dict[str, Any]] = []
        if message.reasoning:
            content.append({"type": "thinking", "thinking": message.reasoning, "signature": ""})
        if message.content or not message.calls:
            content.append({"type": "text", "text": message.content})
        for c in message.calls:
            given = arguments_object(c["function"]["arguments"])
            content.append({"type": "tool_use", "id": c["id"], "name": c["function"]["name"], "input": given})
        text_stop = stop if isinstance(stop, str) else None
        reason = "stop_sequence" if text_stop is not None else _STOP.get(finish, "end_turn")
        out = {**self.base, "content": content, "stop_reason": reason, "stop_sequence": text_stop, "usage": self.usage()}
        return json_response(out, headers=headers)

    async def events(self) -> AsyncIterator[bytes]:
        usage = {**self.usage(), "output_tokens": 0}
        start: dict[str, Any] = {**self.base, "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
        yield event({"type": "message_start", "message": start}, "message_start")
        index, open_kind, finish, stop = -1, "", "stop", None
        async with contextlib.aclosing(self.run.said()) as said:
            async for s in said:
                for part in s.parts:
                    key = f"tool{part.index}" if part.kind == "tool" else part.kind
                    if key != open_kind:
                        if index >= 0:
                            yield event({"type": "content_block_stop", "index": index}, "content_block_stop")
                        index, open_kind = index + 1, key
                        yield event({"type": "content_block_start", "index": index, "content_block": _start(part)}, "content_block_start")
                    if part.text:
                        yield event({"type": "content_block_delta", "index": index, "delta": _delta(part)}, "content_block_delta")
                finish, stop = s.finish or finish, s.delta.stop_reason or stop
        if index >= 0:
            yield event({"type": "content_block_stop", "index": index}, "content_block_stop")
        text_stop = stop if isinstance(stop, str) else None
        reason = "stop_sequence" if text_stop is not None else _STOP.get(finish, "end_turn")
        delta = {"stop_reason": reason, "stop_sequence": text_stop}
        yield event({"type": "message_delta", "delta": delta, "usage": self.usage()}, "message_delta")
        yield event({"type": "message_stop"}, "message_stop")


def _start(part: Any) -> dict[str, Any]:
    if part.kind == "tool":
        return {"type": "tool_use", "id": part.id, "name": part.name, "input": {}}
    return {"type": "thinking", "thinking": "", "signature": ""} if part.kind == "reasoning" else {"type": "text", "text": ""}


def _delta(part: Any) -> dict[str, Any]:
    if part.kind == "tool":
        return {"type": "input_json_delta", "partial_json": part.text}
    return {"type": "thinking_delta", "thinking": part.text} if part.kind == "reasoning" else {"type": "text_delta", "text": part.text}
