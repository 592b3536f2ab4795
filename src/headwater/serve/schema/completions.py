"""POST /v1/completions: what clients send."""

from __future__ import annotations

from headwater.serve.schema.common import GenerationFields, Int


class CompletionRequest(GenerationFields):
    """prompt: a text, a list of texts, token ids, or a list of token id lists. logprobs: how many alternatives per token."""

    prompt: str | list[str] | list[int] | list[list[int]]
    echo: bool = False
    suffix: str | None = None
    logprobs: Int | None = None
    prompt_logprobs: Int | None = None
    add_special_tokens: bool = True

    def prompts(self) -> list[str | list[int]]:
        """One entry per prompt."""
        p = self.prompt
        if isinstance(p, str):
            return [p]
        if all(isinstance(x, int) for x in p):
            return [p] if p else []  # type: ignore[list-item]
        return list(p)  # type: ignore[arg-type]
