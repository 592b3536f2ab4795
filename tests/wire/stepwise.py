"""An application whose engine takes a step only when the test says so: what must happen within two steps is counted, not timed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from headwater.core import registry
from headwater.core.events import Event, MaskReady
from headwater.engine.build import EngineSpec, load_text
from headwater.engine.client import Deliver, EngineInfo, EngineStats, Grammar, Lost
from headwater.engine.engine import Engine
from headwater.engine.front import Front
from headwater.sched.scheduler import Scheduler
from headwater.serve.app import create_app
from headwater.serve.settings import ServeSettings
from headwater.worker.exec.echo import EchoForward
from headwater.worker.exec.inline import InlineExecutor
from headwater.worker.runner import Runner


class StepwiseClient:
    """An EngineClient on the event loop's own thread. Grammars wait in `compiling` until `compile_all`."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.info = EngineInfo.of(engine.executor.caps())
        self.compiling: list[tuple[str, Grammar]] = []
        self._deliver: Deliver = lambda outputs: None

    def start(self, deliver: Deliver, lost: Lost) -> None:
        self._deliver = deliver

    def send(self, *events: Event) -> None:
        self.engine.post(*events)

    def compile(self, mask: str, grammar: Grammar) -> None:
        self.compiling.append((mask, grammar))

    def compile_all(self) -> None:
        for mask, grammar in self.compiling:
            self.engine.post(MaskReady(mask, self.engine.add_grammar(mask, grammar)))
        self.compiling.clear()

    def check(self) -> None:
        return

    def stats(self) -> EngineStats:
        return self.engine.stats()

    def close(self) -> None:
        return

    def step(self) -> None:
        outputs = self.engine.run_once()
        if outputs:
            self._deliver(outputs)


class Stepwise:
    """The application, its client, and requests that can leave."""

    def __init__(self, blocks: int = 512, context: int = 4096, step_tokens: int = 64) -> None:
        text = load_text(EngineSpec("echo"))
        forward = EchoForward(blocks, context)
        executor = InlineExecutor(Runner(forward))
        caps = replace(executor.caps(), max_step_tokens=step_tokens)
        scheduler = Scheduler(caps, registry.build("sched", "fcfs"), registry.build("evict", "slru"))
        self.client = StepwiseClient(Engine(scheduler, executor, compile_grammar=lambda g: text.compile_grammar(g, forward.caps.vocabulary)))
        self.front = Front(self.client, text)
        self.app = create_app(self.front, ServeSettings())

    @classmethod
    async def start(cls, **sizes: int) -> Stepwise:
        made = cls(**sizes)
        await made.front.start()
        return made

    async def step(self, n: int = 1) -> None:
        for _ in range(n):
            self.client.step()
            await settle()

    async def finish(self, call: Call, most: int = 3000) -> None:
        """Step until the answer is complete. Raises AssertionError when it never is."""
        for _ in range(most):
            if call.task.done():
                call.task.result()
                return
            self.client.compile_all()
            await self.step()
        raise AssertionError(f"not answered after {most} steps")


class Call:
    """One POST into the application. `leave` is what a client does that closes its connection."""

    def __init__(self, app: Any, path: str, body: dict[str, Any]) -> None:
        self.status = 0
        self.raw = b""
        self._gone = asyncio.Event()
        self._messages = [{"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}]
        scope = {
            "type": "http", "asgi": {"version": "3.0", "spec_version": "2.3"}, "http_version": "1.1", "method": "POST", "path": path,
            "raw_path": path.encode(), "scheme": "http", "query_string": b"", "headers": [(b"content-type", b"application/json")],
            "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80), "root_path": "",
        }
        self.task = asyncio.ensure_future(app(scope, self._receive, self._send))

    async def _receive(self) -> dict[str, Any]:
        if self._messages:
            return self._messages.pop()
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        self.raw += message.get("body", b"")

    async def leave(self) -> None:
        self._gone.set()
        await self.task

    def json(self) -> Any:
        return json.loads(self.raw)

    def events(self) -> list[dict[str, Any]]:
        """The events of a stream so far, without `[DONE]`."""
        return [json.loads(x.partition("data: ")[2]) for x in self.raw.decode().split("\n\n") if x.strip() and "[DONE]" not in x]


async def settle() -> None:
    """Let everything run that can."""
    for _ in range(30):
        await asyncio.sleep(0)


def run(work: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(work(), 120))
