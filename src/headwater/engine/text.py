"""What fronts need of the text half: a tokenizer, a chat template, the ids that end a turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.engine.client import GRAMMAR_FIELD, Grammar
from headwater.text.detok import StreamDecoder
from headwater.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from headwater.text.grammar import GrammarCompiler, GrammarSpec
    from headwater.text.template import ChatTemplate


@dataclass(slots=True)
class TextModel:
    """name: what `/v1/models` lists. stop_ids: every end-of-turn id of the model. template_file: replaces the model's own chat template.

    generates: False for models that look both ways and only embed; pooling: how their hidden rows become one vector (`mean`, `cls`, `last`).
    """

    name: str
    tokenizer: Tokenizer
    stop_ids: frozenset[int]
    template_file: Path | None = None
    generates: bool = True
    pooling: str = "mean"
    _template: ChatTemplate | None = None
    _compiler: GrammarCompiler | None = None

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
        /,                                                           # options may have any name, even `self`
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

    def compile_grammar(self, grammar: Grammar, width: int) -> Any:
        """A matcher for `worker.masks`. width: columns of the output matrix. Slow; any thread. Raises UserInputError for what is no grammar."""
        from headwater.text.grammar import GrammarCompiler, MatcherAfter

        if self._compiler is None or self._compiler.width < width:
            self._compiler = GrammarCompiler(self.tokenizer, width)
        matcher = self._compiler.compile(grammar_spec(grammar), GRAMMAR_FIELD)
        if grammar.after is None:
            return matcher
        return MatcherAfter(matcher, grammar.after, self._compiler.free_mask(), grammar.start)


def grammar_spec(grammar: Grammar) -> GrammarSpec:
    """Cheap checks. Raises UserInputError where `source` cannot be what `kind` says."""
    from headwater.text.grammar import GrammarSpec

    return GrammarSpec.of(grammar.kind, grammar.source, GRAMMAR_FIELD)
