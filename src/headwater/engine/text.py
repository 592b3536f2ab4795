"""What fronts need of the text half: a tokenizer, a chat template, the ids that end a turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.engine.client import GRAMMAR_FIELD, Grammar
from headwater.engine.thinking import CLOSING, AfterThinking, AnyText, Thinking
from headwater.text.detok import StreamDecoder
from headwater.text.tokenizer import Tokenizer

ANY = "any"                                                          # kind of a grammar that allows everything

if TYPE_CHECKING:
    import numpy as np

    from headwater.text.grammar import GrammarCompiler, GrammarSpec
    from headwater.text.reasoning import ReasoningFormat
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
        thinking = grammar.thinking or (None if grammar.after is None else Thinking((grammar.after,)))
        if grammar.kind == ANY:
            return AnyText() if thinking is None else AfterThinking(AnyText(), thinking)
        from headwater.text.grammar import GrammarCompiler, GrammarSpec

        if self._compiler is None or self._compiler.width < width:
            self._compiler = GrammarCompiler(self.tokenizer, width)
        matcher = self._compiler.compile(GrammarSpec.of(grammar.kind, grammar.source, GRAMMAR_FIELD), GRAMMAR_FIELD)
        return matcher if thinking is None else AfterThinking(matcher, thinking)

    # -- thinking ------------------------------------------------------------------------------------------------------------------------

    @property
    def reasoning(self) -> ReasoningFormat | None:
        """The markers of thinking in the model's chat template, None for a model without."""
        from headwater.text.reasoning import detect_format

        source = self.template.source if self.template_file is not None else self.tokenizer.chat_template
        return detect_format(source)

    def markers(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Ids of (what opens thinking, what ends it). For a model without markers: nothing opens it, a cue for the answer ends it."""
        from headwater.text.reasoning import TWO_STAGE

        form = self.reasoning or TWO_STAGE
        return self._marker(form.start), self._marker(form.end)

    def think(self, prompt: Sequence[int] | np.ndarray, budget: int, grammar: Grammar | None = None) -> Grammar | None:
        """`grammar` (or none) behind at most `budget` tokens of thinking, then the closing text and the end marker are forced.

        A prompt in which thinking has ended gives `grammar` back. Models without markers think for exactly `budget` tokens (or until they write the
        cue themselves), cannot end their turn meanwhile, and then get the cue for the answer: a prompt in two stages.
        """
        form, (start, end) = self.reasoning, self.markers()
        if form is None:
            thinking = Thinking(end, budget, end, withheld=self.stop_ids)
        else:
            tail = self.tokenizer.decode([int(t) for t in prompt[-64:]], skip_special=False)
            if tail.rstrip().endswith(form.end):
                return grammar
            opened = form.starts_open or (form.start in tail and form.end not in tail[tail.rfind(form.start) :])
            closing = (*self.tokenizer.encode(CLOSING, add_special=False), *end)
            thinking = Thinking(end, budget, closing, () if opened else start)
        return Grammar(ANY, None, thinking=thinking) if grammar is None else replace(grammar, after=None, thinking=thinking)

    def _marker(self, text: str) -> tuple[int, ...]:
        return tuple(self.tokenizer.encode(text, add_special=False))


def grammar_spec(grammar: Grammar) -> GrammarSpec | None:
    """Cheap checks. Raises UserInputError where `source` cannot be what `kind` says."""
    from headwater.text.grammar import GrammarSpec

    return None if grammar.kind == ANY else GrammarSpec.of(grammar.kind, grammar.source, GRAMMAR_FIELD)
