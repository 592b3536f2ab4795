"""Kernel tests: every instruction set of this machine in turn; the choice is put back afterwards."""

from collections.abc import Iterator

import pytest
from kernel_samples import isas

from headwater.kernels import native


@pytest.fixture(params=["amx", "avx512", "avx2", "portable"])
def isa(request: pytest.FixtureRequest) -> Iterator[str]:
    if not native.available():
        pytest.skip("needs the native module (make native)")
    if request.param not in isas():
        pytest.skip(f"this processor cannot run {request.param}")
    before = native.library().isa()
    native.library().set_isa(request.param)
    yield request.param
    native.library().set_isa(before)
