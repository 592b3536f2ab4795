"""`headwater top`: the figures of a running server, and what is said where there is none."""

import io

import httpx
from rich.console import Console
from typer.testing import CliRunner

from headwater.cli.main import app
from headwater.cli.top import parse, table


def shown(now: dict[str, float], before: dict[str, float], seconds: float) -> dict[str, str]:
    """The view's rows as (what, value)."""
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(table("url", now, before, seconds))
    rows = [line.strip("│┃ ").split("│") for line in console.export_text().splitlines() if "│" in line]
    return {what.strip(): value.strip() for what, value in rows}


def test_it_looks_at_a_server_and_stops_after_so_many_looks(echo) -> None:
    httpx.post(f"{echo.v1}/completions", json={"prompt": "abc", "max_tokens": 3, "ignore_eos": True}, timeout=60)
    result = CliRunner().invoke(app, ["top", echo.url, "--looks", "2", "--every", "0.1"])
    assert result.exit_code == 0
    now = parse(httpx.get(f"{echo.url}/metrics").text)
    assert now["generation_tokens"] >= 3 and now["request_success"] >= 1


def test_rates_and_means_are_of_the_time_since_the_last_look() -> None:
    ttft = "time_to_first_token_seconds"
    before = {"generation_tokens": 100.0, f"{ttft}_count": 10.0, f"{ttft}_sum": 50.0}
    now = {"generation_tokens": 160.0, f"{ttft}_count": 12.0, f"{ttft}_sum": 50.5, "kv_cache_usage_perc": 0.25}
    rows = shown(now, before, 2.0)
    assert rows["drawn tokens/s"] == "30.0" and rows["time to first token, mean"] == "250.0 ms" and rows["KV in use"] == "25.0 %"


def test_without_an_earlier_look_there_are_no_rates() -> None:
    assert shown({"generation_tokens": 160.0}, {}, 0.0)["drawn tokens/s"] == "–"


def test_series_of_one_metric_are_summed_and_its_labels_dropped() -> None:
    text = '# HELP x\nheadwater:request_success_total{finished_reason="stop"} 2.0\nheadwater:request_success_total{finished_reason="length"} 3.0\n'
    assert parse(text) == {"request_success": 5.0}


def test_where_no_server_is_one_line_says_so() -> None:
    result = CliRunner().invoke(app, ["top", "http://127.0.0.1:9", "--looks", "1"])
    assert "no metrics there" in str(result.exception)
