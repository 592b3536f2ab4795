"""What fronts need of the text half: a tokenizer, a chat template, the ids that end a turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from headwater.core.errors import UserInputError
from headwater.engine.client import Grammar
from headwater.text.detok import StreamDecoder
from headwater.text.tokenizer import Tokenizer


@dataclass(slots=True)
class TextModel:
    """name: what `/v1/models` lists. stop_ids: every end-of-turn id of the model. template None: chat is refused with a hint."""

    name: str
    tokenizer: Tokenizer
    template: str | None
    stop_ids: frozenset[int]
    _compiled: Any = None

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
            hint = "give one with --chat-template FILE, or use /v1/completions"
            raise UserInputError(f"messages: {self.name} has no chat template; {hint}", "messages")
        if self._compiled is None:                                  # compiled on first use: completion alone needs no template engine
            from headwater.text.template import ChatTemplate

            self._compiled = ChatTemplate(self.template, self.tokenizer)
        text = self._compiled.render(messages, tools=tools, add_generation_prompt=add_generation_prompt, **names)
        return self.tokenizer.encode(text, add_special=False)

    def stream(self, skip_special: bool = True) -> StreamDecoder:
        """A decoder for what follows a prompt."""
        return StreamDecoder(self.tokenizer, skip_special=skip_special)

    def compile_grammar(self, grammar: Grammar) -> Any:
        """A matcher for `worker.masks`. Slow; any thread. Raises UserInputError for a grammar that is not one."""
        from headwater.text.grammar import compile_grammar

        return compile_grammar(self.tokenizer, grammar.kind, grammar.source, after=grammar.after)
