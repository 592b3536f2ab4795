"""How much of the seeds is typed: measured against numbers read off by hand, and printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.ledger.parse.brief import parse_brief
from headwater.ledger.parse.quantity import find_quantities
from headwater.ledger.recall import Recall, measure

# (words on the same line, low, high, unit, metric), read off the seeds by a person; "" where the text leaves the metric to the reader
GOLD = {
    "000_4a29f0f3cf7dd673.txt": [
        ("TP4PP2", 20, 20, "%", "throughput"), ("吞吐量提升最高", 2.5, 2.5, "×", "throughput"), ("模型加载速度", 4.7, 6.3, "×", "load_time"),
        ("TTFT P95", 35, 37, "%", "ttft"), ("缓存复用", 215, 215, "%", "cache_reuse"), ("好吞吐提升", 2.4, 2.4, "×", "goodput"),
        ("SLO 违规率", 40, 40, "%", "slo_violation"), ("GPU、28%", 36.3, 36.3, "%", "gpu_count"), ("GPU、28%", 28, 28, "%", "energy"),
        ("固定成本预算", 44, 44, "%", "throughput"), ("理论最优", 8, 8, "%", "optimality_gap"), ("成本效率提升", 15, 25, "%", "cost_efficiency"),
        ("节省约 30%", 30, 30, "%", "compute_saved"), ("关键数字", 24.1, 24.1, "%", ""), ("关键数字", 18.5, 18.5, "%", ""),
        ("关键数字", 2.9, 14.6, "%", ""), ("关键数字", 7.1, 9.1, "%", ""), ("近 10 亿月活", 1e9, 1e9, "月活", "users"),
    ],
    "001_c7e6d8574e79db7a.txt": [
        ("相对 A100 最高", 2.23, 2.23, "×", "throughput"), ("TPU v6e 最高", 4.70, 4.70, "×", "throughput"), ("能效相对", 4.04, 4.04, "×", "energy"),
        ("总参", 68.5e9, 68.5e9, "B", "parameters"), ("骨干参数", 552e9, 552e9, "B", "parameters"), ("最长 1M", 1e6, 1e6, "token", "context_length"),
        ("被引 158", 158, 158, "", "citations"), ("51B n-gram", 51e9, 51e9, "B", ""),
    ],
}


@pytest.mark.parametrize("name", GOLD)
def test_key_numbers_of_the_seeds_are_typed(shared: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines = parse_brief((shared / "seeds" / name).read_text("utf-8")).lines
    values = metrics = named = 0
    for words, low, high, unit, metric in GOLD[name]:
        found = [q for line in lines if words in line for q in find_quantities(line)]
        hits = [q for q in found if (q.low, q.high, q.unit) == (pytest.approx(low), pytest.approx(high), unit)]
        values += bool(hits)
        named += bool(metric)
        metrics += bool(metric) and any(q.metric == metric for q in hits)
    with capsys.disabled():
        print(f"\n{name}: {Recall('key numbers', values, len(GOLD[name]))}; {Recall('their metrics', metrics, named)}")
    assert values == len(GOLD[name])
    assert metrics >= 0.8 * named


@pytest.mark.parametrize("name", GOLD)
def test_structure_is_recalled_completely_and_the_rest_is_printed(shared: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = {r.name: r for r in measure(shared / "seeds" / name)}
    with capsys.disabled():
        print("\n" + "\n".join(f"  {r}" for r in found.values()))
    whole = ("increments", "adjacent items", "contradictions", "citable ids", "carried over", "rejections", "source verdicts")
    for what in (*whole, "arXiv mentions", "links", "section marks", "facts kept by the round trip"):
        assert found[what].found == found[what].wanted, what
