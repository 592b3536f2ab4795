"""The code of docs/python.md runs as it stands there."""

import re
from pathlib import Path

import pytest

from headwater.kernels import native

PAGE = Path(__file__).parent.parent.parent / "docs" / "python.md"


@pytest.mark.slow
def test_every_block_of_the_python_page_runs(smollm2: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("llguidance")
    if not native.available():
        pytest.skip("the numpy reference is too slow for this")
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert len(blocks) >= 6
    names: dict[str, object] = {"__name__": "page"}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    assert "Paris" in capsys.readouterr().out
