"""OpenTelemetry traces of finished requests: one server span each, with its time in the queue, in prefill and in decode below it.

Attribute names are those of OpenTelemetry's semantic conventions for generative AI, and vLLM's `gen_ai.latency.*` for what these do not name.
Needs headwater[otel].
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from headwater import __version__
from headwater.core.errors import UserInputError
from headwater.obs.requests import Call, RequestRecord

MOST_CALLS = 16                                                     # spans are drawn for so many engine requests of one HTTP request
OPERATIONS = {
    "/v1/chat/completions": "chat", "/v1/messages": "chat", "/api/chat": "chat", "/v1/responses": "chat",
    "/v1/completions": "text_completion", "/api/generate": "text_completion", "/v1/embeddings": "embeddings",
}


class Traces:
    """A sink of finished requests. provider: an OpenTelemetry TracerProvider; clock: the recorder's."""

    def __init__(self, provider: Any, model: str, clock: Callable[[], float] = time.perf_counter) -> None:
        try:
            from opentelemetry import trace
            from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
        except ImportError:
            raise UserInputError("traces: OpenTelemetry is not installed (pip install headwater[otel])", "otlp_traces_endpoint") from None
        self._trace = trace
        self._parent = TraceContextTextMapPropagator()
        self._tracer = provider.get_tracer("headwater", __version__)
        self._model = model
        self._epoch = time.time_ns() - int(clock() * 1e9)           # spans want wall time; durations come from the recorder's clock

    @staticmethod
    def exporting(endpoint: str, model: str) -> Traces:
        """Sends spans in batches, by OTLP over HTTP, to `endpoint` (`http://localhost:4318/v1/traces`)."""
        try:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
        except ImportError:
            raise UserInputError(
                "--otlp-traces-endpoint: OpenTelemetry is not installed (pip install headwater[otel])", "otlp_traces_endpoint",
            ) from None
        provider = TracerProvider(resource=Resource.create({"service.name": "headwater", "service.version": __version__}))
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint)))
        return Traces(provider, model)

    def __call__(self, record: RequestRecord, headers: Mapping[str, str]) -> None:
        """Requests that reached no engine leave no trace; `traceparent` in the headers makes the span a child of the caller's."""
        if not record.calls:
            return
        operation = OPERATIONS.get(record.route, "evaluate")
        span = self._tracer.start_span(
            f"{operation} {self._model}", context=self._parent.extract(headers), kind=self._trace.SpanKind.SERVER,
            start_time=self._ns(record.began), attributes={k: v for k, v in self._attributes(record, operation).items() if v is not None},
        )
        if record.status >= 500 or record.finishes().get("error"):
            span.set_status(self._trace.StatusCode.ERROR)
        inside = self._trace.set_span_in_context(span)
        for call in record.calls[:MOST_CALLS]:
            self._phases(call, inside)
        span.end(self._ns(record.began + record.seconds))

    def _attributes(self, record: RequestRecord, operation: str) -> dict[str, Any]:
        calls = record.calls
        drawn = [c for c in calls if c.tokens]
        started = [c for c in calls if c.queued >= 0]
        return {
            "gen_ai.operation.name": operation, "gen_ai.provider.name": "headwater", "gen_ai.request.model": self._model,
            "gen_ai.response.model": self._model, "gen_ai.request.id": record.request_id,
            "gen_ai.usage.input_tokens": sum(c.prompt for c in calls), "gen_ai.usage.output_tokens": sum(c.tokens for c in calls),
            "gen_ai.usage.cache_read.input_tokens": sum(c.cached for c in calls), "gen_ai.response.finish_reasons": sorted(record.finishes()),
            "gen_ai.latency.e2e": record.seconds,
            "gen_ai.latency.time_in_queue": max(c.queued for c in started) if started else None,
            "gen_ai.latency.time_to_first_token": min(c.first for c in drawn) - record.began if drawn else None,
            "http.request.method": record.method, "http.route": record.route, "http.response.status_code": record.status,
            "headwater.engine_requests": len(calls),
        }

    def _phases(self, call: Call, inside: Any) -> None:
        if call.queued < 0:
            return
        admitted = call.arrived + call.queued
        self._span("queue", call.arrived, admitted, inside, {})
        if call.tokens:
            prompt = {"gen_ai.usage.input_tokens": call.prompt, "gen_ai.usage.cache_read.input_tokens": call.cached}
            first = max(call.first, admitted)
            self._span("prefill", admitted, first, inside, prompt | {"gen_ai.latency.time_in_model_prefill": first - admitted})
            decode = {"gen_ai.usage.output_tokens": call.tokens, "gen_ai.latency.time_in_model_decode": call.last - call.first}
            self._span("decode", first, max(call.last, first), inside, decode)

    def _span(self, name: str, start: float, end: float, inside: Any, attributes: dict[str, Any]) -> None:
        self._tracer.start_span(name, context=inside, start_time=self._ns(start), attributes=attributes).end(self._ns(end))

    def _ns(self, at: float) -> int:
        return self._epoch + int(at * 1e9)
