"""Agent sessions: many turns over a growing context, answers with reasoning that the next turn's template drops, re-rendered answers that tokenise
differently now and then. Counts, apart from each other, why a turn computes tokens again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from headwater.core.cost import LinearCost
from headwater.core.errors import UserInputError
from headwater.core.events import Arrive
from headwater.core.executor import Caps
from headwater.core.kvspec import BLOCK_TOKENS, KVSpec
from headwater.core.params import SamplingParams
from headwater.core.registry import build
from headwater.core.request import Output, Request
from headwater.kv.prefix import common_prefix
from headwater.sched.scheduler import Scheduler
from headwater.sim.loop import Loop
from headwater.sim.memory import MemoryExecutor

_VOCABULARY = 1000


@dataclass(frozen=True, slots=True)
class Habits:
    """Tokens per turn (message, reasoning, answer), how many turns, the chance that an answer's re-rendering differs from some token on, whether the
    template drops earlier reasoning, seconds between turns."""

    turns: int = 40
    system: int = 600
    message: int = 120
    reasoning: int = 200
    answer: int = 150
    retokenised: float = 0.1
    drops_reasoning: bool = True
    think: float = 1.0


@dataclass(slots=True)
class Reuse:
    """Prompt tokens by cause. new: never seen (and the last token drawn, whose state was never computed). stripped: known tokens behind a
    dropped reasoning span. retokenised: tokens behind the first one that re-rendering tokenises differently. kept: the rest, all reusable."""

    new: int = 0
    stripped: int = 0
    retokenised: int = 0
    kept: int = 0

    @property
    def recomputed(self) -> int:
        return self.new + self.stripped + self.retokenised


@dataclass(slots=True)
class Turn:
    """One turn: what had to be computed by the rules above, and what the scheduler reported."""

    prompt: int
    due: Reuse
    cached: int = 0
    computed: int = 0


@dataclass(slots=True)
class Session:
    """One client; its next turn is sent when an answer is complete. `on_end` is told when the last one is."""

    name: str
    habits: Habits
    loop: Loop
    rng: np.random.Generator
    vocabulary: int
    salt: str = ""
    turns: list[Turn] = field(default_factory=list)
    on_end: Callable[[Session], None] | None = None
    _prompt: np.ndarray = field(init=False)
    _drawn: list[int] = field(default_factory=list)
    _borders: list[int] = field(default_factory=list)

    def begin(self, time: float) -> None:
        """Send the first turn."""
        self._prompt = self._random(self.habits.system + self.habits.message)
        self._borders = [self.habits.system, len(self._prompt)]
        self._send(time, Reuse(new=len(self._prompt)))

    def _random(self, n: int) -> np.ndarray:
        return self.rng.integers(0, self.vocabulary, n).astype(np.int32)

    def _send(self, time: float, due: Reuse) -> None:
        request = Request(f"{self.name}.{len(self.turns)}", self._prompt, SamplingParams(), self.habits.reasoning + self.habits.answer,
                          seed=int(self.rng.integers(2**62)), arrival=time, owner=self.name, cache_salt=self.salt, borders=tuple(self._borders))
        self.turns.append(Turn(len(self._prompt), due))
        self._drawn = []
        self.loop.at(time, Arrive(request))

    def observe(self, output: Output, now: float) -> None:
        """Take an output of one of this session's requests. Raises UserInputError where a turn was refused."""
        if output.finish == "error":
            raise UserInputError(f"--memory: turn {len(self.turns)} of {self.habits.turns} cannot run ({output.error})", field="memory")
        self._drawn += output.ids.tolist()
        turn = self.turns[-1]
        turn.cached, turn.computed = output.cached_tokens, output.computed_tokens
        if output.finish in ("stop", "length") and len(self.turns) < self.habits.turns:
            self._send(now + self.habits.think, self._render())
        elif output.finish is not None and self.on_end is not None:
            self.on_end(self)

    def _render(self) -> Reuse:
        """The next prompt, and why which part of it must be computed."""
        habits, drawn = self.habits, np.array(self._drawn, np.int32)
        answer = drawn[habits.reasoning :] if habits.drops_reasoning else drawn
        rendered = answer
        split = len(answer)
        if len(answer) and self.rng.random() < habits.retokenised:
            split = int(self.rng.integers(len(answer)))
            rendered = np.concatenate([answer[:split], self._random(len(answer) - split)])
            split = common_prefix(answer, rendered)
        message = self._random(habits.message)
        old = self._prompt
        self._prompt = np.concatenate([old, rendered, message])
        self._borders += [len(old) + len(rendered), len(self._prompt)]
        known = np.concatenate([old, drawn])[:-1]                   # the last token drawn was never computed
        kept = min(common_prefix(known, self._prompt), len(self._prompt) - 1)
        stripped = habits.drops_reasoning and habits.reasoning > 0 and len(drawn) > len(answer)
        due = Reuse(kept=kept)
        if stripped:
            due.stripped = max(len(old) + split - max(kept, len(old)), 0)
            due.retokenised = len(rendered) - split
        else:
            due.retokenised = max(len(rendered) - split, 0)
        due.new = len(self._prompt) - kept - due.stripped - due.retokenised
        return due


def play(habits: Habits, count: int, memory: int, spec: KVSpec, evict: str = "lru", seed: int = 0) -> list[Session]:
    """Run `count` sessions side by side over the toy memory (every reuse is checked); memory: tokens of KV."""
    longest = habits.system + habits.turns * (habits.message + habits.reasoning + habits.answer)
    blocks = max(memory // BLOCK_TOKENS, 1)
    caps = Caps(spec, (blocks,) * len(spec.groups), max(memory // 500, 16) if spec.states else 0, longest + 1, _VOCABULARY, "toy")
    scheduler = Scheduler(caps, build("sched", "fcfs"), build("evict", evict))
    made: dict[str, Session] = {}
    loop = Loop(scheduler, MemoryExecutor(caps), LinearCost(), lambda o, t: made[o.request_id.partition(".")[0]].observe(o, t), check="cheap")
    for i in range(count):
        session = made[f"a{i}"] = Session(f"a{i}", habits, loop, np.random.default_rng((seed, i)), _VOCABULARY)
        session.begin(0.3 * i)
    loop.run()
    return list(made.values())


def total(sessions: list[Session]) -> tuple[Reuse, int, int]:
    """Sum of what was due, and of what was cached and computed."""
    due = Reuse()
    cached = computed = 0
    for turn in (t for s in sessions for t in s.turns):
        due.new += turn.due.new
        due.stripped += turn.due.stripped
        due.retokenised += turn.due.retokenised
        due.kept += turn.due.kept
        cached += turn.cached
        computed += turn.computed
    return due, cached, computed
