"""Engines on the echo family in any shape: windows, recurrent state, small memory, other policies, drafts at a fixed price."""

from __future__ import annotations

from typing import Any

from headwater.core import registry
from headwater.engine.build import EngineSpec, build_drafter, load_text, takes_forced
from headwater.engine.engine import Engine
from headwater.engine.offline import Offline
from headwater.policies.draft.api import Forks, members
from headwater.sched.guess import Guesser
from headwater.sched.scheduler import Scheduler
from headwater.worker.exec.echo import EchoForward
from headwater.worker.exec.inline import InlineExecutor
from headwater.worker.runner import Runner

KINDS: list[dict[str, Any]] = [
    {}, {"window": 40}, {"state": True, "slots": 48}, {"window": 24, "state": True, "slots": 48},
]


def echo_offline(blocks: int = 512, context: int = 2048, sched: str = "fcfs", evict: str = "slru", guess: Any = None, draft: str = "none",
                 markers: tuple[tuple[int, ...], tuple[int, ...]] | None = None, **kind: Any) -> Offline:
    """draft: a spec of the room; guess: any function instead. markers: ids that open and end thinking, for drafters that care."""
    text = load_text(EngineSpec("echo"))
    drafter = build_drafter(draft, text)
    for d in members(drafter):
        if isinstance(d, Forks) and markers is not None:
            d.mark(*markers)
    forward = EchoForward(blocks, context, **kind)
    executor = InlineExecutor(Runner(forward, forced=takes_forced(drafter)))
    scheduler = Scheduler(executor.caps(), registry.build("sched", sched), registry.build("evict", evict),
                          guess=guess if drafter is None else Guesser(drafter))
    return Offline(Engine(scheduler, executor, compile_grammar=lambda g: text.compile_grammar(g, forward.caps.vocabulary)), text)
