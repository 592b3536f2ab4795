"""One choice of a request: ids from the engine become text deltas; stop strings end it; the surplus is trimmed before anybody sees it."""

from __future__ import annotations

from dataclasses import dataclass, field

from headwater.core.drafting import DraftCounts
from headwater.core.params import SamplingParams
from headwater.core.request import FinishReason, Output, ReadResult, TokenLogprobs
from headwater.text.detok import StreamDecoder
from headwater.text.stops import StopStrings


@dataclass(slots=True)
class Usage:
    """Token counts of a request. cached: prompt tokens whose state was found; completion: sum over all choices so far. drafts: what drafting did
    for all choices so far, None where it is off."""

    prompt: int = 0
    cached: int = 0
    completion: int = 0
    drafts: DraftCounts | None = None


@dataclass(slots=True)
class Delta:
    """What one step brought one choice. text may be empty while a character or a possible stop string is incomplete.

    stop_reason: the stop string or stop id that ended the choice, None for the model's own end of turn. x_seed: the seed that reproduces this choice
    as a request of its own. logprobs: one entry per id of token_ids when asked for; end_logprob: of the token that ended the choice, which is
    not among them. usage: of the whole request.
    """

    index: int
    text: str
    token_ids: list[int]
    logprobs: list[TokenLogprobs] | None = None
    finish_reason: FinishReason | None = None
    stop_reason: int | str | None = None
    x_seed: int = 0
    reads: ReadResult | None = None
    end_logprob: TokenLogprobs | None = None
    usage: Usage = field(default_factory=Usage)


class Choice:
    """Feeds on the engine's outputs of one request row. `done` once it has a finish reason; later outputs are surplus and dropped."""

    def __init__(self, index: int, seed: int, params: SamplingParams, decoder: StreamDecoder) -> None:
        self.index = index
        self.seed = seed
        self.done = False
        self._decoder = decoder
        self._stops = StopStrings(list(params.stop or ()), params.include_stop_str_in_output)
        self._has_stops = bool(params.stop)
        self._user_stop_ids = frozenset(params.stop_token_ids)
        self._min_tokens = params.min_tokens
        self._count = 0

    def feed(self, out: Output, usage: Usage) -> tuple[Delta | None, bool]:
        """-> (delta or None, whether the engine must be told to stop: a stop string was found)."""
        if self.done:
            return None, False
        ids = out.ids.tolist()
        text, found = "", None
        if self._has_stops:
            text, ids, found = self._until_stop(ids)
        elif ids:
            text = self._decoder.push(ids)
        usage.completion += len(ids)
        if out.draft is not None:
            usage.drafts = usage.drafts or DraftCounts()
            usage.drafts.add(out.draft, len(ids))
        finish: FinishReason | None = out.finish
        reason: int | str | None = None
        if found is not None:
            finish, reason = "stop", found
        elif finish is not None:
            text += self._stops.push(self._decoder.finish())
            text += self._stops.finish()
            if self._stops.stopped is not None:
                finish, reason = "stop", self._stops.stopped
            elif out.stop_id is not None and out.stop_id in self._user_stop_ids:
                reason = out.stop_id
        self.done = finish is not None
        if not ids and not text and finish is None and out.reads is None:
            return None, False
        logprobs = None if out.logprobs is None else out.logprobs[: len(ids)]
        ended = out.logprobs is not None and out.stop_id is not None and found is None and len(out.logprobs) > len(out.ids)
        end = out.logprobs[-1] if ended and out.logprobs else None
        delta = Delta(self.index, text, ids, logprobs, finish, reason, self.seed, out.reads, end, usage)
        return delta, found is not None and out.finish is None

    def _until_stop(self, ids: list[int]) -> tuple[str, list[int], str | None]:
        """Token by token, because the ids behind the stop string are surplus. -> (text, ids kept, stop string found)."""
        text = ""
        for k, token in enumerate(ids):
            piece = self._decoder.push([token])
            self._count += 1
            if self._count < self._min_tokens:                      # stop strings count from the min_tokens-th token on
                text += piece
                continue
            text += self._stops.push(piece)
            if self._stops.stopped is not None:
                return text, ids[: k + 1], self._stops.stopped
        return text, ids, None
