"""Metrics of drafting: read from the engine's counters at a scrape. Names that vLLM has keep its names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from headwater.obs.names import DRAFT_LENGTH_BUCKETS, PREFIX


def drafting(s: Any, model: str) -> Iterator[Any]:
    """s: EngineStats. Nothing where drafting is off."""
    counts, seconds = s.drafts, s.draft_seconds
    if counts is None:
        return

    def counter(name: str, text: str, values: Mapping[tuple[str, ...], float], *labels: str) -> CounterMetricFamily:
        metric = CounterMetricFamily(PREFIX + name, text, labels=["model_name", *labels])
        for key, value in values.items():
            metric.add_metric([model, *key], value)
        return metric

    yield counter("spec_decode_num_drafts", "Target passes that checked at least one guess.", {(): sum(k for n, k in counts.lengths.items() if n)})
    yield counter("spec_decode_passes", "Target passes over decoding rows.", {(): counts.passes})
    yield counter("spec_decode_tokens", "Tokens that these passes drew, accepted guesses included.", {(): counts.tokens})
    drafted: dict[tuple[str, ...], float] = {(source,): float(d) for source, (d, _) in counts.by_source.items()}
    accepted: dict[tuple[str, ...], float] = {(source,): float(a) for source, (_, a) in counts.by_source.items()}
    yield counter("spec_decode_num_draft_tokens", "Guesses that were checked.", drafted, "source")
    yield counter("spec_decode_num_accepted_tokens", "Guesses that held.", accepted, "source")
    reached: dict[tuple[str, ...], float] = {(str(i),): float(r) for i, (r, _) in enumerate(counts.by_position)}
    held: dict[tuple[str, ...], float] = {(str(i),): float(a) for i, (_, a) in enumerate(counts.by_position)}
    yield counter("spec_decode_num_reached_tokens_per_pos", "Guesses at this place of a draft before which all held.", reached, "position")
    yield counter("spec_decode_num_accepted_tokens_per_pos", "Guesses that held, by place in the draft.", held, "position")
    spent: dict[tuple[str, ...], float] = {(k,): getattr(seconds, k) for k in ("verify", "plain", "rollback", "hidden")}
    text = ("Seconds of steps that checked guesses (verify), of the same steps without, as priced (plain), of going back behind refused guesses "
            "(rollback), and of self-drafts beside their parents, as priced (hidden).")
    yield counter("spec_decode_seconds", text, spent, "kind")
    cost = seconds.verify / seconds.plain if seconds.plain else 0.0
    for name, help_text, value in (
        ("spec_decode_tokens_per_pass", "Tokens per target pass so far (tau); 1 without guesses.", counts.tau),
        ("spec_decode_verify_cost", "Verify over plain seconds so far (v); 0 before the first guess.", cost),
    ):
        gauge = GaugeMetricFamily(PREFIX + name, help_text, labels=["model_name"])
        gauge.add_metric([model], value)
        yield gauge
    yield _lengths(counts, model)


def _lengths(counts: Any, model: str) -> HistogramMetricFamily:
    histogram = HistogramMetricFamily(PREFIX + "spec_decode_draft_length", "Guesses per target pass.", labels=["model_name"])
    buckets = [(str(float(b)), float(sum(k for n, k in counts.lengths.items() if n <= b))) for b in DRAFT_LENGTH_BUCKETS]
    total = float(sum(counts.lengths.values()))
    histogram.add_metric([model], [*buckets, ("+Inf", total)], sum_value=float(sum(n * k for n, k in counts.lengths.items())))
    return histogram
