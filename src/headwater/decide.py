"""`headwater.decide(state, questions)`: decisions without a server, on the default model or one of your choice."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headwater.decisions.types import DecisionResult
    from headwater.llm import LLM


@lru_cache(maxsize=1)
def _model(name: str) -> LLM:
    from headwater.llm import LLM

    return LLM(name)


def decide(state: Any, questions: Any, *, model: str = "smollm2-135m-instruct", **options: Any) -> DecisionResult:
    """See `LLM.decide`. The model is loaded at the first call and kept."""
    return _model(model).decide(state, questions, **options)
