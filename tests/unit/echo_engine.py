"""Engines on the echo family in any shape: windows, recurrent state, small memory, other policies."""

from __future__ import annotations

from typing import Any

from headwater.core import registry
from headwater.engine.build import EngineSpec, load_text
from headwater.engine.engine import Engine
from headwater.engine.offline import Offline
from headwater.sched.scheduler import Scheduler
from headwater.worker.exec.echo import EchoForward
from headwater.worker.exec.inline import InlineExecutor
from headwater.worker.runner import Runner

KINDS: list[dict[str, Any]] = [
    {}, {"window": 40}, {"state": True, "slots": 48}, {"window": 24, "state": True, "slots": 48},
]


def echo_offline(blocks: int = 512, context: int = 2048, sched: str = "fcfs", evict: str = "slru", guess: Any = None, **kind: Any) -> Offline:
    executor = InlineExecutor(Runner(EchoForward(blocks, context, **kind)))
    scheduler = Scheduler(executor.caps(), registry.build("sched", sched), registry.build("evict", evict), guess=guess)
    return Offline(Engine(scheduler, executor), load_text(EngineSpec("echo")))
