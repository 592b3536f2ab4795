"""What fronts need of the text half: a tokenizer, a chat template, the ids that end a turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.engine.client import Grammar
from headwater.text.detok import StreamDecoder
from headwater.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from headwater.text.template import ChatTemplate


@dataclass(slots=True)
class TextModel:
    """name: what `/v1/models` lists. stop_ids: every end-of-turn id of the model. template_file: replaces the model's own chat template."""

    name: str
    tokenizer: Tokenizer
    stop_ids: frozenset[int]
    template_file: Path | None = None
    _template: ChatTemplate | None = None

    @property
    def has_chat(self) -> bool:
        """Whether chat is possible; without a template it is refused with a hint."""
        return self.template_file is not None or self.tokenizer.chat_template is not None

    @property
    def template(self) -> ChatTemplate:
        """Compiled on first use: completion alone needs no template engine. Raises FormatError for a file that is no template."""
        if self._template is None:
            from headwater.text.template import ChatTemplate

            self._template = ChatTemplate.of(self.tokenizer, self.template_file)
        return self._template

    def render_chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None = None,
        *,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        documents: Sequence[Mapping[str, Any]] | None = None,
        **options: Any,
    ) -> list[int]:
        """Messages as OpenAI writes them -> ids. options: further variables of the template (`enable_thinking=False`).

        Raises UserInputError where the model has no chat template or the template refuses the messages.
        """
        text = self.template.render(
            messages, tools=tools, add_generation_prompt=add_generation_prompt, continue_final_message=continue_final_message, documents=documents,
            options=options,
        )
        return self.tokenizer.encode(text, add_special=False)

    def stream(self, skip_special: bool = True) -> StreamDecoder:
        """A decoder for what follows a prompt."""
        return StreamDecoder(self.tokenizer, skip_special=skip_special)

    def compile_grammar(self, grammar: Grammar) -> Any:
        """A matcher for `worker.masks`. Slow; any thread. Raises UserInputError for a grammar that is not one."""
        from headwater.text.grammar import compile_grammar

        return compile_grammar(self.tokenizer, grammar.kind, grammar.source, after=grammar.after)
