"""Ollama's /api/chat, /api/generate, /api/tags, /api/show, /api/version: JSON lines, streamed by default."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import msgspec
from fastapi import APIRouter, Request
from pydantic import Field
from starlette.responses import Response, StreamingResponse

from headwater import __version__
from headwater.core.errors import HeadwaterError, UserInputError
from headwater.engine.front import GenerateRequest, Stream
from headwater.serve.assemble import Message as Assembled
from headwater.serve.assemble import arguments_object
from headwater.serve.chatrun import ChatRun, chat_request
from headwater.serve.context import Server, server_of
from headwater.serve.errors import NotFoundError, error_object, error_response, in_dialect, in_words_of, json_response
from headwater.serve.jsonbody import JsonRoute
from headwater.serve.merge import begun
from headwater.serve.offloop import off_loop, size_of
from headwater.serve.schema.chat import ChatRequest
from headwater.serve.schema.common import Int, Wire
from headwater.serve.sse import Close, ClosingResponse, unless_client_leaves
from headwater.text.infill import infill

log = logging.getLogger("headwater.serve")
router = APIRouter(route_class=JsonRoute)
# Ollama option -> our field where the names differ
OPTIONS = {"num_predict": "max_tokens", "repeat_penalty": "repetition_penalty"}


class OllamaOptions(Wire):
    """num_ctx is checked and reported as ignored: the context is the server's. num_predict 0 and below: as long as it takes."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: Int | None = None
    min_p: float | None = None
    seed: Int | None = None
    num_predict: Int | None = None
    num_ctx: Annotated[Int, Field(ge=1)] | None = None
    stop: str | list[str] | None = None
    repeat_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None

    def as_fields(self) -> tuple[dict[str, Any], list[str]]:
        """Our fields, and the names of options that nobody reads."""
        given = {k: v for k, v in self.model_dump(exclude=set(self.model_extra or ()), exclude_none=True).items() if k != "num_ctx"}
        if given.get("num_predict", 1) < 1:
            del given["num_predict"]
        if given.get("seed") == -1:                                 # any seed, said by a number
            del given["seed"]
        unread = [*self.unknown_fields(), *(["num_ctx"] if self.num_ctx is not None else [])]
        return {OPTIONS.get(k, k): v for k, v in given.items()}, sorted(f"options.{k}" for k in unread)


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
    format: Literal["json", ""] | dict[str, Any] | None = None
    options: OllamaOptions | None = None
    keep_alive: str | float | None = None
    think: bool | Literal["low", "medium", "high"] | None = None


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
    fields, unread = (body.options or OllamaOptions()).as_fields()
    if body.format == "json":
        fields["response_format"] = {"type": "json_object"}
    elif isinstance(body.format, dict):
        fields["response_format"] = {"type": "json_schema", "json_schema": {"name": "format", "schema": body.format}}
    if body.think is True:
        fields["chat_template_kwargs"] = {"enable_thinking": True}
    elif body.think is not None:
        fields["reasoning_effort"] = body.think or "none"
    return fields, unread


def _model(server: Server, name: str) -> str:
    return server.check_model(name.removesuffix(":latest"))


def _now() -> str:
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")


def _lines(lines: AsyncIterator[dict[str, Any]], headers: dict[str, str], close: Close) -> StreamingResponse:
    async def body() -> AsyncIterator[bytes]:
        try:
            async with contextlib.aclosing(lines) as source:         # type: ignore[type-var]
                async for line in source:
                    yield msgspec.json.encode(line) + b"\n"
        except Exception as e:
            if not isinstance(e, HeadwaterError):
                log.exception("stream failed")
            yield msgspec.json.encode({"error": error_object(e)["error"]["message"]}) + b"\n"

    return ClosingResponse(body(), close, media_type="application/x-ndjson", headers=headers)


async def _answer(
    request: Request, body: OllamaRequest, lines: AsyncIterator[dict[str, Any]], headers: dict[str, str], key: str, close: Close
) -> Response:
    """Streamed lines, or the last one with everything said put into it. close: ends what is still running."""
    try:
        # what goes wrong before the first line is a status, no line in a stream
        lines = await unless_client_leaves(request, begun(lines))
    except HeadwaterError as e:
        await close()
        return _refusal(request, e)
    except BaseException:
        await close()
        raise
    if body.stream:
        return _lines(lines, headers, close)

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

    try:
        return json_response(await unless_client_leaves(request, collect()), headers=headers)
    finally:
        await close()


def _refusal(request: Request, e: HeadwaterError) -> Response:
    """The error in Ollama's shape and under the name that the option has there."""
    name = {ours: f"options.{theirs}" for theirs, ours in OPTIONS.items()} | {"response_format": "format"}
    e = in_words_of(e, {field: f"options.{field}" for field in OllamaOptions.model_fields} | name)
    response = in_dialect(request, error_response(e))
    keep = {k: v for k, v in response.headers.items() if k == "retry-after"}
    return json_response({"error": error_object(e)["error"]["message"]}, response.status_code, keep)


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
        run = await ChatRun.start(request, server.front, chat_request({"messages": messages, "tools": body.tools, **fields}))
    except HeadwaterError as e:
        return _refusal(request, e)
    if ignored:
        headers["x-headwater-ignored-fields"] = ",".join(filter(None, [headers.get("x-headwater-ignored-fields"), *ignored]))
    return await _answer(request, body, _chat_lines(run, model), headers, "message", run.aclose)


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
        message["tool_calls"] = [{"function": {"name": f["name"], "arguments": arguments_object(f["arguments"])}} for f in calls]
    reason = "length" if finish == "length" else "stop"
    yield {"model": model, "created_at": _now(), "message": message, "done": True, "done_reason": reason, **_stats(begin, first, run.usage)}


@router.post("/api/generate", response_model=None)
async def generate(request: Request, body: OllamaGenerate) -> Response:
    """Ollama's single prompt: through the chat template, or as it is with `raw`."""
    server = server_of(request)
    try:
        model, headers = _model(server, body.model), server.headers(request, body)
        server.admit()
        if body.images:
            raise UserInputError("images: not supported, this model reads text only", field="images")
        fields, ignored = _fields(body)
        if body.raw or body.suffix or not server.front.model_info.has_chat:
            chat_body = chat_request({"messages": [{"role": "user", "content": ""}], **fields})
            running: Stream | ChatRun = server.front.submit(await off_loop(size_of(request), _raw_request, server, body, chat_body))
            lines = _raw_lines(running, model)
        else:
            turns = [{"role": "system", "content": body.system}] if body.system else []
            turns.append({"role": "user", "content": body.prompt})
            running = await ChatRun.start(request, server.front, chat_request({"messages": turns, **fields}))
            lines = _generate_lines(running, model)
    except HeadwaterError as e:
        return _refusal(request, e)
    if ignored:
        headers["x-headwater-ignored-fields"] = ",".join(filter(None, [headers.get("x-headwater-ignored-fields"), *ignored]))
    return await _answer(request, body, lines, headers, "response", running.aclose)


def _raw_request(server: Server, body: OllamaGenerate, fields: ChatRequest) -> GenerateRequest:
    """The prompt as it is, or with the hole that `suffix` leaves. Raises UserInputError."""
    params = fields.sampling(max_tokens=fields.max_tokens, logprobs=None)
    if body.suffix:
        made = infill(server.front.text.tokenizer, body.prompt, body.suffix)
        params.stop_token_ids, ids = made.stops, made.ids
    else:
        ids = server.front.tokenize(body.prompt)
    return GenerateRequest(ids, params, grammar=fields.grammar())


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
        return _refusal(request, e)
    info = server.front.model_info
    facts = {"general.architecture": "headwater", "headwater.context_length": info.context, "headwater.vocab_size": info.vocabulary}
    capabilities = ["completion", *(["tools"] if info.has_chat else []), *(["insert"] if server.front.text.tokenizer.vocab.fim else [])]
    return json_response({"details": _tag(server, name)["details"], "model_info": facts, "capabilities": capabilities, "template": ""})


@router.get("/api/version", response_model=None)
async def api_version() -> Response:
    return json_response({"version": __version__})
