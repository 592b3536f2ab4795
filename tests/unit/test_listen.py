"""One server an address: the second is told so, whether the first listens already or began to while the second loaded."""

import asyncio

import pytest

from headwater.core.errors import UserInputError
from headwater.engine.build import EngineSpec
from headwater.serve.run import _serve, listen
from headwater.serve.settings import ServeSettings


def test_an_address_in_use_is_named() -> None:
    with listen("127.0.0.1", 0) as first:
        first.listen()
        with pytest.raises(UserInputError, match="is another server running there"):
            listen("127.0.0.1", first.getsockname()[1])


def test_a_server_that_was_ready_first_is_named_too() -> None:
    with listen("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        with listen("127.0.0.1", port) as second:                   # neither listens yet
            first.listen()
            with pytest.raises(UserInputError, match="is another server running there"):
                asyncio.run(_serve(EngineSpec(model="echo"), ServeSettings(port=port), second))
