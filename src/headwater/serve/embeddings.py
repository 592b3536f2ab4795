"""POST /v1/embeddings: pooled final hidden rows, L2-normalised."""

from __future__ import annotations

import base64
from typing import Any, Literal

import numpy as np
from fastapi import APIRouter, Request
from pydantic import Field
from starlette.responses import Response

from headwater.core.errors import HeadwaterError, UserInputError
from headwater.core.params import SamplingParams
from headwater.core.request import ReadSpec
from headwater.engine.front import Front, GenerateRequest, Stream
from headwater.serve.context import server_of
from headwater.serve.errors import in_words_of, json_response
from headwater.serve.jsonbody import JsonRoute
from headwater.serve.offloop import off_loop, size_of
from headwater.serve.schema.common import Int, Wire
from headwater.serve.sse import unless_client_leaves

router = APIRouter(route_class=JsonRoute)
MAX_INPUTS = 2048


class EmbeddingRequest(Wire):
    """input: a text, texts, token ids or lists of them. pooling: `mean` over all tokens, or the `last` one.

    truncate_prompt_tokens: only the last so many tokens of each input count; -1 = as many as the context holds.
    """

    input: str | list[str] | list[int] | list[list[int]]
    model: str | None = None
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: Int | None = None
    user: str | None = None
    pooling: Literal["mean", "last"] = "mean"
    truncate_prompt_tokens: Int | None = Field(None, ge=-1)

    def inputs(self) -> list[str | list[int]]:
        if isinstance(self.input, str):
            return [self.input]
        if self.input and isinstance(self.input[0], int):
            return [self.input]
        return list(self.input)  # type: ignore[arg-type]


@router.post("/v1/embeddings", response_model=None)
async def embeddings(request: Request, body: EmbeddingRequest) -> Response:
    """One vector per input."""
    server = server_of(request)
    model, headers = server.check_model(body.model), server.headers(request, body)
    server.admit()
    inputs = body.inputs()
    if not inputs or any(len(x) == 0 for x in inputs):
        raise UserInputError("input: is empty", field="input")
    if len(inputs) > MAX_INPUTS:
        raise UserInputError(f"input: {len(inputs):,} inputs, at most {MAX_INPUTS:,} are allowed", field="input")
    reads = ReadSpec(hidden="last" if body.pooling == "last" else "all")
    streams: list[Stream] = []
    try:
        for i, ids in enumerate(await off_loop(size_of(request), _all_ids, server.front, body, inputs)):
            try:
                streams.append(server.front.submit(GenerateRequest(ids, SamplingParams(max_tokens=1), reads=reads, read_only=True)))
            except UserInputError as e:
                raise in_words_of(e, {"prompt": "input" if len(inputs) == 1 else f"input[{i}]"}) from None
        vectors = await unless_client_leaves(request, _all(streams))
    finally:
        for s in streams:
            await s.aclose()
    data = [{"object": "embedding", "index": i, "embedding": _encode(_shape(v, body), body)} for i, v in enumerate(vectors)]
    total = sum(s.usage.prompt for s in streams)
    return json_response({"object": "list", "data": data, "model": model, "usage": {"prompt_tokens": total, "total_tokens": total}}, headers=headers)


def _all_ids(front: Front, body: EmbeddingRequest, inputs: list[str | list[int]]) -> list[list[int]]:
    context = front.model_info.context
    return [_kept(front.tokenize(x) if isinstance(x, str) else x, body, context) for x in inputs]


def _kept(ids: list[int], body: EmbeddingRequest, context: int) -> list[int]:
    """The tokens that count."""
    keep = body.truncate_prompt_tokens
    if keep == 0:
        raise UserInputError("truncate_prompt_tokens: must be at least 1, or -1 for the context, got 0", field="truncate_prompt_tokens")
    return ids if keep is None else ids[-(context if keep < 0 else keep) :]


async def _all(streams: list[Stream]) -> list[np.ndarray]:
    out = []
    for s in streams:
        rows = [d.reads.hidden async for d in s if d.reads is not None and d.reads.hidden is not None]
        if not rows:
            raise HeadwaterError("the engine returned no hidden rows")
        out.append(np.concatenate(rows).mean(axis=0, dtype=np.float64))
    return out


def _shape(v: np.ndarray, body: EmbeddingRequest) -> np.ndarray:
    if body.dimensions is not None:
        if not 1 <= body.dimensions <= len(v):
            raise UserInputError(f"dimensions: must be 1 to {len(v)}, got {body.dimensions}", field="dimensions")
        v = v[: body.dimensions]
    return (v / max(float(np.linalg.norm(v)), 1e-12)).astype(np.float32)


def _encode(v: np.ndarray, body: EmbeddingRequest) -> Any:
    return base64.b64encode(v.tobytes()).decode() if body.encoding_format == "base64" else [float(x) for x in v]
