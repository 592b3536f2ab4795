"""headwater top: a terminal view of a running server."""

from __future__ import annotations

import typer


def top(
    url: str = typer.Argument("http://127.0.0.1:8000", help="Address of the server."),
    every: float = typer.Option(1.0, min=0.1, help="Seconds between two looks."),
    looks: int = typer.Option(0, min=0, help="Stop after so many; 0: until Ctrl-C."),
    api_key: str = typer.Option("", "--api-key", envvar="HEADWATER_API_KEY"),
) -> None:
    """Running and waiting requests, KV use, hit rate, tokens per second."""
    import time

    import httpx
    from rich.console import Console
    from rich.live import Live

    from headwater.core.errors import UserInputError

    headers = {"authorization": f"Bearer {api_key}"} if api_key else {}
    before: dict[str, float] = {}
    then = 0.0
    with httpx.Client(headers=headers, timeout=10) as client, Live(console=Console(), refresh_per_second=4) as live:
        try:
            n = 0
            while True:
                try:
                    r = client.get(f"{url.rstrip('/')}/metrics")
                    r.raise_for_status()
                    now, values = time.perf_counter(), parse(r.text)
                    live.update(table(url, values, before, now - then))
                    before, then = values, now
                except httpx.HTTPError as e:
                    if not before:
                        raise UserInputError(f"{url}: no metrics there ({e or type(e).__name__})", field="url") from None
                    live.update(f"{url}: {e or type(e).__name__}")  # it was there before and may come back
                n += 1
                if looks and n >= looks:
                    return
                time.sleep(every)
        except KeyboardInterrupt:
            return


def parse(text: str) -> dict[str, float]:
    """Metric name (labels dropped, `_total` too) -> sum over its series."""
    out: dict[str, float] = {}
    for line in text.splitlines():
        if line.startswith("headwater:"):
            name, _, value = line.rpartition(" ")
            name = name.partition("{")[0].removeprefix("headwater:").removesuffix("_total")
            out[name] = out.get(name, 0.0) + float(value)
    return out


def table(url: str, now: dict[str, float], before: dict[str, float], seconds: float):
    """One screen: values and rates since the last look."""
    from rich.table import Table

    def rate(name: str) -> str:
        return f"{(now.get(name, 0) - before[name]) / seconds:,.1f}" if name in before and seconds > 0 else "–"

    def mean(name: str) -> str:
        """Over what happened since the last look; over everything where nothing did."""
        count, total = (now.get(f"{name}_{part}", 0) for part in ("count", "sum"))
        recent = count - before.get(f"{name}_count", 0)
        if before and recent > 0:
            return f"{1000 * (total - before.get(f'{name}_sum', 0)) / recent:,.1f} ms"
        return f"{1000 * total / count:,.1f} ms" if count else "–"

    asked = now.get("prefix_cache_queries", 0)
    view = Table("what", "now", title=url, min_width=44)
    view.add_row("running / waiting", f"{now.get('num_requests_running', 0):.0f} / {now.get('num_requests_waiting', 0):.0f}")
    view.add_row("KV in use", f"{100 * now.get('kv_cache_usage_perc', 0):.1f} %")
    view.add_row("prompt tokens/s", rate("prompt_tokens"))
    view.add_row("drawn tokens/s", rate("generation_tokens"))
    view.add_row("prefix hit rate", f"{100 * now.get('prefix_cache_hits', 0) / asked:.1f} %" if asked else "–")
    view.add_row("time to first token, mean", mean("time_to_first_token_seconds"))
    view.add_row("inter-token latency, mean", mean("inter_token_latency_seconds"))
    view.add_row("queue / prefill / decode, mean", " / ".join(mean(f"request_{part}_time_seconds") for part in ("queue", "prefill", "decode")))
    if (passes := now.get("spec_decode_passes", 0)) > 0:
        view.add_row("tokens per target pass", f"{now.get('spec_decode_tokens', 0) / passes:.2f}")
    view.add_row("age of the last step", f"{now.get('last_step_age_seconds', 0):.1f} s")
    view.add_row("finished / preempted", f"{now.get('request_success', 0):.0f} / {now.get('num_preemptions', 0):.0f}")
    return view
