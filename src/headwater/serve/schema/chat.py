"""POST /v1/chat/completions: what clients send."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, PrivateAttr

from headwater.core.errors import UserInputError
from headwater.core.params import MAX_LOGPROBS
from headwater.serve.schema.common import GenerationFields, Int, Wire

Role = Literal["system", "developer", "user", "assistant", "tool", "function"]


class ContentPart(Wire):
    type: str
    text: str | None = None
    refusal: str | None = None


class FunctionCall(Wire):
    name: str
    arguments: str | dict[str, Any] = "{}"


class ToolCall(Wire):
    id: str | None = None
    type: str = "function"
    function: FunctionCall


class Message(Wire):
    role: Role
    content: str | list[ContentPart] | None = None
    name: str | None = None
    tool_calls: list[ToolCall] | None = None
    tool_call_id: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None

    def as_dict(self, where: str) -> dict[str, Any]:
        """The message as templates expect it. Raises UserInputError for parts that are not text."""
        content = self.content
        if isinstance(content, list):
            texts = []
            for i, part in enumerate(content):
                if part.type not in ("text", "input_text", "output_text", "refusal"):
                    raise UserInputError(
                        f"{where}.content[{i}].type: '{part.type}' is not supported, this model reads text only", field=f"{where}.content[{i}].type"
                    )
                texts.append(part.text or part.refusal or "")
            content = "".join(texts)
        out: dict[str, Any] = {"role": "system" if self.role == "developer" else self.role, "content": content if content is not None else ""}
        if self.tool_calls:
            out["tool_calls"] = [
                {"id": c.id, "type": "function", "function": {"name": c.function.name, "arguments": parsed_arguments(c.function.arguments, where)}}
                for c in self.tool_calls
            ]
        for name in ("name", "tool_call_id"):
            if getattr(self, name) is not None:
                out[name] = getattr(self, name)
        if self.reasoning_content or self.reasoning:
            out["reasoning_content"] = self.reasoning_content or self.reasoning
        return out


def parsed_arguments(arguments: str | dict[str, Any], where: str) -> dict[str, Any]:
    """Templates iterate over arguments, the wire carries them as text."""
    import json

    if isinstance(arguments, dict):
        return arguments
    try:
        value = json.loads(arguments or "{}")
    except ValueError:
        raise UserInputError(f"{where}.tool_calls: function.arguments is not valid JSON", field=f"{where}.tool_calls") from None
    return value if isinstance(value, dict) else {"value": value}


class FunctionTool(Wire):
    name: str = Field(min_length=1)
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class Tool(Wire):
    type: Literal["function"] = "function"
    function: FunctionTool


class NamedFunction(Wire):
    name: str


class NamedTool(Wire):
    type: Literal["function"] = "function"
    function: NamedFunction


class ChatRequest(GenerationFields):
    messages: list[Message] = Field(min_length=1)
    max_completion_tokens: Int | None = None
    logprobs: bool | None = None
    top_logprobs: Int | None = None
    tools: list[Tool] | None = None
    tool_choice: Literal["auto", "none", "required"] | NamedTool | None = None
    parallel_tool_calls: bool | None = None
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high"] | None = None
    thinking_token_budget: int | None = None
    add_generation_prompt: bool = True
    continue_final_message: bool = False
    chat_template_kwargs: dict[str, Any] | None = None
    include_reasoning: bool = True
    _budget_is_advice: bool = PrivateAttr(default=False)

    @property
    def budget_is_advice(self) -> bool:
        """The budget came from a dialect whose clients always send one: models that do not think apart need not begin to."""
        return self._budget_is_advice

    def advise(self) -> ChatRequest:
        self._budget_is_advice = True
        return self

    def wanted_logprobs(self) -> int | None:
        if self.top_logprobs is not None and not self.logprobs:
            raise UserInputError("top_logprobs: needs logprobs: true", field="top_logprobs")
        if self.top_logprobs is not None and not 0 <= self.top_logprobs <= MAX_LOGPROBS:
            raise UserInputError(f"top_logprobs: must be an integer from 0 to {MAX_LOGPROBS}, got {self.top_logprobs}", field="top_logprobs")
        return (self.top_logprobs or 0) if self.logprobs else None
