"""Trace readers: the public files, hostile ones, and the hit rates of an unlimited cache."""

import json
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.cli.main import main
from headwater.core.errors import FormatError, UserInputError
from headwater.sim.cache import curve, replay
from headwater.sim.traces import load, poisson


@pytest.mark.parametrize(("name", "percent"), [("conversation", 36.6), ("synthetic", 64.0)])
def test_the_prefix_index_reproduces_the_unlimited_hit_rate(shared: Path, name: str, percent: float) -> None:
    result = replay(load(shared / "data/traces" / f"mooncake_{name}.jsonl"))
    assert round(100 * result.rate, 1) == percent


def test_the_unlimited_hit_rate_is_the_share_of_repeated_hash_ids(shared: Path) -> None:
    trace = load(shared / "data/traces/mooncake_synthetic.jsonl").part(500)
    ids = trace.blocks.flat
    assert replay(trace).hits == len(ids) - len(np.unique(ids))


def test_less_memory_finds_less_under_every_rule(shared: Path) -> None:
    trace = load(shared / "data/traces/mooncake_synthetic.jsonl").part(400)
    for rule, results in curve(trace, ["lru", "slru", "lfu", "demand"], [0.05, 0.3, 1.0]).items():
        rates = [r.rate for r in results]
        assert rates == sorted(rates), rule
        assert rates[-1] == replay(trace).rate, rule


@pytest.mark.parametrize(("name", "rows", "mean_prompt"), [("code", 8819, 2048), ("conv", 19366, 1155)])
def test_the_azure_files_are_read_whole(shared: Path, name: str, rows: int, mean_prompt: int) -> None:
    trace = load(shared / "data/traces" / f"azure_llm_2023_{name}.csv")
    assert (len(trace), round(float(trace.prompt.mean()))) == (rows, mean_prompt)
    assert (np.diff(trace.time) >= 0).all() and trace.time[0] == 0


def test_arrivals_in_three_second_ticks_are_spread_in_order(shared: Path) -> None:
    path = shared / "data/traces/mooncake_conversation.jsonl"
    spread, raw = load(path), load(path, spread=False)
    assert len(np.unique(spread.time)) > 0.99 * len(spread)
    assert len(np.unique(raw.time)) < 0.2 * len(raw)
    assert np.abs(spread.time - raw.time).max() < 3.01
    assert np.array_equal(spread.prompt, raw.prompt)


def test_equal_hash_ids_are_equal_tokens_and_others_are_not(shared: Path) -> None:
    trace = load(shared / "data/traces/mooncake_conversation.jsonl").part(2)
    a, b = trace.ids(0, 49152), trace.ids(1, 49152)
    assert np.array_equal(a[:512], b[:512])
    assert (a[512:1024] == b[512:1024]).mean() < 0.01
    assert [len(a), len(b)] == trace.prompt.tolist()


def test_scaling_keeps_order_and_shared_prefixes(shared: Path) -> None:
    trace = load(shared / "data/traces/mooncake_conversation.jsonl").part(50)
    small = trace.scaled(8, 2.0)
    assert small.hash_block == 64
    assert np.allclose(small.time, 2 * trace.time) and np.array_equal(small.prompt, np.maximum(trace.prompt // 8, 1))
    assert np.array_equal(small.ids(0, 999)[:64], small.ids(1, 999)[:64])


def entry(**changes) -> str:
    return json.dumps({"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [1, 2], **changes})


@pytest.mark.parametrize("line", [
    "{", "[]", "3", entry(hash_ids=[1]), entry(hash_ids="ab"), entry(input_length=-1), entry(input_length=1e300), entry(hash_ids=[2**70, 1]),
    entry(input_length=600.5), entry(output_length=True), entry(hash_ids=[1.5, 2]), entry(hash_ids=[2**31, 1]), entry(hash_ids=[True, 1]),
    entry(input_length=0, hash_ids=[]), entry(input_length=float("inf")), entry(timestamp="x"), entry(timestamp=float("nan")),
    entry(output_length=None), entry(hash_ids=[[1], [2]]), "{}", '{"a":' * 5000,
])
def test_a_malformed_line_is_one_error_that_names_it(tmp_path: Path, line: str) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(entry() + "\n" + line + "\n")
    with pytest.raises(UserInputError, match="line 2"):
        load(path)


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n", "TIMESTAMP,ContextTokens,GeneratedTokens\n", "TIMESTAMP,ContextTokens,GeneratedTokens\nx,1,2\n",
                                  "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03,1\n",
                                  f"TIMESTAMP,ContextTokens,GeneratedTokens\n{'x' * 200_000},1,1\n"])
def test_a_malformed_csv_is_one_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(UserInputError):
        load(path)


@pytest.mark.parametrize(("name", "body"), [("t.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03,600,5\n"), ("t.jsonl", entry())])
def test_a_byte_order_mark_is_no_part_of_the_trace(tmp_path: Path, name: str, body: str) -> None:
    path = tmp_path / name
    path.write_text("\ufeff" + body, encoding="utf-8")
    trace = load(path)
    assert (trace.prompt.tolist(), trace.output.tolist()) == ([600], [5])


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="the clock's zone cannot be set here")
def test_arrivals_do_not_move_where_clocks_are_changed_at_night(tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "t.csv"
    path.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n2024-03-31 01:30:00,1,1\n2024-03-31 03:30:00,1,1\n")
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    time.tzset()
    try:
        assert load(path).time.tolist() == [0.0, 7200.0]
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_window_without_requests_is_named(shared: Path) -> None:
    with pytest.raises(UserInputError, match="--start: mooncake_synthetic has no request from 1e"):
        load(shared / "data/traces/mooncake_synthetic.jsonl").part(5, start=1e9)


@given(st.integers(1, 40), st.integers(1, 2000), st.integers(1, 1500), st.integers(0, 1000))
@settings(max_examples=25)
def test_made_up_prompts_share_what_was_asked_for_and_nothing_else(requests: int, prompt: int, shared: int, seed: int) -> None:
    trace = poisson(requests, 1.0, prompt, 1, seed, shared)
    head = shared // trace.hash_block
    rows = [trace.blocks.row(i) for i in range(requests)]
    assert all(np.array_equal(r[:head], rows[0][:head]) for r in rows)
    own = np.concatenate([r[head:] for r in rows])
    assert len(np.unique(own)) == len(own)
    assert all(len(r) * trace.hash_block >= n for r, n in zip(rows, trace.prompt.tolist(), strict=True))


@given(st.binary(max_size=300), st.sampled_from([".csv", ".jsonl"]))
@settings(max_examples=150)
def test_any_bytes_are_a_trace_or_one_error(tmp_path_factory, body: bytes, suffix: str) -> None:
    path = tmp_path_factory.mktemp("t") / f"t{suffix}"
    path.write_bytes(body)
    try:
        assert len(load(path)) > 0
    except UserInputError as e:
        assert "\n" not in str(e)


def test_made_up_arrivals_have_the_rate_and_the_shared_prefix_asked_for() -> None:
    trace = poisson(4000, 5.0, 100, 20, seed=1, shared=64)
    assert 1 / np.diff(trace.time).mean() == pytest.approx(5.0, rel=0.1)
    assert np.array_equal(trace.ids(3, 999)[:64], trace.ids(77, 999)[:64])
    assert not np.array_equal(trace.ids(3, 999)[64:80], trace.ids(77, 999)[64:80])


@pytest.mark.parametrize(("arguments", "said"), [
    (["run", "--generate", "--limit", "10", "--stretch", "1e308"], "--stretch 1e+308"),
    (["run", "--generate", "--limit", "10", "--rate", "1e-308"], "--generate: at this rate"),
    (["run", "--generate", "--limit", "10", "--memory", "9" * 17], "smaller sizes would be right"),
    (["agents", "--sessions", "1", "--turns", "2", "--system", "9" * 20], "--system"),
    (["truth", "--out", "no/such/folder/x"], "--out no/such/folder/x: its folder does not exist"),
])
def test_a_size_or_time_beyond_all_bounds_is_one_line(arguments, said, monkeypatch, capsys) -> None:
    monkeypatch.setattr("sys.argv", ["headwater", "sim", *arguments])
    with pytest.raises(SystemExit) as e:
        main()
    assert e.value.code == 2
    assert said in capsys.readouterr().err.splitlines()[-1]


def test_an_arrival_after_the_end_of_time_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text('{"timestamp":1e308,"input_length":5,"output_length":5,"hash_ids":[1]}\n')
    with pytest.raises(FormatError, match=r"line 1: timestamp 1e.308 is not a number of milliseconds up to"):
        load(tmp_path / "t.jsonl")
