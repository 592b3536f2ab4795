"""A request as the scheduler sees it: ids, not text. The front expands `n` choices into one request each, forks of the first."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from headwater.core.drafting import DraftPass
from headwater.core.params import SamplingParams

FinishReason = Literal["stop", "length", "abort", "error"]


@dataclass(slots=True)
class ReadSpec:
    """What to read besides sampled tokens.

    labels: ids whose raw logits are read at the last prompt position (only those rows of the output matrix are computed).
    lse: read the log-sum-exp of the whole vocabulary there too (one full row of the output matrix).
    score_from: prompt positions from here on get the log-probability of their own token (None = none); `prompt_top` adds the k most likely.
    hidden: return the final hidden row of the `last` prompt token, or of `all`.
    """

    labels: np.ndarray | None = None
    score_from: int | None = None
    prompt_top: int = 0
    hidden: Literal["last", "all"] | None = None
    lse: bool = False

    @property
    def any(self) -> bool:
        return self.labels is not None or self.score_from is not None or self.hidden is not None


@dataclass(slots=True)
class Request:
    """One sequence of tokens that somebody wants continued, read or held.

    prompt: int32[n]. stop_ids: ids that end it (end-of-turn ids and stop_token_ids). max_new: 0 = read only, nothing is sampled.
    parent, parent_pos: fork by name: the first `parent_pos` tokens equal those of request `parent`, whose state is shared.
    hold: keep the row as a fork point until a Release event (a `State` of the public API, a decision's shared state).
    borders: positions at which messages end: checkpoints there let the next turn start (models that cannot be cut back).
    seed: 64 bits, already chosen. mask: the row asks the executor's grammar matcher `mask` (an id) for allowed tokens.
    """

    request_id: str
    prompt: np.ndarray
    params: SamplingParams
    max_new: int
    stop_ids: frozenset[int] = frozenset()
    seed: int = 0
    arrival: float = 0.0
    priority: int = 0
    owner: str = ""
    cache_salt: str = ""
    parent: str | None = None
    parent_pos: int = 0
    hold: bool = False
    borders: tuple[int, ...] = ()
    reads: ReadSpec = field(default_factory=ReadSpec)
    mask: str | None = None
    deadline: float | None = None


@dataclass(slots=True)
class TokenLogprobs:
    """Raw log-soft-max of one position: the token's own and the k most likely. ids int32[k], values float32[k], best first."""

    token: int
    logprob: float
    top_ids: np.ndarray
    top_values: np.ndarray


@dataclass(slots=True)
class ReadResult:
    """What `ReadSpec` asked for. labels: float32[len(labels)] raw logits; lse: log-sum-exp of all raw logits at the same position (float64
    accumulation), None unless asked; prompt: one entry per scored position; hidden: float32[k, dim]."""

    labels: np.ndarray | None = None
    prompt: list[TokenLogprobs] = field(default_factory=list)
    hidden: np.ndarray | None = None
    lse: float | None = None


@dataclass(slots=True)
class Output:
    """What one step brought a request. New ids (maybe none), and on the last one a reason."""

    request_id: str
    ids: np.ndarray                                  # int32[k]
    logprobs: list[TokenLogprobs] | None = None
    reads: ReadResult | None = None
    finish: FinishReason | None = None
    stop_id: int | None = None                       # the id that ended it; never part of `ids`
    error: str | None = None
    retry_after: float | None = None                 # set when the request was refused by load
    cached_tokens: int = 0                           # prompt tokens whose state was found, not computed
    computed_tokens: int = 0                         # prompt tokens computed for this request
    queued: float = 0.0                              # seconds between its arrival and its first admission
    draft: DraftPass | None = None                   # of a decoding row where drafting is on: what this step checked
