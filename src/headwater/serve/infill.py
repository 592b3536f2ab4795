"""POST /infill: llama.cpp's way to ask for the text between two texts."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Request
from pydantic import Field
from starlette.responses import Response

from headwater.core.errors import HeadwaterError, UserInputError
from headwater.engine.choice import Delta
from headwater.engine.front import GenerateRequest, Stream
from headwater.serve.context import Server, server_of
from headwater.serve.errors import in_words_of, json_response
from headwater.serve.jsonbody import JsonRoute
from headwater.serve.merge import begun
from headwater.serve.offloop import off_loop, size_of
from headwater.serve.schema.common import GenerationFields, Int, Wire
from headwater.serve.sse import event, stream, unless_client_leaves
from headwater.text.infill import infill

router = APIRouter(route_class=JsonRoute)
_NAMES = {"suffix": "input_suffix", "max_tokens": "n_predict", "repetition_penalty": "repeat_penalty"}  # our field -> its name in this dialect


class ExtraFile(Wire):
    filename: str = "file"
    text: str


class InfillRequest(Wire):
    """prompt: what already stands behind input_prefix. n_predict below 0: as long as it takes."""

    input_prefix: str
    input_suffix: str
    input_extra: list[ExtraFile] = Field(default_factory=list)
    prompt: str = ""
    model: str | None = None
    n_predict: Int = -1
    temperature: float | None = None
    top_k: Int | None = None
    top_p: float | None = None
    min_p: float | None = None
    repeat_penalty: float | None = None
    seed: Int | None = None
    stop: Annotated[list[str], Field(max_length=64)] = Field(default_factory=list)
    stream: bool = False

    def as_fields(self) -> GenerationFields:
        """The sampling fields under our names."""
        given = self.model_dump(include={"temperature", "top_k", "top_p", "min_p", "seed", "stop"}, exclude_none=True)
        if given.get("seed") == -1:                                 # any seed, said by a number
            del given["seed"]
        if self.repeat_penalty is not None:
            given["repetition_penalty"] = self.repeat_penalty
        return GenerationFields.model_validate(given)


def generate_request(server: Server, body: InfillRequest) -> GenerateRequest:
    """Raises UserInputError naming the field."""
    if body.n_predict == 0:
        raise UserInputError("n_predict: must be at least 1, or below 0 for no limit, got 0", field="n_predict")
    made = infill(server.front.text.tokenizer, body.input_prefix + body.prompt, body.input_suffix, [(f.filename, f.text) for f in body.input_extra])
    params = body.as_fields().sampling(max_tokens=None if body.n_predict < 0 else body.n_predict, logprobs=None)
    params.stop_token_ids = made.stops
    return GenerateRequest(made.ids, params)


def last(model: str, running: Stream, d: Delta, content: str) -> dict[str, Any]:
    """The object that ends an answer."""
    word = d.stop_reason if isinstance(d.stop_reason, str) else ""
    kind = "limit" if d.finish_reason == "length" else "word" if word else "eos"
    usage = running.usage
    return {
        "content": content, "stop": True, "stop_type": kind, "stopping_word": word, "model": model, "tokens_predicted": usage.completion,
        "tokens_evaluated": usage.prompt, "tokens_cached": usage.cached, "truncated": False,
    }


@router.post("/infill", response_model=None)
async def fill(request: Request, body: InfillRequest) -> Response:
    """The text between input_prefix and input_suffix, streamed or whole."""
    server = server_of(request)
    model, headers = server.check_model(body.model), server.headers(request, body)
    server.admit()
    running: Stream | None = None
    try:
        running = server.front.submit(await off_loop(size_of(request), generate_request, server, body))
        deltas = await unless_client_leaves(request, begun(running))
        if body.stream:
            return stream(_events(model, running, deltas), headers, running.aclose, done=b"")
        return json_response(await unless_client_leaves(request, _whole(model, running, deltas)), headers=headers)
    except BaseException as e:
        if running is not None:
            await running.aclose()
        if isinstance(e, HeadwaterError):
            in_words_of(e, _NAMES)
        raise


async def _events(model: str, running: Stream, deltas: AsyncIterator[Delta]) -> AsyncIterator[bytes]:
    async with contextlib.aclosing(running):
        async for d in deltas:
            yield event(last(model, running, d, d.text) if d.finish_reason else {"content": d.text, "stop": False})


async def _whole(model: str, running: Stream, deltas: AsyncIterator[Delta]) -> dict[str, Any]:
    content, end = "", None
    async with contextlib.aclosing(running):
        async for d in deltas:
            content, end = content + d.text, d
    if end is None:
        raise HeadwaterError("the engine ended this request without a word")
    return last(model, running, end, content)
