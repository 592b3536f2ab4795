"""What a server is started with, apart from the model."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class ServeSettings:
    """api_keys: none = open. max_body: bytes. cors: allowed origins, none by default. max_waiting: requests in all before 429.

    served_names: names that clients may use for the model; the first is reported. limits: decision limits per dialect or `own`.
    allowed_hosts: names that a Host header may give, none = any.
    progress_deadline: seconds without a sign of life or a finished step after which the engine is replaced. drain: seconds that running requests
    get to end after SIGTERM. log_format: `text` or `json`. otlp_traces_endpoint: where spans go (needs headwater[otel]).
    """

    host: str = "127.0.0.1"
    port: int = 8000
    api_keys: tuple[str, ...] = ()
    max_body: int = 32 * 2**20
    max_waiting: int = 1024
    cors: tuple[str, ...] = ()
    served_names: tuple[str, ...] = ()
    allowed_hosts: tuple[str, ...] = ()
    own_decision_limits: bool = False
    temperatures: str | None = None
    progress_deadline: float = 10.0
    drain: float = 30.0
    log_format: str = "text"
    access_log: bool = True
    otlp_traces_endpoint: str | None = None
