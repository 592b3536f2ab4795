"""Decisions' side of a text model: prompts of two messages, label ids, the id that ends an answer."""

from __future__ import annotations

import numpy as np

from headwater.core.errors import UserInputError
from headwater.engine.text import TextModel


class DecisionText:
    """`decide.decider.TextSide` over a tokenizer and a template; models without a template get plain headings and labels behind a space."""

    def __init__(self, text: TextModel) -> None:
        self.text = text

    def prompt_ids(self, first: str, second: str, answer_prefix: str) -> np.ndarray:
        """int32 ids of (state message, question message) up to where the answer starts."""
        if self.text.template is not None:
            ids = self.text.render_chat(self._messages(first, second))
            tail = self.text.tokenizer.encode(answer_prefix, add_special=False) if answer_prefix else []
            return np.array([*ids, *tail], np.int32)
        plain = f"{first}\n\n# Question\n{second}\n\n# Answer\n{answer_prefix}"
        return np.array(self.text.tokenizer.encode(plain), np.int32)

    def _messages(self, first: str, second: str) -> list[dict[str, str]]:
        return [{"role": "system", "content": first}, {"role": "user", "content": second}]

    def label_ids(self, text: str) -> tuple[int, ...]:
        return tuple(self.text.tokenizer.encode(text, add_special=False))

    def terminator(self) -> tuple[int, ...]:
        """The lowest end-of-turn id. Raises UserInputError where the model has none."""
        if not self.text.stop_ids:
            raise UserInputError("labels: this model has no end-of-turn token, option texts cannot be told apart from their beginnings", "labels")
        return (min(self.text.stop_ids),)
