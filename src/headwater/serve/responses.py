"""POST /v1/responses: OpenAI's newer shape. Nothing is stored unless `store` is asked for; then GET, DELETE and cancel work on it."""

from __future__ import annotations

import contextlib
import itertools
import re
import time
from collections import OrderedDict
from collections.abc import AsyncIterator
from typing import Any, Literal

import msgspec
from fastapi import APIRouter, Request
from starlette.responses import Response

from headwater.core.errors import HeadwaterError, UserInputError
from headwater.serve.assemble import Message as Assembled
from headwater.serve.assemble import Part
from headwater.serve.chatrun import ChatRun, chat_request
from headwater.serve.context import Server, new_id, server_of
from headwater.serve.errors import NotFoundError, error_object, in_words_of, json_response
from headwater.serve.jsonbody import JsonRoute
from headwater.serve.schema.chat import ChatRequest
from headwater.serve.schema.common import Int, Wire
from headwater.serve.sse import event, stream, unless_client_leaves

router = APIRouter(route_class=JsonRoute)
MAX_STORED = 1000
MAX_STORED_BYTES = 64 * 2**20
_NAMES = {"max_tokens": "max_output_tokens", "response_format": "text.format"}  # our field -> its name in this dialect


class TextOptions(Wire):
    format: dict[str, Any] | None = None
    verbosity: str | None = None


class ResponsesRequest(Wire):
    model: str | None = None
    input: str | list[dict[str, Any]]
    instructions: str | None = None
    max_output_tokens: Int | None = None
    temperature: float | None = None
    top_p: float | None = None
    stream: bool | None = False
    store: bool | None = False
    previous_response_id: str | None = None
    text: TextOptions | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: Any = None
    parallel_tool_calls: bool | None = None
    reasoning: dict[str, Any] | None = None
    metadata: dict[str, str] | None = None
    user: str | None = None
    top_logprobs: Int | None = None
    truncation: Literal["auto", "disabled"] | None = None


class Store:
    """Finished responses with the messages that led to them, newest last: at most MAX_STORED, and at most MAX_STORED_BYTES as JSON."""

    def __init__(self) -> None:
        self.items: OrderedDict[str, tuple[dict[str, Any], list[dict[str, Any]]]] = OrderedDict()
        self._sizes: dict[str, int] = {}
        self.bytes = 0

    def put(self, response: dict[str, Any], messages: list[dict[str, Any]]) -> None:
        """The oldest make room; one that is too large alone is not kept."""
        size = len(msgspec.json.encode((response, messages)))
        self.items[response["id"]] = (response, messages)
        self._sizes[response["id"]] = size
        self.bytes += size
        while len(self.items) > MAX_STORED or self.bytes > MAX_STORED_BYTES:
            self.drop(next(iter(self.items)))

    def drop(self, response_id: str) -> None:
        """Raises NotFoundError."""
        self.get(response_id)
        del self.items[response_id]
        self.bytes -= self._sizes.pop(response_id)

    def get(self, response_id: str, field: str = "response_id") -> tuple[dict[str, Any], list[dict[str, Any]]]:
        if response_id not in self.items:
            raise NotFoundError(f"{field}: '{response_id[:200]}' is not stored here", field=field)
        return self.items[response_id]


def store_of(server: Server) -> Store:
    store: Store = server.__dict__.setdefault("responses", Store())
    return store


def _messages(body: ResponsesRequest, store: Store) -> list[dict[str, Any]]:
    """Input items as chat messages, behind those of the previous response."""
    out = list(store.get(body.previous_response_id, "previous_response_id")[1]) if body.previous_response_id else []
    if isinstance(body.input, str):
        return [*out, {"role": "user", "content": body.input}]
    for i, item in enumerate(body.input):
        kind, where = item.get("type", "message"), f"input[{i}]"
        if kind == "message":
            out.append({"role": item.get("role", "user"), "content": item.get("content", "")})
        elif kind == "function_call":
            call = {"id": item.get("call_id"), "function": {"name": item.get("name", ""), "arguments": item.get("arguments", "{}")}}
            out.append({"role": "assistant", "content": "", "tool_calls": [call]})
        elif kind == "function_call_output":
            out.append({"role": "tool", "tool_call_id": item.get("call_id"), "content": _output_text(item.get("output", ""), f"{where}.output")})
        elif kind != "reasoning":
            raise UserInputError(f"{where}.type: '{kind}' is not supported", field=f"{where}.type")
    return out


def _output_text(output: Any, where: str) -> str:
    """What a tool returned: a text, or a list of text parts. Raises UserInputError for anything else."""
    if isinstance(output, str):
        return output
    if isinstance(output, list) and all(isinstance(p, dict) and isinstance(p.get("text"), str) for p in output):
        return "".join(p["text"] for p in output)
    raise UserInputError(f"{where}: must be a text or a list of text parts", field=where)


def to_chat(body: ResponsesRequest, messages: list[dict[str, Any]]) -> ChatRequest:
    """The same request in the chat shape. Raises UserInputError, naming the field of the chat request."""
    if body.top_logprobs:
        raise UserInputError("top_logprobs: not offered here; /v1/chat/completions has it", field="top_logprobs")
    tools = []
    for i, t in enumerate(body.tools or []):
        if t.get("type") != "function":
            raise UserInputError(f"tools[{i}].type: '{t.get('type')}' is not offered here, only 'function'", field=f"tools[{i}].type")
        tools.append({"function": {k: t.get(k) for k in ("name", "description", "parameters") if t.get(k) is not None}})
    choice = body.tool_choice
    if isinstance(choice, dict):
        choice = {"type": "function", "function": {"name": choice.get("name", "")}}
    form = (body.text.format if body.text else None) or {"type": "text"}
    if form.get("type") == "json_schema":
        form = {"type": "json_schema", "json_schema": {k: form[k] for k in ("name", "schema", "strict") if k in form}}
    if body.instructions:
        messages = [{"role": "system", "content": body.instructions}, *messages]
    effort = (body.reasoning or {}).get("effort")
    return chat_request({
        "messages": messages, "max_tokens": body.max_output_tokens, "temperature": body.temperature, "top_p": body.top_p,
        "tools": tools or None, "tool_choice": choice, "parallel_tool_calls": body.parallel_tool_calls, "response_format": form,
        **({"reasoning_effort": effort} if effort else {}),
    })


@router.post("/v1/responses", response_model=None)
async def create(request: Request, body: ResponsesRequest) -> Response:
    """One answer to the input, streamed or whole."""
    server = server_of(request)
    model, headers = server.check_model(body.model), server.headers(request, body)
    server.admit()
    messages = _messages(body, store_of(server))
    run = None
    try:
        run = await ChatRun.start(request, server.front, to_chat(body, messages))
        await unless_client_leaves(request, run.begin())
        writer = Writer(server, body, model, run, messages)
        if body.stream:
            return stream(writer.events(), headers, run.aclose, done=b"", on_error=_error_event)
        return json_response(await unless_client_leaves(request, writer.whole()), headers=headers)
    except BaseException as e:
        if run is not None:
            await run.aclose()
        if isinstance(e, HeadwaterError):
            in_words_of(e, {**_NAMES, **_place(e, body, messages)})
        raise


def _place(error: HeadwaterError, body: ResponsesRequest, messages: list[dict[str, Any]]) -> dict[str, str]:
    """{the error's field: what it is called here} where it lies in a message: an item of the input, which others may have been put before."""
    field = str(getattr(error, "field", None) or "")
    found = re.match(r"messages(?:[\[.](\d+)\]?)?", field)
    if found is None:
        return {}
    items = [] if isinstance(body.input, str) else [i for i, x in enumerate(body.input) if x.get("type", "message") != "reasoning"]
    at = int(found[1] or -1) - bool(body.instructions) - (len(messages) - len(items))
    where = f"input[{items[at]}]" if found[1] and 0 <= at < len(items) else "input"
    return {field: where + field[found.end() :]}


def _error_event(error: BaseException) -> bytes:
    """How this API's streams say that they broke."""
    told = error_object(error)["error"]
    content = {"type": "error", "sequence_number": 0, "code": told["code"] or told["type"], "message": told["message"], "param": told["param"]}
    return event(content, "error")


@router.get("/v1/responses/{response_id}", response_model=None)
async def retrieve(request: Request, response_id: str) -> Response:
    """A stored response."""
    return json_response(store_of(server_of(request)).get(response_id)[0])


@router.delete("/v1/responses/{response_id}", response_model=None)
async def delete(request: Request, response_id: str) -> Response:
    """Forget a stored response."""
    store_of(server_of(request)).drop(response_id)
    return json_response({"id": response_id, "object": "response", "deleted": True})


@router.post("/v1/responses/{response_id}/cancel", response_model=None)
async def cancel(request: Request, response_id: str) -> Response:
    """Background responses are not offered, so a stored one is finished already."""
    return json_response(store_of(server_of(request)).get(response_id)[0])


class Writer:
    """What was said as a response object, or as the events that build one."""

    def __init__(self, server: Server, body: ResponsesRequest, model: str, run: ChatRun, messages: list[dict[str, Any]]) -> None:
        self.server, self.body, self.run, self.messages = server, body, run, messages
        self.response: dict[str, Any] = {
            "id": new_id("resp"), "object": "response", "created_at": int(time.time()), "status": "in_progress", "model": model, "output": [],
            "error": None, "incomplete_details": None, "instructions": body.instructions, "metadata": body.metadata or {},
            "parallel_tool_calls": body.parallel_tool_calls is not False, "temperature": body.temperature, "top_p": body.top_p,
            "tool_choice": body.tool_choice or "auto", "tools": body.tools or [], "max_output_tokens": body.max_output_tokens,
            "previous_response_id": body.previous_response_id, "usage": None, "store": bool(body.store),
        }

    def finish(self, items: list[dict[str, Any]], message: Assembled, reason: str) -> dict[str, Any]:
        n = self.run.usage_numbers()
        self.response |= {
            "status": "incomplete" if reason == "length" else "completed",
            "incomplete_details": {"reason": "max_output_tokens"} if reason == "length" else None,
            "output": items,
            "usage": {
                "input_tokens": n["prompt"], "input_tokens_details": {"cached_tokens": n["cached"]}, "output_tokens": n["completion"],
                "output_tokens_details": {"reasoning_tokens": n["reasoning"] or 0}, "total_tokens": n["prompt"] + n["completion"],
            },
        }
        if self.body.store:
            said: dict[str, Any] = {"role": "assistant", "content": message.content}
            if message.calls:
                said["tool_calls"] = message.calls
            store_of(self.server).put(self.response, [*self.messages, said])
        return self.response

    async def whole(self) -> dict[str, Any]:
        last: dict[str, Any] = {}
        async with contextlib.aclosing(self._steps()) as steps:
            async for name, content in steps:
                if name in ("response.completed", "response.incomplete"):
                    last = content["response"]
        return last

    async def events(self) -> AsyncIterator[bytes]:
        counter = itertools.count()
        async with contextlib.aclosing(self._steps()) as steps:
            async for name, content in steps:
                yield event({"type": name, "sequence_number": next(counter), **content}, name)

    async def _steps(self) -> Any:
        yield "response.created", {"response": self.response}
        yield "response.in_progress", {"response": self.response}
        items: list[dict[str, Any]] = []
        message, reason, key = Assembled(), "stop", ""
        async with contextlib.aclosing(self.run.said()) as said:
            async for s in said:
                reason = s.finish or reason
                for part in s.parts:
                    message.add(part)
                    new = f"tool{part.index}" if part.kind == "tool" else part.kind
                    if new != key:
                        for done in _close(items):
                            yield done
                        key = new
                        items.append(_item(part))
                        yield "response.output_item.added", {"output_index": len(items) - 1, "item": dict(items[-1])}
                        if part.kind == "content":
                            place = {"item_id": items[-1]["id"], "output_index": len(items) - 1, "content_index": 0}
                            yield "response.content_part.added", {**place, "part": {"type": "output_text", "text": "", "annotations": []}}
                    for step in _grow(items, part):
                        yield step
        if not items:
            items.append(_item(Part("content")))
        for done in _close(items):
            yield done
        final = self.finish(items, message, reason)
        yield ("response.incomplete" if reason == "length" else "response.completed"), {"response": final}


def _item(part: Part) -> dict[str, Any]:
    if part.kind == "tool":
        return {"id": new_id("fc"), "type": "function_call", "status": "in_progress", "call_id": part.id, "name": part.name, "arguments": ""}
    if part.kind == "reasoning":
        return {"id": new_id("rs"), "type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": ""}]}
    text = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
    return {"id": new_id("msg"), "type": "message", "role": "assistant", "status": "in_progress", "content": [text]}


def _grow(items: list[dict[str, Any]], part: Part) -> list[tuple[str, dict[str, Any]]]:
    item, at = items[-1], len(items) - 1
    place = {"item_id": item["id"], "output_index": at}
    if not part.text:
        return []
    if part.kind == "tool":
        item["arguments"] += part.text
        return [("response.function_call_arguments.delta", {**place, "delta": part.text})]
    item["content"][0]["text"] += part.text
    name = "response.reasoning_text.delta" if part.kind == "reasoning" else "response.output_text.delta"
    return [(name, {**place, "content_index": 0, "delta": part.text, **({} if part.kind == "reasoning" else {"logprobs": []})})]


def _close(items: list[dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    if not items:
        return []
    item, at = items[-1], len(items) - 1
    place = {"item_id": item["id"], "output_index": at}
    out: list[tuple[str, dict[str, Any]]] = []
    if item["type"] == "message":
        part = item["content"][0]
        out += [
            ("response.output_text.done", {**place, "content_index": 0, "text": part["text"], "logprobs": []}),
            ("response.content_part.done", {**place, "content_index": 0, "part": part}),
        ]
    elif item["type"] == "function_call":
        out.append(("response.function_call_arguments.done", {**place, "arguments": item["arguments"], "name": item["name"]}))
    if "status" in item:
        item["status"] = "completed"
    return [*out, ("response.output_item.done", {"output_index": at, "item": item})]
