from pathlib import Path

import pytest

from headwater.kernels import native
from headwater.llm import LLM


@pytest.fixture(scope="module")
def models(smollm2: Path):
    """attend spec -> LLM, made once."""
    if not native.available():
        pytest.skip("the numpy reference is too slow for this")
    made: dict[tuple, LLM] = {}

    def get(attend: str, **fields) -> LLM:
        key = (attend, *fields.items())
        if key not in made:
            made[key] = LLM(smollm2, attend=attend, context=1024, **({"kv_memory": "96M"} | fields))
        return made[key]

    return get
