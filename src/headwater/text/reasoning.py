"""Reasoning apart from the answer: a streaming splitter for `<think>` style markers."""

from __future__ import annotations

from dataclasses import dataclass

from headwater.core.errors import UserInputError
from headwater.text.markers import certain


@dataclass(frozen=True, slots=True)
class ReasoningFormat:
    """start, end: the markers around reasoning. starts_open: models of this kind reason from the first token, without `start`."""

    start: str
    end: str
    starts_open: bool = False


FORMATS: dict[str, ReasoningFormat] = {
    "think": ReasoningFormat("<think>", "</think>"),
    "deepseek_r1": ReasoningFormat("<think>", "</think>", starts_open=True),
    "mistral": ReasoningFormat("[THINK]", "[/THINK]"),
    "seed": ReasoningFormat("<seed:think>", "</seed:think>"),
    "granite": ReasoningFormat("Here is my thought process:", "Here is my response:"),
}


TWO_STAGE = ReasoningFormat("", "\n\nAnswer:", starts_open=True)     # models without markers: they think until the cue for the answer stands there


def reasoning_format(name: str) -> ReasoningFormat:
    """By name. Raises UserInputError with the known ones."""
    if name not in FORMATS:
        raise UserInputError(f"--reasoning-parser {name}: one of {', '.join(FORMATS)} would be right", field="reasoning_parser")
    return FORMATS[name]


def detect_format(chat_template: str | None) -> ReasoningFormat | None:
    """The format whose end marker a chat template mentions; None for a model that does not reason apart."""
    return next((f for f in FORMATS.values() if chat_template and f.end in chat_template), None)


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """A piece of the stream: kind is "reasoning" or "content", text is never empty."""

    kind: str
    text: str


class ReasoningSplitter:
    """Text in, typed deltas out; the markers and the blank lines beside them are left out. Joined by kind, the deltas do not depend on
    the cuts of the stream.

    prompt: the rendered prompt; when it ends inside an open `start` marker (the template opened it), the text begins as reasoning.
    """

    def __init__(self, form: ReasoningFormat, prompt: str = "") -> None:
        self._form = form
        self._held = ""
        self._trim = True                                           # white space at the start of either part is layout
        last = prompt.rfind(form.start)
        opened = last >= 0 and form.end not in prompt[last:] and not prompt[last + len(form.start) :].strip()
        self._inside: bool | None = True if opened else None        # None: nothing decided yet
        if self._inside is None and form.starts_open and not prompt.rstrip().endswith(form.end):
            self._inside = True
        self._may_repeat = self._inside is True

    @property
    def reasoning(self) -> bool:
        """Whether the stream is inside reasoning now; structured output has to wait until it is not."""
        return self._inside is True

    def push(self, text: str) -> list[ReasoningDelta]:
        """Append text; return the deltas that are now certain."""
        self._held += text
        return self._advance(final=False)

    def finish(self) -> list[ReasoningDelta]:
        """End of the stream: what was held back."""
        return self._advance(final=True)

    def _advance(self, final: bool) -> list[ReasoningDelta]:
        out: list[ReasoningDelta] = []
        while True:
            if self._inside is None and not self._decide(final):
                return out
            if not self._inside:
                self._emit(out, "content", self._held)
                self._held = ""
                return out
            if self._may_repeat:                                    # the template has opened the marker and the model writes it again
                seen = self._held.lstrip()
                if not final and self._form.start.startswith(seen) and seen != self._form.start:
                    return out
                self._may_repeat = False
                if seen.startswith(self._form.start):
                    self._held = seen[len(self._form.start) :]
            at = self._held.find(self._form.end)
            if at >= 0:
                self._emit(out, "reasoning", self._held[:at].rstrip())
                self._held = self._held[at + len(self._form.end) :]
                self._inside, self._trim = False, True
                continue
            keep = len(self._held) if final else certain(self._held, (self._form.end,))
            ready = self._held[:keep]
            solid = ready if final else ready.rstrip()              # trailing white space waits: it may stand before the end marker
            self._emit(out, "reasoning", solid)
            self._held = self._held[len(solid) :]
            return out

    def _decide(self, final: bool) -> bool:
        """Reasoning begins only where the text begins with the start marker; False while that is open."""
        seen = self._held.lstrip()
        if seen.startswith(self._form.start):
            self._inside, self._held = True, seen[len(self._form.start) :]
            return True
        if not final and self._form.start.startswith(seen):
            return False
        self._inside = self._trim = False                           # plain content keeps its white space
        return True

    def _emit(self, out: list[ReasoningDelta], kind: str, text: str) -> None:
        if self._trim:
            text = text.lstrip()
            if not text:
                return
            self._trim = False
        if text:
            out.append(ReasoningDelta(kind, text))
