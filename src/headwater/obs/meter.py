"""The meter of one server: watches streams, reads the engine's counters when it is scraped."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from headwater.obs.names import COUNTERS, GAUGES, HISTOGRAMS, PREFIX
from headwater.obs.speculation import drafting


@dataclass(slots=True)
class Watch:
    """Times of one request. queued: seconds until it was admitted; first, last: per choice index."""

    arrival: float
    queued: float
    first: dict[int, float]
    last: dict[int, float]
    counts: dict[int, int]


class Meter:
    """stats: `() -> EngineStats`. Methods are called by the front on its event loop."""

    def __init__(self, stats: Callable[[], Any], model: str, clock: Callable[[], float] = time.perf_counter) -> None:
        self.registry = CollectorRegistry()
        self._stats, self._model, self._clock = stats, model, clock
        self._watches: dict[str, Watch] = {}
        self._histograms = {
            name: Histogram(PREFIX + name, text, ["model_name"], buckets=buckets, registry=self.registry).labels(model)
            for name, (text, buckets) in HISTOGRAMS.items()
        }
        self._success = Counter(PREFIX + "request_success", "Finished requests by reason.", ["model_name", "finished_reason"], registry=self.registry)
        self.registry.register(self)

    def text(self) -> bytes:
        """Prometheus text format."""
        return generate_latest(self.registry)

    def collect(self) -> Iterator[Any]:
        """Called by the registry at a scrape."""
        s = self._stats()
        values = {
            "num_requests_running": s.running, "num_requests_waiting": s.waiting, "kv_cache_usage_perc": s.kv_usage,
            "last_step_age_seconds": s.last_step_age, "prompt_tokens": s.prompt_tokens, "generation_tokens": s.generated_tokens,
            "prefix_cache_queries": s.prompt_tokens, "prefix_cache_hits": s.cached_tokens, "num_preemptions": s.preemptions, "engine_steps": s.steps,
        }
        for family, names in ((GaugeMetricFamily, GAUGES), (CounterMetricFamily, COUNTERS)):
            for name, text in names.items():
                metric = family(PREFIX + name, text, labels=["model_name"])
                metric.add_metric([self._model], values[name])
                yield metric
        yield from drafting(s, self._model)

    def arrived(self, request_id: str, prompt_tokens: int) -> None:
        self._watches[request_id] = Watch(self._clock(), 0.0, {}, {}, {})
        self._histograms["request_prompt_tokens"].observe(prompt_tokens)

    def admitted(self, request_id: str, queued: float, cached_tokens: int) -> None:
        w = self._watches.get(request_id)
        if w is not None:
            w.queued = queued
            self._histograms["request_queue_time_seconds"].observe(queued)

    def delta(self, request_id: str, choice: int, tokens: int, finish: str | None) -> None:
        """One delta of one choice went out."""
        w, now = self._watches.get(request_id), self._clock()
        if w is None:
            return
        if tokens:
            if choice in w.last:
                self._histograms["inter_token_latency_seconds"].observe((now - w.last[choice]) / tokens)
            else:
                w.first[choice] = now
                self._histograms["time_to_first_token_seconds"].observe(now - w.arrival)
                self._histograms["request_prefill_time_seconds"].observe(max(now - w.arrival - w.queued, 0.0))
            w.last[choice] = now
            w.counts[choice] = w.counts.get(choice, 0) + tokens
        if finish:
            self._success.labels(self._model, finish).inc()
            self._histograms["e2e_request_latency_seconds"].observe(now - w.arrival)
            n = w.counts.get(choice, 0)
            self._histograms["request_generation_tokens"].observe(n)
            if n:
                self._histograms["request_decode_time_seconds"].observe(w.last[choice] - w.first[choice])
            if n > 1:
                self._histograms["request_time_per_output_token_seconds"].observe((w.last[choice] - w.first[choice]) / (n - 1))

    def ended(self, request_id: str, error: str | None = None) -> None:
        """All choices are done, the client left, or the request failed (`error`, `abort`)."""
        if self._watches.pop(request_id, None) is not None and error:
            self._success.labels(self._model, error).inc()
