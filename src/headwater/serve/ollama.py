"""Ollama's /api/chat, /api/generate, /api/tags, /api/show, /api/version: JSON lines, streamed by default."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import msgspec
from fastapi import APIRouter, Request
from pydantic import Field
from starlette.responses import Response, StreamingResponse

from headwater import __version__
from headwater.core.errors import HeadwaterError, UserInputError
from headwater.engine.front import GenerateRequest
from headwater.serve.assemble import Message as Assembled
from headwater.serve.chatrun import ChatRun
from headwater.serve.context import Server, server_of
from headwater.serve.errors import NotFoundError, error_response, json_response, status_of
from headwater.serve.schema.chat import ChatRequest
from headwater.serve.schema.common import Wire
from headwater.serve.sse import unless_client_leaves

router = APIRouter()
# Ollama option -> our field; num_ctx and the like concern loading and are reported as ignored
OPTIONS = {
    "temperature": "temperature", "top_p": "top_p", "top_k": "top_k", "min_p": "min_p", "seed": "seed", "num_predict": "max_tokens", "stop": "stop",
    "repeat_penalty": "repetition_penalty", "presence_penalty": "presence_penalty", "frequency_penalty": "frequency_penalty",
}


class OllamaMessage(Wire):
    role: str
    content: str = ""
    thinking: str | None = None
    images: list[str] | None = None
    tool_calls: list[dict[str, Any]] | None = None
    tool_name: str | None = None


class OllamaRequest(Wire):
    model: str
    stream: bool = True
    format: Any = None
    options: dict[str, Any] = Field(default_factory=dict)
    keep_alive: Any = None
    think: bool | str | None = None


class OllamaChat(OllamaRequest):
    messages: list[OllamaMessage] = Field(min_length=1)
    tools: list[dict[str, Any]] | None = None


class OllamaGenerate(OllamaRequest):
    prompt: str = ""
    system: str | None = None
    raw: bool = False
    suffix: str | None = None
    images: list[str] | None = None


class OllamaShow(Wire):
    model: str | None = None
    name: str | None = None


def _fields(body: OllamaRequest) -> tuple[dict[str, Any], list[str]]:
    """Ollama's options as our fields, and the names that nobody reads."""
    fields = {OPTIONS[k]: v for k, v in body.options.items() if k in OPTIONS}
    if fields.get("max_tokens") is not None and isinstance(fields["max_tokens"], int) and fields["max_tokens"] < 0:
        del fields["max_tokens"]                                    # -1 and -2 mean: as long as it takes
    if body.format == "json":
        fields["response_format"] = {"type": "json_object"}
    elif isinstance(body.format, dict):
        fields["response_format"] = {"type": "json_schema", "json_schema": {"name": "format", "schema": body.format}}
    elif body.format not in (None, ""):
        raise UserInputError(f"format: must be 'json' or a JSON schema, got {body.format!r}", field="format")
    if body.think is False:
        fields["reasoning_effort"] = "none"
    return fields, [f"options.{k}" for k in body.options if k not in OPTIONS]


def _model(server: Server, name: str) -> str:
    return server.check_model(name.removesuffix(":latest"))


def _now() -> str:
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")


def _lines(lines: AsyncIterator[dict[str, Any]], headers: dict[str, str]) -> StreamingResponse:
    async def body() -> AsyncIterator[bytes]:
        try:
            async with contextlib.aclosing(lines) as source:         # type: ignore[type-var]
                async for line in source:
                    yield msgspec.json.encode(line) + b"\n"
        except HeadwaterError as e:
            yield msgspec.json.encode({"error": str(e)}) + b"\n"

    return StreamingResponse(body(), media_type="application/x-ndjson", headers=headers)


async def _answer(request: Request, body: OllamaRequest, lines: AsyncIterator[dict[str, Any]], headers: dict[str, str], key: str) -> Response:
    """Streamed lines, or the last one with everything said put into it."""
    if body.stream:
        return _lines(lines, headers)

    async def collect() -> dict[str, Any]:
        text, thinking, calls, last = "", "", [], {}
        async for last in lines:
            said = last["message"] if key == "message" else last
            text += said.get("content" if key == "message" else "response", "")
            thinking += said.get("thinking", "")
            calls += said.get("tool_calls", [])
        place = last["message"] if key == "message" else last
        place["content" if key == "message" else "response"] = text
        if thinking:
            place["thinking"] = thinking
        if calls:
            place["tool_calls"] = calls
        return last

    return json_response(await unless_client_leaves(request, collect()), headers=headers)


def _ollama_error(e: HeadwaterError) -> Response:
    return json_response({"error": str(e)}, status_of(e)[0], {k: v for k, v in error_response(e).headers.items() if k == "retry-after"})


def _stats(begin: float, first: float, usage: Any) -> dict[str, int]:
    end = time.perf_counter_ns()
    return {
        "total_duration": int(end - begin), "load_duration": 0, "prompt_eval_count": usage.prompt, "prompt_eval_duration": int(first - begin),
        "eval_count": usage.completion, "eval_duration": int(end - first),
    }


@router.post("/api/chat", response_model=None)
async def chat(request: Request, body: OllamaChat) -> Response:
    """Ollama's chat."""
    server = server_of(request)
    try:
        model, headers = _model(server, body.model), server.headers(request, body)
        server.admit()
        fields, ignored = _fields(body)
        messages = []
        for i, m in enumerate(body.messages):
            if m.images:
                raise UserInputError(f"messages[{i}].images: not supported, this model reads text only", field=f"messages[{i}].images")
            out: dict[str, Any] = {"role": m.role, "content": m.content}
            if m.tool_calls:
                out["tool_calls"] = m.tool_calls
            if m.tool_name:
                out["name"] = m.tool_name
            messages.append(out)
        run = ChatRun(server.front, ChatRequest.model_validate({"messages": messages, "tools": body.tools, **fields}))
    except HeadwaterError as e:
        return _ollama_error(e)
    if ignored:
        headers["x-headwater-ignored-fields"] = ",".join(filter(None, [headers.get("x-headwater-ignored-fields"), *ignored]))
    return await _answer(request, body, _chat_lines(run, model), headers, "message")


async def _chat_lines(run: ChatRun, model: str) -> AsyncIterator[dict[str, Any]]:
    begin = first = time.perf_counter_ns()
    called, finish = Assembled(), "stop"
    async with contextlib.aclosing(run.said()) as said:
        async for s in said:
            if first == begin:
                first = time.perf_counter_ns()
            finish = s.finish or finish
            for part in s.parts:
                if part.kind == "tool":
                    called.add(part)
                elif part.text:
                    content = {"content": part.text} if part.kind == "content" else {"content": "", "thinking": part.text}
                    yield {"model": model, "created_at": _now(), "message": {"role": "assistant", **content}, "done": False}
    message: dict[str, Any] = {"role": "assistant", "content": ""}
    if called.calls:
        calls = [c["function"] for c in called.calls]
        message["tool_calls"] = [{"function": {"name": f["name"], "arguments": msgspec.json.decode(f["arguments"] or "{}")}} for f in calls]
    reason = "length" if finish == "length" else "stop"
    yield {"model": model, "created_at": _now(), "message": message, "done": True, "done_reason": reason, **_stats(begin, first, run.usage)}


@router.post("/api/generate", response_model=None)
async def generate(request: Request, body: OllamaGenerate) -> Response:
    """Ollama's single prompt: through the chat template, or as it is with `raw`."""
    server = server_of(request)
    try:
        model, headers = _model(server, body.model), server.headers(request, body)
        server.admit()
        if body.suffix or body.images:
            name = "suffix" if body.suffix else "images"
            raise UserInputError(f"{name}: not supported by this model", field=name)
        fields, ignored = _fields(body)
        if body.raw or not server.front.model_info.has_chat:
            chat_body = ChatRequest.model_validate({"messages": [{"role": "user", "content": ""}], **fields})
            limit = chat_body.max_tokens
            wanted = GenerateRequest(
                server.front.tokenize(body.prompt), chat_body.sampling(max_tokens=limit, logprobs=None), grammar=chat_body.grammar()
            )
            lines = _raw_lines(server.front.submit(wanted), model)
        else:
            turns = [{"role": "system", "content": body.system}] if body.system else []
            turns.append({"role": "user", "content": body.prompt})
            lines = _generate_lines(ChatRun(server.front, ChatRequest.model_validate({"messages": turns, **fields})), model)
    except HeadwaterError as e:
        return _ollama_error(e)
    if ignored:
        headers["x-headwater-ignored-fields"] = ",".join(filter(None, [headers.get("x-headwater-ignored-fields"), *ignored]))
    return await _answer(request, body, lines, headers, "response")


async def _generate_lines(run: ChatRun, model: str) -> AsyncIterator[dict[str, Any]]:
    async for line in _chat_lines(run, model):
        message = line.pop("message")
        extra = {"thinking": message["thinking"]} if "thinking" in message else {}
        yield {**line, "response": message["content"], **extra}


async def _raw_lines(running: Any, model: str) -> AsyncIterator[dict[str, Any]]:
    begin = first = time.perf_counter_ns()
    finish = "stop"
    async with contextlib.aclosing(running):
        async for d in running:
            if first == begin:
                first = time.perf_counter_ns()
            finish = d.finish_reason or finish
            if d.text:
                yield {"model": model, "created_at": _now(), "response": d.text, "done": False}
    reason = "length" if finish == "length" else "stop"
    yield {"model": model, "created_at": _now(), "response": "", "done": True, "done_reason": reason, **_stats(begin, first, running.usage)}


def _tag(server: Server, name: str) -> dict[str, Any]:
    created = datetime.fromtimestamp(server.front.created, UTC).isoformat().replace("+00:00", "Z")
    details = {"format": "gguf", "family": server.front.model_info.name, "families": None, "parameter_size": "", "quantization_level": ""}
    return {"name": name, "model": name, "modified_at": created, "size": 0, "digest": server.front.model_info.identity, "details": details}


@router.get("/api/tags", response_model=None)
async def tags(request: Request) -> Response:
    """The models of this server."""
    server = server_of(request)
    return json_response({"models": [_tag(server, n) for n in server.names]})


@router.post("/api/show", response_model=None)
async def show(request: Request, body: OllamaShow) -> Response:
    """Facts about one model."""
    server = server_of(request)
    name = body.model or body.name or ""
    try:
        _model(server, name)
    except NotFoundError as e:
        return _ollama_error(e)
    info = server.front.model_info
    facts = {"general.architecture": "headwater", "headwater.context_length": info.context, "headwater.vocab_size": info.vocabulary}
    capabilities = ["completion", *(["tools"] if info.has_chat else [])]
    return json_response({"details": _tag(server, name)["details"], "model_info": facts, "capabilities": capabilities, "template": ""})


@router.get("/api/version", response_model=None)
async def api_version() -> Response:
    return json_response({"version": __version__})
