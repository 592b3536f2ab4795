"""What fronts need of the text half: a tokenizer, a chat template, the ids that end a turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from headwater.core.errors import UserInputError


class Decoder(Protocol):
    """Ids of one stream into text; never half a character."""

    def push(self, ids: Sequence[int]) -> str: ...

    def finish(self) -> str: ...


class Tokenizer(Protocol):
    """The part of `text.tokenizer.Tokenizer` that the engine uses."""

    def encode(self, text: str, *, add_special: bool = True) -> list[int]: ...

    def decode(self, ids: Sequence[int], *, skip_special: bool = True) -> str: ...

    def stream(self, *, skip_special: bool = True) -> Decoder: ...

    def token_bytes(self, token: int) -> bytes: ...


class Template(Protocol):
    def render(self, messages: Sequence[dict[str, Any]], *, tools: Sequence[dict[str, Any]] | None, add_generation_prompt: bool, **names: Any) -> str: ...


@dataclass(slots=True)
class TextModel:
    """name: what `/v1/models` lists. stop_ids: every end-of-turn id of the model. template None: chat is refused with a hint."""

    name: str
    tokenizer: Tokenizer
    template: Template | None
    stop_ids: frozenset[int]

    def render_chat(
        self,
        messages: Sequence[dict[str, Any]],
        tools: Sequence[dict[str, Any]] | None = None,
        *,
        add_generation_prompt: bool = True,
        **names: Any,
    ) -> list[int]:
        """Messages as OpenAI writes them -> ids. names: further variables of the template (`enable_thinking=False`).

        Raises UserInputError where the model has no chat template or the template refuses the messages.
        """
        if self.template is None:
            raise UserInputError(f"messages: {self.name} has no chat template; give one with --chat-template FILE, or use /v1/completions", "messages")
        text = self.template.render(messages, tools=tools, add_generation_prompt=add_generation_prompt, **names)
        return self.tokenizer.encode(text, add_special=False)
