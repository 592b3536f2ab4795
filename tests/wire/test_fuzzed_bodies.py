"""No body makes the server fail: every endpoint in this process on the echo model, bodies that are almost right (100,000 of them: tests/judges)."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater.engine.build import EngineSpec, build_front
from headwater.serve.app import create_app
from headwater.serve.settings import ServeSettings
from tests.wire.bodies import BODIES, bodies
from tests.wire.fuzzed import complaint, encode, post


@pytest.fixture(scope="module")
def inside() -> Iterator[Any]:
    """(event loop, application) with a running engine."""
    loop = asyncio.new_event_loop()
    front = build_front(EngineSpec(model="echo"))
    loop.run_until_complete(front.start())
    yield loop, create_app(front, ServeSettings())
    loop.run_until_complete(front.close())
    loop.close()


@pytest.mark.parametrize("path", list(BODIES))
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(st.data())
def test_no_body_makes_an_endpoint_fail(inside, path, data) -> None:
    loop, app = inside
    body = data.draw(bodies(path))
    assert complaint(path, *loop.run_until_complete(post(app, path, encode(body)))) is None
    assert not app.state.server.front._by_id
