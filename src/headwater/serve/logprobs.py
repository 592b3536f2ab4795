"""Log-probabilities as the two OpenAI endpoints write them. Tokens are shown as text, and as bytes where the text is half a character."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from headwater.core.request import TokenLogprobs
from headwater.engine.front import Front

FLOOR = -9999.0                   # JSON has no minus infinity; OpenAI writes this for "not among the likely"


def _finite(value: float) -> float:
    return float(value) if math.isfinite(value) else FLOOR


def _token(front: Front, token: int, logprob: float) -> dict[str, Any]:
    raw = front.token_bytes(token)
    return {"token": raw.decode("utf-8", "replace"), "logprob": _finite(logprob), "bytes": list(raw)}


def chat_content(front: Front, entries: Sequence[TokenLogprobs]) -> list[dict[str, Any]]:
    """`choices[].logprobs.content` of chat completions."""
    out = []
    for e in entries:
        item = _token(front, e.token, e.logprob)
        item["top_logprobs"] = [_token(front, int(t), float(v)) for t, v in zip(e.top_ids, e.top_values, strict=True)]
        out.append(item)
    return out


def completion_object(front: Front, entries: Sequence[TokenLogprobs | None], tokens: Sequence[int], offset: int = 0) -> dict[str, Any]:
    """`choices[].logprobs` of text completions. entries[i] None: no log-probability (the first prompt token); offset: of the first character."""
    texts, offsets = [], []
    for token in tokens:
        text = front.token_bytes(token).decode("utf-8", "replace")
        texts.append(text)
        offsets.append(offset)
        offset += len(text)
    tops: list[dict[str, float] | None] = []
    for e in entries:
        if e is None:
            tops.append(None)
            continue
        top = {front.token_bytes(int(t)).decode("utf-8", "replace"): _finite(float(v)) for t, v in zip(e.top_ids, e.top_values, strict=True)}
        top.setdefault(front.token_bytes(e.token).decode("utf-8", "replace"), _finite(e.logprob))
        tops.append(top)
    return {
        "tokens": texts,
        "token_logprobs": [None if e is None else _finite(e.logprob) for e in entries],
        "top_logprobs": tops,
        "text_offset": offsets,
    }
