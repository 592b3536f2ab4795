"""A real server on loopback, driven by unmodified clients. `echo` needs no weights and makes every wire test fast."""

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import dataclass

import httpx
import pytest
import uvicorn

from headwater.engine.build import EngineSpec, build_front
from headwater.serve.app import create_app
from headwater.serve.run import listen
from headwater.serve.settings import ServeSettings


@dataclass
class Running:
    """A server in a thread of this process."""

    url: str
    front: object
    server: uvicorn.Server
    thread: threading.Thread

    @property
    def v1(self) -> str:
        return f"{self.url}/v1"


def start(spec: EngineSpec, settings: ServeSettings | None = None, **options: object) -> Running:
    """options: of uvicorn."""
    sock = listen("127.0.0.1", 0)
    ready, box = threading.Event(), {}

    def body() -> None:
        async def go() -> None:
            try:
                front = build_front(spec)
                await front.start()
                box["front"] = front
                app = create_app(front, settings or ServeSettings())
                box["server"] = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off", **options))
            except BaseException as e:
                box["error"] = e
                raise
            finally:
                ready.set()
            await box["server"].serve(sockets=[sock])
            await front.close()

        asyncio.run(go())

    thread = threading.Thread(target=body, daemon=True)
    thread.start()
    assert ready.wait(120)
    if "error" in box:
        raise box["error"]
    url = f"http://127.0.0.1:{sock.getsockname()[1]}"
    for _ in range(200):
        try:
            httpx.get(f"{url}/version", timeout=5)
            break
        except httpx.TransportError:
            threading.Event().wait(0.02)
    return Running(url, box["front"], box["server"], thread)


def stop(running: Running) -> None:
    running.server.should_exit = True
    running.thread.join(30)
    assert not running.thread.is_alive()


@pytest.fixture(scope="session")
def echo() -> Iterator[Running]:
    running = start(EngineSpec(model="echo"))
    yield running
    stop(running)


@pytest.fixture(scope="session")
def smol(smollm2) -> Iterator[Running]:
    """The default model behind a server."""
    running = start(EngineSpec(model=str(smollm2), name="smollm2"))
    yield running
    stop(running)
