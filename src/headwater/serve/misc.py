"""Models, health, version, load, tokenize and detokenize."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from headwater import __version__
from headwater.core.errors import HeadwaterError, UserInputError
from headwater.engine.front import Front
from headwater.serve.context import server_of
from headwater.serve.errors import json_response, plain_error
from headwater.serve.jsonbody import JsonRoute
from headwater.serve.offloop import off_loop, size_of
from headwater.serve.schema.chat import Message, Tool
from headwater.serve.schema.common import Wire

router = APIRouter(route_class=JsonRoute)


@router.get("/v1/models", response_model=None)
async def models(request: Request) -> Response:
    """What this server serves."""
    server = server_of(request)
    return json_response({"object": "list", "data": [model_object(server, name) for name in server.names]})


@router.get("/v1/models/{name:path}", response_model=None)
async def model(request: Request, name: str) -> Response:
    """One model by name."""
    server = server_of(request)
    return json_response(model_object(server, server.check_model(name)))


def model_object(server: Any, name: str) -> dict[str, Any]:
    context = server.front.model_info.context
    return {
        "id": name, "object": "model", "created": server.front.created, "owned_by": "headwater", "root": server.front.model_info.name,
        "max_model_len": context, "context_length": context, "x_identity": server.front.model_info.identity,
    }


@router.head("/health", response_model=None, include_in_schema=False)
@router.get("/health", response_model=None)
async def health(request: Request) -> Response:
    """200 while the engine lives and moves, 503 with a reason otherwise."""
    try:
        server_of(request).front.check_health()
    except HeadwaterError as e:
        return plain_error(503, str(e), code="engine_unavailable")
    return json_response({"status": "ok"})


@router.head("/ready", response_model=None, include_in_schema=False)
@router.get("/ready", response_model=None)
async def ready(request: Request) -> Response:
    """200 while new requests are taken."""
    try:
        server_of(request).admit()
    except HeadwaterError as e:
        return plain_error(503, str(e), code="not_ready")
    return json_response({"status": "ready"})


@router.head("/version", response_model=None, include_in_schema=False)
@router.get("/version", response_model=None)
async def version(request: Request) -> Response:
    return json_response({"version": __version__, "identity": server_of(request).front.model_info.identity})


@router.get("/load", response_model=None)
async def load(request: Request) -> Response:
    """How busy the engine is."""
    s = server_of(request).front.stats()
    return json_response({"running": s.running, "waiting": s.waiting, "server_load": s.running + s.waiting, "kv_cache_usage": s.kv_usage})


@router.get("/metrics", response_model=None)
async def metrics(request: Request) -> Response:
    """Prometheus text."""
    return Response(server_of(request).meter.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


class TokenizeRequest(Wire):
    model: str | None = None
    prompt: str | None = None
    content: str | None = None
    messages: list[Message] | None = None
    tools: list[Tool] | None = None
    add_special_tokens: bool = True
    add_generation_prompt: bool = True
    return_token_strs: bool = False


class DetokenizeRequest(Wire):
    model: str | None = None
    tokens: list[int]


@router.post("/tokenize", response_model=None)
async def tokenize(request: Request, body: TokenizeRequest) -> Response:
    """Text or messages -> ids."""
    server = server_of(request)
    server.check_model(body.model)
    text = body.prompt if body.prompt is not None else body.content
    if (text is None) == (body.messages is None):
        raise UserInputError("prompt: send either prompt or messages", field="prompt")
    ids = await off_loop(size_of(request), ids_of, server.front, body, text)
    out: dict[str, Any] = {"count": len(ids), "max_model_len": server.front.model_info.context, "tokens": ids}
    if body.return_token_strs:
        out["token_strs"] = [server.front.token_bytes(i).decode("utf-8", "replace") for i in ids]
    return json_response(out, headers=server.headers(request, body))


def ids_of(front: Front, body: TokenizeRequest, text: str | None) -> list[int]:
    """Ids of `text`, or of the messages where there is none. Slow for large bodies; any thread."""
    if text is not None:
        return front.tokenize(text, add_special=body.add_special_tokens)
    messages = [m.as_dict(f"messages[{i}]") for i, m in enumerate(body.messages or [])]
    tools = [t.model_dump(exclude_none=True) for t in body.tools] if body.tools else None
    return front.render_chat(messages, tools, add_generation_prompt=body.add_generation_prompt)


@router.post("/detokenize", response_model=None)
async def detokenize(request: Request, body: DetokenizeRequest) -> Response:
    """Ids -> text."""
    server = server_of(request)
    server.check_model(body.model)
    bad = [t for t in body.tokens if not 0 <= t < server.front.model_info.vocabulary]
    if bad:
        raise UserInputError(f"tokens: id {bad[0]} is outside the vocabulary of {server.front.model_info.vocabulary:,}", field="tokens")
    text = await off_loop(size_of(request), server.front.detokenize, body.tokens)
    return json_response({"prompt": text}, headers=server.headers(request, body))


@router.get("/tokenizer_info", response_model=None)
async def tokenizer_info(request: Request) -> Response:
    """Facts about the tokenizer that harnesses ask for: lm-eval takes the texts of its special tokens and its chat template from here."""
    front = server_of(request).front
    info, tokenizer = front.model_info, front.text.tokenizer

    def text(token: int | None) -> str | None:
        return None if token is None else tokenizer.vocab.all_tokens()[token]

    return json_response({
        "vocab_size": info.vocabulary, "stop_ids": sorted(info.stop_ids), "has_chat_template": info.has_chat, "model": info.name,
        "bos_token": text(tokenizer.bos_id), "eos_token": text(tokenizer.eos_id), "pad_token": text(tokenizer.eos_id),
        "chat_template": front.text.template.source if info.has_chat else None,
    })
