"""POST /v1/chat/completions."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from headwater.core.request import TokenLogprobs
from headwater.engine.front import Front
from headwater.serve.assemble import Message
from headwater.serve.chatrun import ChatRun, Said
from headwater.serve.context import new_id, server_of, usage_object
from headwater.serve.errors import json_response
from headwater.serve.jsonbody import JsonRoute
from headwater.serve.logprobs import chat_content
from headwater.serve.schema.chat import ChatRequest
from headwater.serve.sse import event, stream, unless_client_leaves

router = APIRouter(route_class=JsonRoute)


@router.post("/v1/chat/completions", response_model=None)
async def chat_completions(request: Request, body: ChatRequest) -> Response:
    """Chat completion, streamed or whole."""
    server = server_of(request)
    model, headers = server.check_model(body.model), server.headers(request, body)
    server.admit()
    run = await ChatRun.start(request, server.front, body)
    writer = Writer(server.front, body, model, run)
    try:
        if body.stream:
            await unless_client_leaves(request, run.begin())
            return stream(writer.events(), headers, run.aclose)
        return await unless_client_leaves(request, writer.whole(headers))
    except BaseException:
        await run.aclose()
        raise


@dataclass(slots=True)
class Piece:
    """One choice so far."""

    message: Message = field(default_factory=Message)
    logprobs: list[TokenLogprobs] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)
    begun: bool = False


class Writer:
    """Turns what was said into the wire form of one response, streamed or whole."""

    def __init__(self, front: Front, body: ChatRequest, model: str, run: ChatRun) -> None:
        self.front, self.body, self.run = front, body, run
        self.base = {"id": new_id("chatcmpl"), "created": int(time.time()), "model": model, "system_fingerprint": front.model_info.identity[:32]}
        self.pieces = [Piece() for _ in range(body.n or 1)]

    def usage(self) -> dict[str, Any]:
        return usage_object(**self.run.usage_numbers())

    def _logprobs(self, entries: list[TokenLogprobs]) -> dict[str, Any] | None:
        return {"content": chat_content(self.front, entries), "refusal": None} if self.body.logprobs else None

    async def events(self) -> AsyncIterator[bytes]:
        options = self.body.stream_options
        head = {**self.base, "object": "chat.completion.chunk"}
        async with contextlib.aclosing(self.run.said()) as said:
            async for s in said:
                for chunk in self._chunks(s):
                    extra = {"usage": self.usage()} if options and options.continuous_usage_stats else {}
                    yield event({**head, "choices": [chunk], **extra})
        if options and options.include_usage:
            yield event({**head, "choices": [], "usage": self.usage()})

    def _chunks(self, s: Said) -> list[dict[str, Any]]:
        """Wire deltas of one engine delta: role first, text and calls, then the finish reason with the last."""
        piece, d = self.pieces[s.index], s.delta
        deltas = [x for x in (p.as_delta(self.body.include_reasoning) for p in s.parts) if x]
        if not piece.begun:
            piece.begun = True
            deltas.insert(0, {"role": "assistant", "content": ""})
        if not deltas and (s.finish or (self.body.logprobs and d.token_ids)):
            deltas = [{}]
        chunks: list[dict[str, Any]] = [{"index": s.index, "delta": x, "logprobs": None, "finish_reason": None} for x in deltas]
        if not chunks:
            return chunks
        chunks[-1]["logprobs"] = self._logprobs(d.logprobs or [])
        if s.finish:
            if chunks[-1]["delta"]:
                chunks.append({"index": s.index, "delta": {}, "logprobs": None, "finish_reason": None})
            chunks[-1] |= {"finish_reason": s.finish, "stop_reason": d.stop_reason, "x_seed": d.x_seed}
        if self.body.return_token_ids:
            chunks[0]["token_ids"] = d.token_ids
        return chunks

    async def whole(self, headers: dict[str, str]) -> Response:
        choices: dict[int, dict[str, Any]] = {}
        async with contextlib.aclosing(self.run.said()) as said:
            async for s in said:
                piece = self.pieces[s.index]
                for part in s.parts:
                    piece.message.add(part)
                piece.logprobs += s.delta.logprobs or []
                piece.ids += s.delta.token_ids
                if s.finish:
                    choices[s.index] = self._choice(s, piece)
        ordered = [choices[i] for i in sorted(choices)]
        return json_response({**self.base, "object": "chat.completion", "choices": ordered, "usage": self.usage()}, headers=headers)

    def _choice(self, s: Said, piece: Piece) -> dict[str, Any]:
        out = {
            "index": s.index,
            "message": piece.message.as_object(self.body.include_reasoning),
            "logprobs": self._logprobs(piece.logprobs),
            "finish_reason": s.finish,
            "stop_reason": s.delta.stop_reason,
            "x_seed": s.delta.x_seed,
        }
        if self.body.return_token_ids:
            out["token_ids"] = piece.ids
        return out
