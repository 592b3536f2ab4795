"""EngineClient: how a front talks to an engine, in this process (`thread.py`) or in a child (`process.py`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from headwater.core.drafting import DraftCounts
from headwater.core.errors import HeadwaterError
from headwater.core.events import Event
from headwater.core.executor import Caps
from headwater.core.request import Output
from headwater.engine.thinking import Thinking

GRAMMAR_FIELD = "response_format"                                    # how a request names its grammar; begins the message of a grammar error


class EngineLostError(HeadwaterError):
    """The engine died under a request; the request may be sent again to the next one."""


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """What a front must know of an engine. context: tokens; identity: model hash, kernel signature, KV format and attention policy, joined."""

    context: int
    vocabulary: int
    identity: str
    blocks: tuple[int, ...]

    @staticmethod
    def of(caps: Caps) -> EngineInfo:
        return EngineInfo(caps.context, caps.vocabulary, caps.fingerprint, caps.blocks)


@dataclass(slots=True)
class DraftSeconds:
    """verify: seconds of the steps that checked drafts; plain: what the cost model says the same steps take without them (verify / plain is the
    verify cost v); rollback: seconds spent on going back behind refused guesses, part of `verify`; hidden: what
    self-drafts beside their parents cost, as priced."""

    verify: float = 0.0
    plain: float = 0.0
    rollback: float = 0.0
    hidden: float = 0.0


@dataclass(slots=True)
class EngineStats:
    """A snapshot. kv_usage: share of blocks that a running or held row owns, 0..1; last_step_age: seconds since a step ended, while work waits
    (0 when idle); step_seconds: what the step in flight was predicted to take; queue: events not yet seen by the scheduler. drafts: what drafting
    did, None where it is off."""

    running: int = 0
    waiting: int = 0
    kv_usage: float = 0.0
    kv_cached: float = 0.0
    steps: int = 0
    last_step_age: float = 0.0
    step_seconds: float = 0.0
    queue: int = 0
    prompt_tokens: int = 0
    generated_tokens: int = 0
    cached_tokens: int = 0
    preemptions: int = 0
    drafts: DraftCounts | None = None
    draft_seconds: DraftSeconds = field(default_factory=DraftSeconds)


@dataclass(frozen=True, slots=True)
class Grammar:
    """What the output must look like, compiled by the engine off its loop. kind: `json_schema`, `json_object`, `regex`, `choice`, `lark`, or `any`
    (no grammar, for a budget of thinking alone).

    after: the grammar starts behind this token id (end of thinking); None = at once. thinking: the same with more to it (`TextModel.think`);
    replaces `after`.
    """

    kind: str
    source: Any
    after: int | None = None
    thinking: Thinking | None = None


Deliver = Callable[[list[Output]], None]
Lost = Callable[[str], None]


class EngineClient(Protocol):
    """All methods may be called from any thread; `deliver` and `lost` are called from the client's own."""

    info: EngineInfo

    def start(self, deliver: Deliver, lost: Lost) -> None: ...

    def send(self, *events: Event) -> None:
        """Raises EngineLostError when the engine is dead."""

    def compile(self, mask: str, grammar: Grammar) -> None:
        """Compile `grammar` off the loop; a MaskReady event for the request named `mask` follows."""

    def check(self) -> None:
        """Raises EngineLostError with the reason while no request can be served."""

    def stats(self) -> EngineStats: ...

    def close(self) -> None: ...
