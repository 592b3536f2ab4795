"""How a request wants its tokens drawn. Field names and defaults are those of vLLM's SamplingParams, so that migrating costs an import line."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from headwater.core.errors import UserInputError

MAX_LOGPROBS = 20


@dataclass(slots=True, kw_only=True)
class SamplingParams:
    """temperature 0 is greedy. top_k 0 or -1, top_p 1 and min_p 0 switch those filters off; max_tokens None = the rest of the context.

    thinking_token_budget: most tokens of thinking before its end is forced (None = no bound).
    logprobs: None = none, 0 = the chosen token only, k = and the k most likely. prompt_logprobs: the same for prompt tokens.
    Raises UserInputError (field = parameter name) where a value is out of range.
    """

    n: int = 1
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    seed: int | None = None
    max_tokens: int | None = 16
    min_tokens: int = 0
    stop: str | Sequence[str] | None = None
    stop_token_ids: Sequence[int] = ()
    ignore_eos: bool = False
    include_stop_str_in_output: bool = False
    skip_special_tokens: bool = True
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    logit_bias: dict[int, float] = field(default_factory=dict)
    allowed_token_ids: Sequence[int] | None = None
    thinking_token_budget: int | None = None

    def __post_init__(self) -> None:
        def need(ok: bool, name: str, what: str) -> None:
            if not ok:
                raise UserInputError(f"{name}: {what}, got {getattr(self, name)!r}", field=name)

        def number(name: str, low: float, high: float) -> None:
            value = getattr(self, name)
            ok = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and low <= value <= high
            need(ok, name, f"must be a number from {low:g} to {high:g}")

        def integer(name: str, low: int, high: int = 2**31 - 1) -> None:
            value = getattr(self, name)
            need(isinstance(value, int) and not isinstance(value, bool) and low <= value <= high, name, f"must be an integer from {low} to {high}")

        integer("n", 1, 128)
        number("temperature", 0.0, 100.0)
        number("top_p", 0.0, 1.0)
        need(self.top_p > 0.0, "top_p", "must be above 0")
        integer("top_k", -1)
        number("min_p", 0.0, 1.0)
        number("presence_penalty", -2.0, 2.0)
        number("frequency_penalty", -2.0, 2.0)
        number("repetition_penalty", 0.01, 100.0)
        integer("min_tokens", 0)
        if self.max_tokens is not None:
            integer("max_tokens", 1)
            need(self.min_tokens <= self.max_tokens, "min_tokens", f"must be at most max_tokens ({self.max_tokens})")
        if self.thinking_token_budget is not None:
            integer("thinking_token_budget", 0)
        if self.seed is not None:
            integer("seed", -(2**63), 2**64 - 1)
        for name in ("logprobs", "prompt_logprobs"):
            if getattr(self, name) is not None:
                integer(name, 0, MAX_LOGPROBS)
        self.stop = [self.stop] if isinstance(self.stop, str) else list(self.stop or ())
        need(all(isinstance(s, str) and s for s in self.stop), "stop", "must be non-empty strings")
        self.stop_token_ids = list(self.stop_token_ids)
        for token, bias in self.logit_bias.items():
            if not isinstance(token, int) or not isinstance(bias, int | float) or math.isnan(bias) or not -100.0 <= bias <= 100.0:
                raise UserInputError(f"logit_bias[{token}]: must be a number from -100 to 100, got {bias!r}", field="logit_bias")
        if self.allowed_token_ids is not None:
            self.allowed_token_ids = list(self.allowed_token_ids)
            need(len(self.allowed_token_ids) > 0, "allowed_token_ids", "must name at least one token")

    @property
    def greedy(self) -> bool:
        return self.temperature < 1e-5


def choice_seed(seed: int, choice: int) -> int:
    """Seed of choice i of a request: its own for i = 0, else a 64-bit hash of (seed, i) (splitmix64 steps; numeric contract 6)."""
    mask = 2**64 - 1
    if choice == 0:
        return seed & mask
    z = (seed + choice * 0x9E3779B97F4A7C15) & mask
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
    return (z ^ (z >> 31)) & mask
