"""Headwater: an inference engine for language models on CPU servers, and the ledger that keeps its claims honest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from headwater.core.params import SamplingParams
    from headwater.decide import decide
    from headwater.llm import LLM

__all__ = ["LLM", "SamplingParams", "__version__", "decide"]

_HOMES = {"LLM": "headwater.llm", "SamplingParams": "headwater.core.params", "decide": "headwater.decide"}


def __getattr__(name: str) -> Any:
    """Names of the public API are imported when they are first used: `headwater --help` must not load a model's worth of code."""
    import importlib

    if name not in _HOMES:
        raise AttributeError(f"module 'headwater' has no attribute '{name}'")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value
