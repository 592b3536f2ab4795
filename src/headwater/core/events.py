"""What can happen to a scheduler. Everything it learns comes through these, with a time."""

from __future__ import annotations

from dataclasses import dataclass

from headwater.core.request import Request


@dataclass(frozen=True, slots=True)
class Arrive:
    request: Request


@dataclass(frozen=True, slots=True)
class Cancel:
    """The client left, or a stop string was found; takes effect at the next step border. `keep`: finish as a fork point."""

    request_id: str
    keep: bool = True


@dataclass(frozen=True, slots=True)
class Release:
    """A held request (`Request.hold`) is no longer needed as a fork point."""

    request_id: str


@dataclass(frozen=True, slots=True)
class MaskReady:
    """The grammar of a request is compiled (or `error` says why not): the row may run."""

    request_id: str
    error: str | None = None


@dataclass(frozen=True, slots=True)
class ExecutorLost:
    """The worker died: every row's state is gone; rows are recomputed by a new one or fail."""

    reason: str


Event = Arrive | Cancel | Release | MaskReady | ExecutorLost
