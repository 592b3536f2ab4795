"""What every endpoint needs: the front, the settings, model checks, response headers."""

from __future__ import annotations

import logging
import secrets
from typing import Any

from starlette.requests import Request

from headwater.core.drafting import DraftCounts
from headwater.core.errors import CapacityError
from headwater.engine.decisions import load_temperatures
from headwater.engine.front import Front
from headwater.obs.meter import Meter
from headwater.obs.requests import Observers, Recorder, Sink
from headwater.serve.errors import NotFoundError
from headwater.serve.schema.common import Wire
from headwater.serve.settings import ServeSettings

log = logging.getLogger("headwater.serve")


class Server:
    """The state of one HTTP application."""

    def __init__(self, front: Front, settings: ServeSettings) -> None:
        self.front = front
        self.settings = settings
        self.draining = False
        self.temperatures = load_temperatures(settings.temperatures)
        self.meter = Meter(front.stats, self.names[0])
        self.recorder = Recorder()
        self.sinks: list[Sink] = []                                 # whoever is told about every finished request
        front.observer = Observers(self.meter, self.recorder)

    @property
    def names(self) -> tuple[str, ...]:
        return self.settings.served_names or (self.front.model_info.name,)

    def check_model(self, name: str | None) -> str:
        """The name to report. Raises NotFoundError for a model that is not served here."""
        if name is None or name in self.names:
            return name or self.names[0]
        raise NotFoundError(f"model: '{name[:200]}' is not served here; this server has {', '.join(self.names)}", field="model")

    def admit(self) -> None:
        """Raises CapacityError when too many requests wait, or the server is shutting down."""
        if self.draining:
            raise CapacityError("the server is shutting down", 5.0)
        self.front.check_health()
        waiting = self.front.waiting()
        if waiting >= self.settings.max_waiting:
            raise CapacityError(f"{waiting:,} requests are waiting, at most {self.settings.max_waiting:,} may; try again later", 2.0)

    def headers(self, request: Request, body: Wire) -> dict[str, str]:
        """Response headers: request id, and the fields that nobody read."""
        out = {"x-request-id": request.state.request_id}
        ignored = body.unknown_fields()
        if ignored:
            names = ",".join(n.encode("ascii", "backslashreplace").decode() for n in ignored)[:1000]
            names = "".join(c if c.isprintable() else "?" for c in names)
            log.warning("%s: ignored unknown fields: %s", request.state.request_id, names)
            out["x-headwater-ignored-fields"] = names
        return out


def server_of(request: Request) -> Server:
    server: Server = request.app.state.server
    return server


def new_id(prefix: str) -> str:
    return f"{prefix}-{secrets.token_hex(12)}"


def usage_object(prompt: int, completion: int, cached: int, reasoning: int | None = None, drafts: DraftCounts | None = None) -> dict[str, Any]:
    """OpenAI's usage; `cached_tokens` counts prompt tokens whose state was found, not computed. With drafting on, guesses count as predictions and
    `x_speculation` says more."""
    out: dict[str, Any] = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": cached},
    }
    if reasoning is not None:
        out["completion_tokens_details"] = {"reasoning_tokens": reasoning}
    if drafts is not None:
        checked = {"accepted_prediction_tokens": drafts.accepted, "rejected_prediction_tokens": drafts.drafted - drafts.accepted}
        out["completion_tokens_details"] = out.get("completion_tokens_details", {}) | checked
        out["x_speculation"] = drafts.summary()
    return out
