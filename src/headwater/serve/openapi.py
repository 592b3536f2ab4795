"""/openapi.json: what the framework derives from the body types, and what it cannot know: hand-read bodies, the answers, each dialect's errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import TypeAdapter

from headwater.serve.decide import decisions, sglang, systemone

Schema = dict[str, Any]
TEXT: Schema = {"type": "string"}
WHOLE: Schema = {"type": "integer", "minimum": 0}
NUMBER: Schema = {"type": "number"}
LIST: Schema = {"type": "array"}
OBJECT: Schema = {"type": "object"}


def _object(**properties: Schema) -> Schema:
    """An object that has at least these."""
    return {"type": "object", "properties": properties, "required": sorted(properties)}


def _const(value: str) -> Schema:
    return {"const": value}


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


_EVENT: Schema = {"type": "object", "properties": {"data": TEXT, "event": TEXT}}
_NULLABLE_TEXT: Schema = {"type": ["string", "null"]}
_OPENAI_ERROR = _object(error=_object(message=TEXT, type=TEXT, param=_NULLABLE_TEXT, code=_NULLABLE_TEXT))
_ANTHROPIC_ERROR = _object(type=_const("error"), error=_object(type=TEXT, message=TEXT))
_OLLAMA_ERROR = _object(error=TEXT)
_TYPESAFE_ERROR = _object(detail={"anyOf": [_object(message=TEXT, error_type=TEXT), _list(_object(loc=LIST, msg=TEXT, type=TEXT))]})
_USAGE = _object(prompt_tokens=WHOLE, completion_tokens=WHOLE, total_tokens=WHOLE)
_SUM = _object(prompt_tokens=WHOLE, total_tokens=WHOLE)
_FINISH: Schema = {"enum": ["stop", "length", "tool_calls"]}
_RERANK = _object(id=TEXT, model=TEXT, results=_list(_object(index=WHOLE, relevance_score=NUMBER)), usage=_SUM)
_SCORE: Schema = {"anyOf": [
    _object(object=_const("scoring"), model=TEXT, scores=_list(_list(NUMBER)), usage=_SUM),
    _object(object=_const("list"), model=TEXT, data=_list(_object(index=WHOLE, score=NUMBER)), usage=_SUM),
]}
_MODEL = _object(id=TEXT, object=_const("model"), created=WHOLE, owned_by=TEXT, max_model_len=WHOLE)
_RESPONSE = _object(id=TEXT, object=_const("response"), created_at=WHOLE, status=TEXT, model=TEXT, output=_list(OBJECT))
_LINE = _object(model=TEXT, created_at=TEXT, done={"type": "boolean"})
ANSWERS: dict[str, Schema] = {
    "/v1/chat/completions": _object(
        id=TEXT, object=_const("chat.completion"), created=WHOLE, model=TEXT, usage=_USAGE,
        choices=_list(_object(index=WHOLE, message=_object(role=_const("assistant"), content=_NULLABLE_TEXT), finish_reason=_FINISH)),
    ),
    "/v1/completions": _object(
        id=TEXT, object=_const("text_completion"), created=WHOLE, model=TEXT, usage=_USAGE,
        choices=_list(_object(index=WHOLE, text=TEXT, finish_reason=_FINISH)),
    ),
    "/v1/embeddings": _object(
        object=_const("list"), data=_list(_object(index=WHOLE, embedding={"anyOf": [_list(NUMBER), TEXT]})), model=TEXT, usage=_SUM
    ),
    "/v1/responses": _RESPONSE,
    "/v1/responses/{response_id}": {"anyOf": [_RESPONSE, _object(id=TEXT, object=_const("response"), deleted={"const": True})]},
    "/v1/responses/{response_id}/cancel": _RESPONSE,
    "/v1/messages": _object(
        id=TEXT, type=_const("message"), role=_const("assistant"), model=TEXT, content=_list(_object(type=TEXT)), stop_reason=TEXT,
        usage=_object(input_tokens=WHOLE, output_tokens=WHOLE),
    ),
    "/v1/messages/count_tokens": _object(input_tokens=WHOLE),
    "/api/chat": {"allOf": [_LINE, _object(message=_object(role=_const("assistant"), content=TEXT))]},
    "/api/generate": {"allOf": [_LINE, _object(response=TEXT)]},
    "/api/tags": _object(models=_list(_object(name=TEXT, model=TEXT))),
    "/api/show": _object(details=OBJECT, model_info=OBJECT, capabilities=_list(TEXT)),
    "/api/version": _object(version=TEXT),
    "/v1/models": _object(object=_const("list"), data=_list(_MODEL)),
    "/v1/models/{name}": _MODEL,
    "/health": _object(status=_const("ok")),
    "/ready": _object(status=_const("ready")),
    "/version": _object(version=TEXT, identity=TEXT),
    "/load": _object(running=WHOLE, waiting=WHOLE, server_load=WHOLE, kv_cache_usage=NUMBER),
    "/tokenize": _object(count=WHOLE, max_model_len=WHOLE, tokens=_list(WHOLE)),
    "/detokenize": _object(prompt=TEXT),
    "/tokenizer_info": _object(vocab_size=WHOLE, stop_ids=_list(WHOLE), has_chat_template={"type": "boolean"}, model=TEXT),
    "/v1/rerank": _RERANK, "/rerank": _RERANK, "/v2/rerank": _RERANK,
    "/v1/score": _SCORE, "/score": _SCORE,
    "/v1/systemone": _object(model=TEXT, answers=OBJECT, usage=_object(input_tokens=WHOLE, output_tokens=WHOLE)),
    "/v1/decisions": _object(model=TEXT, answers={"type": ["array", "object"]}, usage=OBJECT),
}
STREAMS = {
    "/v1/chat/completions": "text/event-stream", "/v1/completions": "text/event-stream", "/v1/responses": "text/event-stream",
    "/v1/messages": "text/event-stream", "/api/chat": "application/x-ndjson", "/api/generate": "application/x-ndjson",
}
OTHER_ANSWERS = {"/metrics": "text/plain", "/v1/decisions/batch": "application/jsonl"}
_WITHOUT_A_BODY = {"400": "what was sent is wrong", "401": "no key, or a wrong one", "404": "not here", "503": "the engine is not there"}
_WITH_A_BODY = {
    "413": "the body is too large", "415": "the body is of a type that is not read", "429": "too much is waiting: try again after Retry-After",
}


def install(app: FastAPI) -> None:
    """Make `app.openapi` tell all of it."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = document(app)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def document(app: FastAPI) -> dict[str, Any]:
    """The whole OpenAPI document."""
    out = get_openapi(title=app.title, version=app.version, routes=app.routes)
    schemas = out.setdefault("components", {}).setdefault("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):         # the framework's own error object never leaves this server
        schemas.pop(name, None)
    state = _body(systemone.SystemOneRequest, schemas, "/v1/systemone")
    _add_body(out, "/v1/systemone", state)
    _add_body(out, "/v1/decisions", {"anyOf": [_body(b, schemas, "/v1/decisions") for b in (decisions.DecisionsRequest, sglang.NativeRequest)]})
    # each state is refused on its own, so an array may hold anything; one object is one line
    _add_body(out, "/v1/decisions/batch", {"anyOf": [{"type": "array", "items": {"anyOf": [state, {}]}, "minItems": 1, "maxItems": 1000}, OBJECT]})
    for path, operations in out["paths"].items():
        for operation in operations.values():
            _describe(path, operation)
    _name_models(schemas, app.state.server.names)
    return out


def _name_models(schemas: Schema, names: Sequence[str]) -> None:
    """`model` is one of the names that are served here; two dialects know more of them."""
    for name, schema in schemas.items():
        own: Schema = {"enum": list(names)}
        if name.startswith("Ollama"):
            own = {"enum": [*names, *(f"{n}:latest" for n in names)]}
        elif name.startswith("Systemone"):
            own = {"anyOf": [own, {"type": "string", "pattern": "^jev"}]}
        if "model" in schema.get("properties", ()):
            schema["properties"]["model"] = own if "model" in schema.get("required", ()) else {"anyOf": [own, {"type": "null"}]}


def _body(model: Any, schemas: Schema, path: str) -> Schema:
    """A reference to the model's schema; its parts go to `schemas` under names that begin with the path's, since dialects share words."""
    prefix = path.strip("/").replace("/", "_").replace("v1_", "").title() + "_" + model.__name__ + "_"
    schema = TypeAdapter(model).json_schema(ref_template=f"#/components/schemas/{prefix}{{model}}")
    for name, part in schema.pop("$defs", {}).items():
        schemas[prefix + name] = part
    schemas[prefix.rstrip("_")] = schema
    return {"$ref": f"#/components/schemas/{prefix.rstrip('_')}"}


def _add_body(document: dict[str, Any], path: str, schema: Schema) -> None:
    document["paths"][path]["post"]["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}


def _describe(path: str, operation: dict[str, Any]) -> None:
    if path in OTHER_ANSWERS:
        content: dict[str, Any] = {OTHER_ANSWERS[path]: {"schema": TEXT}}
    else:
        content = {"application/json": {"schema": ANSWERS.get(path, OBJECT)}}
        if path in STREAMS:
            content[STREAMS[path]] = {"schema": _EVENT if STREAMS[path] == "text/event-stream" else OBJECT}
    error = _OPENAI_ERROR
    if path.startswith("/v1/messages"):
        error = _ANTHROPIC_ERROR
    elif path.startswith("/api/"):
        error = _OLLAMA_ERROR
    elif path == "/v1/systemone":
        error = _TYPESAFE_ERROR
    statuses = _WITHOUT_A_BODY | (_WITH_A_BODY if "requestBody" in operation else {})
    if path == "/v1/systemone":
        statuses |= {"422": "what was sent is wrong"}
    operation["responses"] = {"200": {"description": "the answer", "content": content}} | {
        status: {"description": why, "content": {"application/json": {"schema": error}}} for status, why in statuses.items()
    }
