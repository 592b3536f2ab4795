"""KV bytes per token of published models against known figures, and the ratios that a report quotes."""

import pytest

from headwater.core.kvfamilies import FAMILIES, Family
from headwater.core.kvspec import CacheGroup

BY_NAME = {f.name: f for f in FAMILIES}


@pytest.mark.parametrize("family", [f for f in FAMILIES if f.known is not None], ids=lambda f: f.name)
def test_computed_bytes_are_the_known_ones(family: Family) -> None:
    assert family.spec.bytes_per_token == family.known


def test_the_ratios_that_the_v41_report_quotes_follow() -> None:
    v41 = BY_NAME["DeepSeek-V4.1-Flash"].spec.bytes_per_token
    assert BY_NAME["DeepSeek-67B (V1)"].spec.bytes_per_token / v41 == pytest.approx(437, abs=0.5)
    assert BY_NAME["DeepSeek-V4-Flash"].spec.bytes_per_token / v41 == pytest.approx(4, rel=0.02)
    assert BY_NAME["DeepSeek-V4-Flash"].spec.bytes_per_token / BY_NAME["DeepSeek-V3.2"].spec.bytes_per_token == pytest.approx(0.07, abs=0.005)


def test_a_stride_divides_what_a_position_costs() -> None:
    assert CacheGroup("full", 4, 1, 64, vectors=1, stride=2).bytes_per_token * 2 == CacheGroup("full", 4, 1, 64, vectors=1).bytes_per_token
