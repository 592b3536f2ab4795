"""One chat request in the engine, whatever dialect it came in: deltas become parts (content, reasoning, tool calls) and finish reasons."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from pydantic import ValidationError
from starlette.requests import Request

from headwater.core.errors import UserInputError
from headwater.engine.choice import Delta, Usage
from headwater.engine.front import Front, GenerateRequest
from headwater.engine.thinking import EFFORTS
from headwater.serve.assemble import Part, Shape
from headwater.serve.errors import describe_validation
from headwater.serve.merge import begun
from headwater.serve.offloop import off_loop, size_of
from headwater.serve.schema.chat import ChatRequest
from headwater.serve.shape import shape_of


@dataclass(slots=True)
class Said:
    """What one engine delta said: its parts, and the finish reason of the wire (with `tool_calls`) on the last."""

    index: int
    parts: list[Part]
    delta: Delta
    finish: str | None


def render(front: Front, body: ChatRequest, shape: Shape | None = None) -> list[int]:
    """Messages -> ids. Raises UserInputError where the model has no template or the template refuses."""
    shape = shape or shape_of(front, body)
    names = dict(body.chat_template_kwargs or {})
    for taken in ("messages", "tools", "add_generation_prompt", "continue_final_message"):
        if taken in names:
            raise UserInputError(f"chat_template_kwargs.{taken}: set it by the field of that name", field=f"chat_template_kwargs.{taken}")
    documents = names.get("documents")
    if documents is not None and not (isinstance(documents, list) and all(isinstance(d, dict) for d in documents)):
        raise UserInputError("chat_template_kwargs.documents: must be a list of objects", field="chat_template_kwargs.documents")
    if body.reasoning_effort is not None:
        names.setdefault("reasoning_effort", body.reasoning_effort)
        if body.reasoning_effort == "none":
            names.setdefault("enable_thinking", False)
    if body.continue_final_message:
        if body.add_generation_prompt and "add_generation_prompt" in body.model_fields_set:
            raise UserInputError("continue_final_message: not together with add_generation_prompt", field="continue_final_message")
        names["continue_final_message"] = True
    prompt = body.add_generation_prompt and not body.continue_final_message
    return front.render_chat(shape.messages, shape.tools, add_generation_prompt=prompt, **names)


def generate_request(front: Front, body: ChatRequest, shape: Shape) -> GenerateRequest:
    """The engine's request. Raises UserInputError naming the field."""
    if body.max_tokens is not None and body.max_completion_tokens is not None and body.max_tokens != body.max_completion_tokens:
        raise UserInputError("max_completion_tokens: differs from max_tokens; send one of them", field="max_completion_tokens")
    limit = body.max_completion_tokens if body.max_completion_tokens is not None else body.max_tokens
    params = body.sampling(max_tokens=limit, logprobs=body.wanted_logprobs())
    if shape.raw_tokens:                                            # markers of calls and reasoning may be special tokens
        params.skip_special_tokens = False
    ids = render(front, body, shape)
    budget, grammar = thinking_budget(body, shape), shape.grammar
    if budget is not None:
        params = replace(params, thinking_token_budget=budget)       # checks it
    if shape.form is not None:
        grammar = front.text.think(ids, budget, grammar)
    salt = body.cache_salt or ""
    return GenerateRequest(ids, params, grammar=grammar, priority=body.priority, cache_salt=salt, request_id=body.request_id)


def thinking_budget(body: ChatRequest, shape: Shape) -> int | None:
    """Most tokens of thinking: as asked for, or by the effort where the model thinks apart; None = no bound."""
    if body.thinking_token_budget is not None:
        return body.thinking_token_budget if shape.form is not None else None
    return EFFORTS.get(body.reasoning_effort or "") if shape.form is not None else None


def prompt_end(front: Front, ids: Sequence[int] | np.ndarray) -> str:
    """The end of a rendered prompt as text: enough to see whether it opens or closes thinking."""
    return front.detokenize([int(i) for i in ids[-64:]])


def chat_request(fields: dict[str, Any]) -> ChatRequest:
    """What a dialect made of its body. Raises UserInputError naming the field."""
    try:
        return ChatRequest.model_validate(fields)
    except ValidationError as e:
        message, field = describe_validation(list(e.errors()), fields)
        raise UserInputError(message, field=field) from None


def prepared(front: Front, body: ChatRequest) -> tuple[Shape, GenerateRequest, str]:
    """-> (shape, the engine's request, the end of its prompt where the model thinks). Slow for large bodies; any thread. Raises UserInputError."""
    shape = shape_of(front, body)
    wanted = generate_request(front, body, shape)
    return shape, wanted, prompt_end(front, wanted.prompt) if shape.form is not None else ""


class ChatRun:
    """A submitted request: made by `start`, iterated once. Closing it cancels. Raises the core errors."""

    def __init__(self, front: Front, body: ChatRequest, shape: Shape, wanted: GenerateRequest, end: str) -> None:
        self.running = front.submit(wanted)
        self._deltas: AsyncIterator[Delta] = self.running
        self.assemblers = [shape.assembler(end) for _ in range(body.n or 1)]
        self.reasons = shape.form is not None

    @classmethod
    async def start(cls, request: Request, front: Front, body: ChatRequest) -> ChatRun:
        """Render, tokenize and submit. request: whose size says where the first two are done."""
        return cls(front, body, *await off_loop(size_of(request), prepared, front, body))

    @property
    def usage(self) -> Usage:
        return self.running.usage

    @property
    def reasoning_tokens(self) -> int | None:
        """Tokens spent on reasoning; None for models that do not think."""
        return sum(a.reasoning_tokens for a in self.assemblers) if self.reasons else None

    async def begin(self) -> None:
        """Wait for the first delta, so that a grammar that cannot be, a full queue or a lost engine is a status and no event in a stream."""
        self._deltas = await begun(self._deltas)

    async def said(self) -> AsyncGenerator[Said, None]:
        async with contextlib.aclosing(self.running):
            async for d in self._deltas:
                assembler = self.assemblers[d.index]
                parts = assembler.feed(d.text, len(d.token_ids), final=d.finish_reason is not None)
                yield Said(d.index, parts, d, assembler.finish_reason(d.finish_reason) if d.finish_reason else None)

    async def aclose(self) -> None:
        await self.running.aclose()

    def usage_numbers(self) -> dict[str, Any]:
        u = self.usage
        return {"prompt": u.prompt, "completion": u.completion, "cached": u.cached, "reasoning": self.reasoning_tokens, "drafts": u.drafts}
