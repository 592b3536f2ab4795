"""`headwater bench serve` against a real server: each kind of load arrives as it should, and goodput counts what met the objectives."""

import asyncio
import itertools
import json

import httpx
import pytest
from typer.testing import CliRunner

from headwater.bench.load import Served, arrivals, from_trace, run, summary
from headwater.cli.main import app
from headwater.core.errors import UserInputError


def figures(*args: str, tmp_path) -> dict[str, float]:
    out = tmp_path / "out.json"
    result = CliRunner().invoke(app, ["bench", "serve", *args, "--json", str(out)])
    assert result.exit_code == 0, result.output
    return {row["task"]: row["median"] for row in json.loads(out.read_text())["rows"]}


def prompt_tokens(echo) -> float:
    """Counted by the server since it started: (admitted, found in the prefix index)."""
    lines = httpx.get(f"{echo.url}/metrics").text.splitlines()
    value = {line.split("{")[0]: float(line.rpartition(" ")[2]) for line in lines if line.startswith("headwater:")}
    return value["headwater:prompt_tokens_total"], value["headwater:prefix_cache_hits_total"]


@pytest.mark.parametrize("kind", ["poisson", "constant", "closed"])
def test_every_request_is_answered_with_all_its_tokens(echo, kind, tmp_path) -> None:
    served = asyncio.run(run(echo.url, arrivals(kind, 200.0, 12, 30, 5, 0), 4 if kind == "closed" else 0, 1))
    assert [s.error for s in served] == [None] * 12 and {s.tokens for s in served} == {5}
    assert all(0 < s.ttft <= s.total and len(s.gaps) == 4 for s in served)


def test_poisson_gaps_have_the_rate_and_the_spread_of_an_exponential() -> None:
    at = [a.at for a in arrivals("poisson", 4.0, 4001, 1, 1, 7)]
    gaps = [b - a for a, b in itertools.pairwise(at)]
    mean = sum(gaps) / len(gaps)
    spread = (sum((g - mean) ** 2 for g in gaps) / len(gaps)) ** 0.5
    assert abs(mean - 0.25) < 0.02 and abs(spread / mean - 1) < 0.1


def test_constant_arrivals_are_evenly_spaced_and_closed_ones_come_at_once() -> None:
    assert [a.at for a in arrivals("constant", 2.0, 3, 1, 1, 0)] == [0.0, 0.5, 1.0]
    assert {a.at for a in arrivals("closed", 2.0, 3, 1, 1, 0)} == {0.0}


def test_an_azure_trace_is_replayed_at_its_times_and_lengths(tmp_path) -> None:
    file = tmp_path / "trace.csv"
    file.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,48,10\n2023-11-16 18:17:05.9799600,9000,8\n")
    first, second = from_trace(file, 10, speed=4.0, longest=100)
    assert (first.at, first.prompt, first.output) == (0.0, 48, 10)
    assert (round(second.at, 6), second.prompt, second.output) == (0.5, 99, 1)


def test_a_mooncake_trace_brings_its_shared_prefixes_along(echo, tmp_path) -> None:
    file = tmp_path / "trace.jsonl"
    rows = [{"timestamp": 400 * i, "input_length": 600, "output_length": 3, "hash_ids": [77, 100 + i]} for i in range(3)]
    file.write_text("".join(json.dumps(r) + "\n" for r in rows))
    before = prompt_tokens(echo)
    served = asyncio.run(run(echo.url, from_trace(file, 10, speed=1.0, longest=1000), 1, 0))
    after = prompt_tokens(echo)
    assert [s.error for s in served] == [None] * 3
    assert after[0] - before[0] == 1800 and after[1] - before[1] >= 1024        # 512 shared tokens, found by the second and the third


def test_goodput_counts_requests_that_met_both_objectives() -> None:
    fast, late, slow = Served(0.1, 1.0, 3, [0.1, 0.1]), Served(2.0, 3.0, 3, [0.1, 0.1]), Served(0.1, 9.0, 3, [4.0, 4.0])
    failed = Served(error="503")
    s = summary([fast, late, slow, failed], 2.0, ttft_limit=1.0, tpot_limit=1.0)
    assert (s["requests"], s["failed"], s["requests/s"], s["goodput/s"]) == (4, 1, 1.5, 0.5)
    assert summary([fast, late, slow], 2.0, 0.0, 0.0)["goodput/s"] == 1.5


def test_the_command_prints_and_saves_its_figures(echo, tmp_path) -> None:
    got = figures(echo.url, "--kind", "closed", "--count", "6", "--prompt", "20", "--output", "4", "--ttft", "600", tmp_path=tmp_path)
    assert got["requests"] == 6 and got["failed"] == 0 and got["goodput/s"] == got["requests/s"] > 0
    assert got["ttft p50"] <= got["ttft p99"]


def test_where_no_server_is_the_address_is_named() -> None:
    with pytest.raises(UserInputError, match=r"127\.0\.0\.1:9: no server"):
        asyncio.run(run("http://127.0.0.1:9", arrivals("closed", 1, 1, 1, 1, 0), 1, 0))
