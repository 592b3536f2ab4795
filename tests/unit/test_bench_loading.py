"""bench load: what is read, and what the report says."""

import os
from pathlib import Path

import pytest

from headwater.bench import loading


def test_a_plain_read_reads_every_byte_of_every_part(tmp_path: Path) -> None:
    sizes = (3 * loading.PIECE + 17, 5)
    paths = []
    for i, size in enumerate(sizes):
        paths.append(tmp_path / f"part{i}")
        paths[-1].write_bytes(b"x" * size)
    assert loading.plain_read(paths) == sum(sizes)


@pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="this system has no posix_fadvise")
def test_forgetting_changes_no_byte(tmp_path: Path) -> None:
    path = tmp_path / "weights"
    path.write_bytes(bytes(range(256)) * 100)
    loading.forget([path])
    assert path.read_bytes() == bytes(range(256)) * 100


def test_load_and_read_are_measured_warm_and_cold() -> None:
    report = loading.bench("smollm2-135m-instruct", rounds=1)
    assert [(r["task"].split()[-1], r["runner"]) for r in report.rows] == [
        ("warm", "plain read"), ("warm", "load"), ("cold", "plain read"), ("cold", "load")]
    assert all(r["unit"] == "MB/s" and min(r["values"]) > 0 for r in report.rows)
