"""Text of a chat answer into its parts: content, reasoning, tool calls. The same parts make the streamed and the whole message."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from headwater.engine.client import Grammar
from headwater.engine.front import Front
from headwater.serve.schema.chat import ChatRequest


@dataclass(slots=True)
class Part:
    """A piece of text of one kind. For `tool`: index of the call; id and name on its first piece; text is a fragment of the arguments."""

    kind: Literal["content", "reasoning", "tool"]
    text: str = ""
    index: int = 0
    id: str | None = None
    name: str | None = None

    def as_delta(self, include_reasoning: bool) -> dict[str, Any]:
        if self.kind == "content":
            return {"content": self.text} if self.text else {}
        if self.kind == "reasoning":
            return {"reasoning_content": self.text, "reasoning": self.text} if self.text and include_reasoning else {}
        function: dict[str, Any] = {"arguments": self.text}
        call: dict[str, Any] = {"index": self.index, "function": function}
        if self.id is not None:
            call |= {"id": self.id, "type": "function"}
            function["name"] = self.name
        return {"tool_calls": [call]}


@dataclass(slots=True)
class Message:
    """A whole assistant message, grown from parts."""

    content: str = ""
    reasoning: str = ""
    calls: list[dict[str, Any]] = field(default_factory=list)

    def add(self, part: Part) -> None:
        if part.kind == "content":
            self.content += part.text
        elif part.kind == "reasoning":
            self.reasoning += part.text
        else:
            if part.id is not None:
                self.calls.append({"id": part.id, "type": "function", "function": {"name": part.name, "arguments": ""}})
            self.calls[part.index]["function"]["arguments"] += part.text

    def as_object(self, include_reasoning: bool) -> dict[str, Any]:
        out: dict[str, Any] = {"role": "assistant", "content": self.content if self.content or not self.calls else None, "refusal": None}
        if self.reasoning and include_reasoning:
            out |= {"reasoning_content": self.reasoning, "reasoning": self.reasoning}
        if self.calls:
            out["tool_calls"] = self.calls
        return out


class Assembler:
    """One choice: text in, parts out."""

    def __init__(self) -> None:
        self.reasoning_tokens = 0
        self.called = False

    def feed(self, text: str, tokens: int, *, final: bool) -> list[Part]:
        return [Part("content", text)] if text else []

    def finish_reason(self, reason: str) -> str:
        return "tool_calls" if self.called and reason == "stop" else reason


@dataclass(slots=True)
class Shape:
    """What a request's answer looks like: a fresh assembler per choice, the grammar that enforces it, whether the model thinks first."""

    assembler: Callable[[], Assembler]
    grammar: Grammar | None
    reasons: bool


def shape_of(front: Front, body: ChatRequest) -> Shape:
    """Raises UserInputError for tools that cannot be honoured."""
    return Shape(Assembler, body.grammar(), False)
