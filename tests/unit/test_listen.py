"""One server an address: the second is told so, whether the first listens already or began to while the second loaded. Answers leave at once."""

import asyncio
import socket

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


@pytest.mark.parametrize("host", ["192.0.2.1", "x\0y", "\u00fc" * 70, "\ud800"])
def test_a_host_that_is_none_of_ours_is_named_and_not_the_port(host) -> None:
    with pytest.raises(UserInputError, match=r"^--host .*; an address of this machine would be right") as e:
        listen(host, 0)
    assert "another server" not in str(e.value)


@pytest.mark.parametrize("host", ["", " "])
def test_no_host_does_not_mean_every_address(host) -> None:
    with pytest.raises(UserInputError, match="--host: is empty"):
        listen(host, 0)


def test_a_server_that_was_ready_first_is_named_too() -> None:
    with listen("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        with listen("127.0.0.1", port) as second:                   # neither listens yet
            first.listen()
            with pytest.raises(UserInputError, match="is another server running there"):
                asyncio.run(_serve(EngineSpec(model="echo"), ServeSettings(port=port), second))


def test_an_accepted_connection_does_not_wait_for_the_acknowledgement_of_its_last_packet() -> None:
    """An answer goes out as head and body: with Nagle's delay on, the second waits 40 ms for a client that delays its acknowledgements."""
    async def options() -> int:
        accepted = asyncio.get_running_loop().create_future()
        with listen("127.0.0.1", 0) as sock:
            server = await asyncio.start_server(lambda _, writer: accepted.set_result(writer), sock=sock)
            async with server:
                _, ours = await asyncio.open_connection(*sock.getsockname())
                theirs = await accepted
                found = theirs.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
                ours.close()
                theirs.close()
        return found

    assert asyncio.run(options())
