"""Text of a chat answer into its parts: content, reasoning, tool calls. The same parts make the streamed and the whole message."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from headwater.engine.client import Grammar

if TYPE_CHECKING:
    from headwater.text.reasoning import ReasoningSplitter
    from headwater.text.tools.api import ToolParser


@dataclass(slots=True)
class Part:
    """A piece of text of one kind. For `tool`: index of the call; id and name on its first piece; text is a fragment of the arguments."""

    kind: Literal["content", "reasoning", "tool"]
    text: str = ""
    index: int = 0
    id: str | None = None
    name: str | None = None

    def as_delta(self, include_reasoning: bool) -> dict[str, Any]:
        """The `delta` object of a streamed chunk; empty when there is nothing to say."""
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
        """OpenAI's message object."""
        out: dict[str, Any] = {"role": "assistant", "content": self.content if self.content or not self.calls else None, "refusal": None}
        if self.reasoning and include_reasoning:
            out |= {"reasoning_content": self.reasoning, "reasoning": self.reasoning}
        if self.calls:
            out["tool_calls"] = self.calls
        return out


def arguments_object(text: str) -> dict[str, Any]:
    """The arguments of a call for dialects that carry them as an object; what the model did not finish, or is none, under a name of ours."""
    try:
        value = json.loads(text or "{}")
        if isinstance(value, dict):
            json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
            return value
    except (ValueError, RecursionError):
        pass
    return {"x_incomplete_json": text}


class Assembler:
    """One choice: text in, parts out. splitter: for models that reason apart; tools: when the answer may hold calls; single: at most one call."""

    def __init__(self, splitter: ReasoningSplitter | None = None, tools: ToolParser | None = None, single: bool = False) -> None:
        self.reasoning_tokens = 0
        self._splitter, self._tools, self._single = splitter, tools, single
        self._begun = False

    def feed(self, text: str, tokens: int, *, final: bool) -> list[Part]:
        """Parts that are now certain; with `final` everything held back comes out."""
        if self._splitter is None:
            return self._content(text, final)
        inside = self._splitter.reasoning
        pieces = self._splitter.push(text) + (self._splitter.finish() if final else [])
        if inside or self._splitter.reasoning:
            self.reasoning_tokens += tokens
        parts: list[Part] = []
        for p in pieces:
            parts += [Part("reasoning", p.text)] if p.kind == "reasoning" else self._content(p.text, False)
        return parts + (self._content("", True) if final else [])

    def _content(self, text: str, final: bool) -> list[Part]:
        if self._tools is None:
            return [Part("content", text)] if text else []
        from headwater.text.tools.api import CallDelta

        parts: list[Part] = []
        for d in self._tools.push(text) + (self._tools.finish() if final else []):
            if isinstance(d, CallDelta):
                if d.index == 0 or not self._single:
                    parts.append(Part("tool", d.arguments, d.index, d.id, d.name))
            elif self._begun or self._tools.calls or d.text.strip():
                self._begun = True
                if not self._tools.calls or d.text.strip():         # white space between and around calls is layout
                    parts.append(Part("content", d.text))
        return parts

    @property
    def called(self) -> bool:
        return self._tools is not None and self._tools.calls > 0

    def finish_reason(self, reason: str) -> str:
        """The wire's reason: an answer that ended by itself after calls ended for them."""
        return "tool_calls" if self.called and reason == "stop" else reason


@dataclass(slots=True)
class Shape:
    """What a request's answer looks like: a fresh assembler per choice (given the end of the rendered prompt), the grammar that enforces it,
    whether the model reasons first, whether marker tokens must stay visible, messages and tools as the template gets them."""

    assembler: Callable[[str], Assembler]
    grammar: Grammar | None
    reasons: bool
    raw_tokens: bool
    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] | None
