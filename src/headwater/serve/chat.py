"""POST /v1/chat/completions."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from headwater.core.errors import UserInputError
from headwater.core.request import TokenLogprobs
from headwater.engine.choice import Delta
from headwater.engine.front import Front, GenerateRequest, Stream
from headwater.serve.assemble import Assembler, Message, Shape, shape_of
from headwater.serve.context import new_id, server_of, usage_object
from headwater.serve.errors import json_response
from headwater.serve.logprobs import chat_content
from headwater.serve.schema.chat import ChatRequest
from headwater.serve.sse import event, stream, unless_client_leaves

router = APIRouter()


def messages_of(body: ChatRequest) -> list[dict[str, Any]]:
    return [m.as_dict(f"messages[{i}]") for i, m in enumerate(body.messages)]


def render(front: Front, body: ChatRequest) -> list[int]:
    """Messages -> ids. Raises UserInputError where the model has no template or the template refuses."""
    names = dict(body.chat_template_kwargs or {})
    for taken in ("messages", "tools", "add_generation_prompt", "continue_final_message"):
        if taken in names:
            raise UserInputError(f"chat_template_kwargs.{taken}: set it by the field of that name", field=f"chat_template_kwargs.{taken}")
    if body.reasoning_effort is not None:
        names.setdefault("reasoning_effort", body.reasoning_effort)
        if body.reasoning_effort == "none":
            names.setdefault("enable_thinking", False)
    if body.continue_final_message:
        if body.add_generation_prompt and "add_generation_prompt" in body.model_fields_set:
            raise UserInputError("continue_final_message: not together with add_generation_prompt", field="continue_final_message")
        names["continue_final_message"] = True
    tools = [t.model_dump(exclude_none=True) for t in body.tools] if body.tools and body.tool_choice != "none" else None
    prompt = body.add_generation_prompt and not body.continue_final_message
    return front.render_chat(messages_of(body), tools, add_generation_prompt=prompt, **names)


def generate_request(front: Front, body: ChatRequest, shape: Shape) -> GenerateRequest:
    if body.max_tokens is not None and body.max_completion_tokens is not None and body.max_tokens != body.max_completion_tokens:
        raise UserInputError("max_completion_tokens: differs from max_tokens; send one of them", field="max_completion_tokens")
    limit = body.max_completion_tokens if body.max_completion_tokens is not None else body.max_tokens
    params = body.sampling(max_tokens=limit, logprobs=body.wanted_logprobs())
    return GenerateRequest(
        render(front, body), params, grammar=shape.grammar, priority=body.priority, cache_salt=body.cache_salt or "", request_id=body.request_id
    )


@router.post("/v1/chat/completions", response_model=None)
async def chat_completions(request: Request, body: ChatRequest) -> Response:
    """Chat completion, streamed or whole."""
    server = server_of(request)
    model, headers = server.check_model(body.model), server.headers(request, body)
    server.admit()
    shape = shape_of(server.front, body)
    running = server.front.submit(generate_request(server.front, body, shape))
    writer = Writer(server.front, body, model, running, shape)
    try:
        if body.stream:
            return stream(writer.events(), headers)
        return await unless_client_leaves(request, writer.whole(headers))
    except BaseException:
        await running.aclose()
        raise


@dataclass(slots=True)
class Piece:
    """One choice so far."""

    assembler: Assembler
    message: Message = field(default_factory=Message)
    logprobs: list[TokenLogprobs] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)
    begun: bool = False


class Writer:
    """Turns deltas into the wire form of one response, streamed or whole."""

    def __init__(self, front: Front, body: ChatRequest, model: str, running: Stream, shape: Shape) -> None:
        self.front, self.body, self.running = front, body, running
        self.base = {"id": new_id("chatcmpl"), "created": int(time.time()), "model": model, "system_fingerprint": front.model_info.identity[:32]}
        self.pieces = [Piece(shape.assembler()) for _ in range(body.n or 1)]
        self.reasons = shape.reasons

    def usage(self) -> dict[str, Any]:
        u = self.running.usage
        reasoning = sum(p.assembler.reasoning_tokens for p in self.pieces)
        return usage_object(u.prompt, u.completion, u.cached, reasoning if self.reasons else None)

    def _logprobs(self, entries: list[TokenLogprobs]) -> dict[str, Any] | None:
        return {"content": chat_content(self.front, entries), "refusal": None} if self.body.logprobs else None

    async def events(self) -> AsyncIterator[bytes]:
        options = self.body.stream_options
        head = {**self.base, "object": "chat.completion.chunk"}
        async with contextlib.aclosing(self.running):
            async for d in self.running:
                for chunk in self._chunks(d):
                    extra = {"usage": self.usage()} if options and options.continuous_usage_stats else {}
                    yield event({**head, "choices": [chunk], **extra})
        if options and options.include_usage:
            yield event({**head, "choices": [], "usage": self.usage()})

    def _chunks(self, d: Delta) -> list[dict[str, Any]]:
        """Wire deltas of one engine delta: role first, text and calls, then the finish reason with the last."""
        piece = self.pieces[d.index]
        fields = piece.assembler.feed(d.text, len(d.token_ids), final=d.finish_reason is not None)
        deltas = [f.as_delta(self.body.include_reasoning) for f in fields]
        deltas = [x for x in deltas if x]
        if not piece.begun:
            piece.begun = True
            deltas.insert(0, {"role": "assistant", "content": ""})
        if not deltas and (d.finish_reason or (self.body.logprobs and d.token_ids)):
            deltas = [{}]
        chunks: list[dict[str, Any]] = [{"index": d.index, "delta": x, "logprobs": None, "finish_reason": None} for x in deltas]
        if not chunks:
            return chunks
        chunks[-1]["logprobs"] = self._logprobs(d.logprobs or [])
        if d.finish_reason:
            if chunks[-1]["delta"]:
                chunks.append({"index": d.index, "delta": {}, "logprobs": None, "finish_reason": None})
            chunks[-1]["finish_reason"] = piece.assembler.finish_reason(d.finish_reason)
            chunks[-1]["stop_reason"] = d.stop_reason
        if self.body.return_token_ids:
            chunks[0]["token_ids"] = d.token_ids
        return chunks

    async def whole(self, headers: dict[str, str]) -> Response:
        choices: dict[int, dict[str, Any]] = {}
        async with contextlib.aclosing(self.running):
            async for d in self.running:
                piece = self.pieces[d.index]
                for part in piece.assembler.feed(d.text, len(d.token_ids), final=d.finish_reason is not None):
                    piece.message.add(part)
                piece.logprobs += d.logprobs or []
                piece.ids += d.token_ids
                if d.finish_reason:
                    choices[d.index] = {
                        "index": d.index,
                        "message": piece.message.as_object(self.body.include_reasoning),
                        "logprobs": self._logprobs(piece.logprobs),
                        "finish_reason": piece.assembler.finish_reason(d.finish_reason),
                        "stop_reason": d.stop_reason,
                        "x_seed": d.x_seed,
                    }
                    if self.body.return_token_ids:
                        choices[d.index]["token_ids"] = piece.ids
        ordered = [choices[i] for i in sorted(choices)]
        return json_response({**self.base, "object": "chat.completion", "choices": ordered, "usage": self.usage()}, headers=headers)
