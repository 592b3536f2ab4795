"""OpenTelemetry spans of real requests, caught in memory: names, order in time, parents, and no content."""

import asyncio

import httpx
import pytest

pytest.importorskip("opentelemetry.sdk", reason="needs headwater[otel]")

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from headwater.engine.build import EngineSpec, build_front
from headwater.obs.traces import Traces
from headwater.serve.app import create_app
from headwater.serve.settings import ServeSettings

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


def spans_of(path: str, body: dict, headers: dict[str, str] | None = None) -> dict[str, ReadableSpan]:
    """By name, of one request to an echo server."""
    memory = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(memory))

    async def go() -> None:
        front = build_front(EngineSpec("echo"))
        await front.start()
        app = create_app(front, ServeSettings())
        app.state.server.sinks.append(Traces(provider, "echo"))
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
            await client.post(path, json=body, headers=headers)
        await front.close()

    asyncio.run(go())
    return {s.name: s for s in memory.get_finished_spans()}


def test_a_chat_request_is_a_server_span_with_queue_prefill_and_decode_in_this_order() -> None:
    spans = spans_of("/v1/chat/completions", {"messages": [{"role": "user", "content": "secret words"}], "max_tokens": 6, "ignore_eos": True})
    root = spans["chat echo"]
    assert root.kind == SpanKind.SERVER
    assert {"queue", "prefill", "decode"} == set(spans) - {"chat echo"}
    times = [root.start_time, spans["queue"].start_time, spans["queue"].end_time, spans["prefill"].start_time, spans["prefill"].end_time,
             spans["decode"].start_time, spans["decode"].end_time, root.end_time]
    assert times == sorted(times)
    assert all(spans[n].parent.span_id == root.context.span_id for n in ("queue", "prefill", "decode"))


def test_attributes_follow_the_conventions_and_hold_no_content() -> None:
    spans = spans_of("/v1/chat/completions", {"messages": [{"role": "user", "content": "secret words"}], "max_tokens": 6, "ignore_eos": True})
    a = spans["chat echo"].attributes
    assert a["gen_ai.operation.name"] == "chat" and a["gen_ai.request.model"] == "echo" and a["http.route"] == "/v1/chat/completions"
    assert a["gen_ai.usage.output_tokens"] == 6 and a["gen_ai.usage.input_tokens"] > 10
    assert a["gen_ai.response.finish_reasons"] == ("length",)
    assert a["gen_ai.latency.time_to_first_token"] <= a["gen_ai.latency.e2e"]
    assert not any("secret" in str(v) for s in spans.values() for v in s.attributes.values())


def test_a_callers_trace_goes_on_in_ours() -> None:
    spans = spans_of("/v1/completions", {"prompt": "abc", "max_tokens": 2}, {"traceparent": f"00-{TRACE}-{PARENT}-01"})
    root = spans["text_completion echo"]
    assert f"{root.context.trace_id:032x}" == TRACE and f"{root.parent.span_id:016x}" == PARENT
    assert root.status.status_code == StatusCode.UNSET


def test_a_request_that_reaches_no_engine_leaves_no_trace() -> None:
    assert spans_of("/v1/completions", {"prompt": [], "max_tokens": 2}) == {}
