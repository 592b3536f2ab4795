"""POST /v1/completions."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from headwater.core.drafting import DraftCounts
from headwater.core.errors import UserInputError
from headwater.core.request import TokenLogprobs
from headwater.engine.choice import Delta
from headwater.engine.front import Front, GenerateRequest, Stream
from headwater.serve.context import new_id, server_of, usage_object
from headwater.serve.errors import json_response
from headwater.serve.jsonbody import JsonRoute
from headwater.serve.logprobs import completion_object
from headwater.serve.merge import begun, merged
from headwater.serve.offloop import off_loop, size_of
from headwater.serve.schema.completions import CompletionRequest
from headwater.serve.sse import event, stream, unless_client_leaves
from headwater.text.infill import infill

router = APIRouter(route_class=JsonRoute)
MAX_ROWS = 4096
SUBMIT_AT_ONCE = 64


@dataclass(slots=True)
class Piece:
    """What has been said about one choice so far."""

    text: str = ""
    ids: list[int] = field(default_factory=list)
    logprobs: list[TokenLogprobs] = field(default_factory=list)
    end: TokenLogprobs | None = None
    finish: str | None = None
    stop: int | str | None = None
    seed: int = 0

    def add(self, d: Delta) -> None:
        self.text += d.text
        self.ids += d.token_ids
        self.logprobs += d.logprobs or []
        self.end = d.end_logprob or self.end
        self.finish = d.finish_reason or self.finish
        self.stop = d.stop_reason if d.finish_reason else self.stop
        self.seed = d.x_seed


def generate_requests(front: Front, body: CompletionRequest, salt: str) -> list[GenerateRequest]:
    """One engine request per prompt. Raises UserInputError naming the field."""
    prompts = body.prompts()
    if not prompts:
        raise UserInputError("prompt: is empty", field="prompt")
    max_tokens = 16 if body.max_tokens is None else body.max_tokens
    if max_tokens < 0:
        raise UserInputError(f"max_tokens: must be at least 0, got {max_tokens}", field="max_tokens")
    score_prompt = body.logprobs if body.echo and body.logprobs is not None else body.prompt_logprobs
    params = body.sampling(max_tokens=max(1, max_tokens), logprobs=body.logprobs, prompt_logprobs=score_prompt)
    rows = len(prompts) * params.n
    if rows > MAX_ROWS:
        raise UserInputError(f"prompt: {len(prompts):,} prompts × n = {rows:,} answers, at most {MAX_ROWS:,} are given at once", field="prompt")
    if body.suffix:                                                 # "" is what clients send that have none
        made = [infill(front.text.tokenizer, _text_prompt(p), body.suffix) for p in prompts]
        params.stop_token_ids = [*params.stop_token_ids, *made[0].stops]
        ids: list[list[int]] = [m.ids for m in made]
    else:
        ids = [front.tokenize(p, add_special=body.add_special_tokens) if isinstance(p, str) else p for p in prompts]
    return [
        GenerateRequest(
            p,
            params,
            read_only=max_tokens == 0,
            grammar=body.grammar(),
            priority=body.priority,
            cache_salt=salt,
            request_id=body.request_id if len(prompts) == 1 else None,
        )
        for p in ids
    ]


def _text_prompt(prompt: str | list[int]) -> str:
    if not isinstance(prompt, str):
        raise UserInputError("prompt: must be text where a suffix is given", field="prompt")
    return prompt


@router.post("/v1/completions", response_model=None)
async def completions(request: Request, body: CompletionRequest) -> Response:
    """Text completion; `prompt` may be text, texts, ids or lists of ids."""
    server = server_of(request)
    model, headers = server.check_model(body.model), server.headers(request, body)
    server.admit()
    wanted = await off_loop(size_of(request), generate_requests, server.front, body, body.cache_salt or "")
    streams: list[Stream] = []
    try:
        for i, w in enumerate(wanted):
            if i % SUBMIT_AT_ONCE == SUBMIT_AT_ONCE - 1:
                await asyncio.sleep(0)                               # let other requests be heard
            streams.append(server.front.submit(w))
        writer = Writer(server.front, body, model, wanted, streams)
        if body.stream:
            await unless_client_leaves(request, writer.begin())
            return stream(writer.events(), headers, writer.aclose)
        return await unless_client_leaves(request, writer.whole(headers))
    except BaseException:
        for s in streams:
            await s.aclose()
        raise


class Writer:
    """Turns deltas into the wire form of one response, streamed or whole."""

    def __init__(self, front: Front, body: CompletionRequest, model: str, wanted: list[GenerateRequest], streams: list[Stream]) -> None:
        self.front, self.body, self.wanted, self.streams = front, body, wanted, streams
        self.head = {"id": new_id("cmpl"), "object": "text_completion", "created": int(time.time()), "model": model}
        self.n = body.n or 1
        self.prompt_entries: dict[int, list[TokenLogprobs]] = {}
        self.deltas = merged(streams)

    async def begin(self) -> None:
        """Wait for the first delta: what goes wrong before it is a status, no event in a stream."""
        self.deltas = await begun(self.deltas)

    async def aclose(self) -> None:
        for s in self.streams:
            await s.aclose()

    def usage(self) -> dict[str, Any]:
        u = [s.usage for s in self.streams]
        drafts = DraftCounts.total([x.drafts for x in u if x.drafts is not None])
        return usage_object(sum(x.prompt for x in u), sum(x.completion for x in u), sum(x.cached for x in u), drafts=drafts)

    def echo_text(self, i: int) -> str:
        prompt = self.body.prompts()[i]
        return prompt if isinstance(prompt, str) else self.front.detokenize(prompt)

    def _logprobs(
        self, i: int, ids: list[int], entries: list[TokenLogprobs], end: TokenLogprobs | None, *, with_prompt: bool, offset: int
    ) -> dict[str, Any] | None:
        """The token that ended the choice is listed too, as vLLM does: harnesses count on one entry more than they score."""
        if self.body.logprobs is None:
            return None
        tokens, all_entries = list(ids), list[TokenLogprobs | None](entries)
        if end is not None:
            tokens, all_entries = [*tokens, end.token], [*all_entries, end]
        if with_prompt:
            prompt = [int(t) for t in self.wanted[i].prompt]
            scored = self.prompt_entries.get(i, [])
            all_entries = [*[None] * (len(prompt) - len(scored)), *scored, *all_entries]
            tokens = prompt + tokens
        return completion_object(self.front, all_entries, tokens, offset)

    def _work(self, i: int) -> int:
        """How large, as `off_loop` counts, a table of the prompt's log-probabilities is: about a microsecond for each of its entries."""
        return len(self.wanted[i].prompt) * (2 + (self.body.logprobs or 0)) * 16

    def _choice(self, i: int, index: int, text: str, logprobs: Any, finish: str | None, stop: Any) -> dict[str, Any]:
        return {"index": i * self.n + index, "text": text, "logprobs": logprobs, "finish_reason": finish, "stop_reason": stop}

    async def events(self) -> AsyncIterator[bytes]:
        include = self.body.stream_options is not None and self.body.stream_options.include_usage
        continuous = self.body.stream_options is not None and self.body.stream_options.continuous_usage_stats
        offsets: dict[tuple[int, int], int] = {}
        echoed: set[tuple[int, int]] = set()
        async with contextlib.aclosing(self.deltas) as deltas:
            async for i, d in deltas:
                if d.reads is not None:
                    self.prompt_entries[i] = d.reads.prompt
                key = (i, d.index)
                text, with_prompt = d.text, self.body.echo and key not in echoed
                if with_prompt:
                    echoed.add(key)
                    text = self.echo_text(i) + text
                logprobs = await off_loop(
                    self._work(i) if with_prompt else 0, self._logprobs, i, d.token_ids, d.logprobs or [], d.end_logprob,
                    with_prompt=with_prompt, offset=offsets.get(key, 0),
                )
                offsets[key] = offsets.get(key, 0) + len(text)
                if not text and not d.finish_reason and not logprobs:
                    continue
                finish = "length" if self.wanted[i].read_only and d.finish_reason else d.finish_reason
                choice = self._choice(i, d.index, text, logprobs, finish, d.stop_reason)
                if self.body.return_token_ids:
                    choice["token_ids"] = d.token_ids
                chunk = {**self.head, "choices": [choice]}
                if continuous:
                    chunk["usage"] = self.usage()
                yield event(chunk)
        if include:
            yield event({**self.head, "choices": [], "usage": self.usage()})

    async def whole(self, headers: dict[str, str]) -> Response:
        pieces = {(i, j): Piece() for i in range(len(self.streams)) for j in range(self.n)}
        async with contextlib.aclosing(self.deltas) as deltas:
            async for i, d in deltas:
                if d.reads is not None:
                    self.prompt_entries[i] = d.reads.prompt
                pieces[i, d.index].add(d)
        choices = []
        for (i, j), p in pieces.items():
            if self.wanted[i].read_only and j:
                continue
            text = (self.echo_text(i) if self.body.echo else "") + p.text
            logprobs = await off_loop(
                self._work(i) if self.body.echo else 0, self._logprobs, i, p.ids, p.logprobs, p.end, with_prompt=self.body.echo, offset=0,
            )
            choice = self._choice(i, j, text, logprobs, "length" if self.wanted[i].read_only else p.finish, p.stop)
            choice["x_seed"] = p.seed
            if self.body.return_token_ids:
                choice["token_ids"] = p.ids
                choice["prompt_token_ids"] = [int(t) for t in self.wanted[i].prompt]
            choices.append(choice)
        return json_response({**self.head, "choices": choices, "usage": self.usage()}, headers=headers)
