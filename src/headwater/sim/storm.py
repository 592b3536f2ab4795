"""Storms: random workloads with leavers, forks, holds, tenants, tiny memories and all fault kinds, over the toy memory that detects any wrong block.

Every request must end once, with the tokens of an undisturbed run or with a reason; blocks must balance to zero. One seed is one storm.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from headwater.core.cost import LearnedCost, LinearCost
from headwater.core.events import Arrive, Cancel, MaskReady, Release
from headwater.core.executor import Caps
from headwater.core.kvspec import CacheGroup, KVSpec, StateSpec
from headwater.core.params import SamplingParams
from headwater.core.plan import Ragged
from headwater.core.registry import build
from headwater.core.request import Output, ReadSpec, Request
from headwater.sched.scheduler import Scheduler
from headwater.sim.faults import Faults
from headwater.sim.loop import Loop
from headwater.sim.memory import MemoryExecutor, draw, hashes, linear

VOCABULARY = 67
CONTEXT = 512
_FULL = CacheGroup("full", 2, 2, 16)
_WINDOW = CacheGroup("window", 2, 2, 16, window=40)
_STATE = StateSpec("delta", 2, (4, 4))
SPECS = {
    "full": KVSpec((_FULL,)),
    "two-full": KVSpec((_FULL, CacheGroup("full", 1, 1, 32))),
    "window": KVSpec((_FULL, _WINDOW)),
    "window-only": KVSpec((_WINDOW,)),
    "hybrid": KVSpec((_FULL,), (_STATE,)),
    "recurrent": KVSpec((), (_STATE,)),
    "all-kinds": KVSpec((_WINDOW, _FULL), (_STATE,)),
}


class StormError(AssertionError):
    """A storm broke a promise; the message names the seed."""


@dataclass(slots=True)
class StormReport:
    """What happened in one storm."""

    seed: int
    spec: str
    sched: str
    evict: str
    requests: int
    steps: int
    finished: int
    aborted: int
    failed: int
    cached_tokens: int
    computed_tokens: int
    preempted: int
    faults: dict[str, int]


@dataclass(slots=True)
class _Fate:
    request: Request
    ids: list[int] = field(default_factory=list)
    ends: int = 0
    output: Output | None = None
    reads: list[np.ndarray] = field(default_factory=list)


class Storm:
    """One seed's workload, engine and verdict."""

    def __init__(self, seed: int, requests: int = 500, *, sched: str | None = None, evict: str | None = None, spec: str | None = None) -> None:
        self.seed, self.n = seed, requests
        self.rng = np.random.default_rng(seed)
        pick = self.rng.choice
        self.spec = spec or str(pick(list(SPECS)))
        self.sched = sched or str(pick(["fcfs", "priority", "sjf", "fair"]))
        self.evict = evict or str(pick(["lru", "slru", "lfu", "demand"]))
        kv = SPECS[self.spec]
        blocks = tuple(int(self.rng.integers(16, 120)) for _ in kv.groups)
        self.caps = Caps(kv, blocks, int(self.rng.integers(6, 40)) if kv.states else 0, CONTEXT, VOCABULARY, "toy", int(self.rng.integers(64, 512)))
        self.fates: dict[str, _Fate] = {}
        self.ended = 0
        self.loop = self._engine()

    def _engine(self) -> Loop:
        cost = LearnedCost() if self.rng.random() < 0.7 else None
        policy = build("sched", self.sched)
        policy.rows = int(self.rng.integers(2, 40))
        policy.seconds = float(self.rng.choice([0.004, 0.02, 0.2]))
        scheduler = Scheduler(self.caps, policy, build("evict", self.evict), cost, guess=self._guess if self.rng.random() < 0.4 else None)
        self.scheduler = scheduler
        faults = Faults(self.rng, row_error=0.001, executor_lost=0.002, reservation=0.01, clock_jump=0.005, slow=0.01)
        return Loop(scheduler, MemoryExecutor(self.caps), LinearCost(), self._observe, cost, faults, "full", lambda: MemoryExecutor(self.caps))

    def _guess(self, rows: np.ndarray, most: np.ndarray) -> Ragged:
        """Drafts that are right two times in three."""
        parts = []
        for row, n in zip(rows.tolist(), most.tolist(), strict=True):
            history, seed = self.scheduler.history(row), self.scheduler.request(row).seed
            ids: list[int] = []
            h = int(hashes(history)[-1])
            for i in range(int(self.rng.integers(0, 4)) if n else 0):
                token = draw(h, seed, len(history) + i, VOCABULARY) if self.rng.random() < 0.67 else int(self.rng.integers(VOCABULARY))
                ids.append(token)
                h = int(hashes(np.array([token]), h)[-1])
            parts.append(np.array(ids[:n], np.int32))
        return Ragged.of(parts)

    # ---- workload ---------------------------------------------------------------------------------------------------------------

    def _prompt(self, bases: list[np.ndarray], made: list[Request]) -> tuple[np.ndarray, str | None, int]:
        """A prompt and maybe its explicit parent and fork position."""
        rng = self.rng
        tail = rng.integers(0, VOCABULARY, int(rng.integers(1, 50))).astype(np.int32)
        kind = rng.random()
        if made and kind < 0.35:
            parent = made[-1 - int(rng.integers(min(len(made), 12)))]
            pos = len(parent.prompt) if rng.random() < 0.6 else int(rng.integers(1, len(parent.prompt) + 1))
            return np.concatenate([parent.prompt[:pos], tail])[: CONTEXT - 1], parent.request_id, pos
        if made and kind < 0.55:                                    # a next turn: what an earlier request was and would have yielded
            old = made[-1 - int(rng.integers(min(len(made), 40)))]
            answer = np.array(linear(old.prompt, old.seed, min(old.max_new, 30), old.stop_ids, VOCABULARY), np.int32)
            return np.concatenate([old.prompt, answer, tail])[: CONTEXT - 1], None, 0
        if made and kind < 0.62:
            return made[-1 - int(rng.integers(min(len(made), 5)))].prompt, None, 0
        base = bases[int(rng.integers(len(bases)))]
        return np.concatenate([base[: int(rng.integers(1, len(base) + 1))], tail]), None, 0

    def _request(self, i: int, now: float, bases: list[np.ndarray], made: list[Request]) -> Request:
        rng = self.rng
        prompt, parent, pos = self._prompt(bases, made)
        if rng.random() < 0.02:
            prompt = rng.integers(0, VOCABULARY, int(rng.integers(300, 700))).astype(np.int32)
            parent = None
        read_only = rng.random() < 0.12
        reads = ReadSpec()
        if read_only or rng.random() < 0.05:
            choice = rng.random()
            reads = ReadSpec(labels=np.array([1, 2])) if choice < 0.5 else ReadSpec(score_from=int(rng.integers(0, len(prompt)))) if choice < 0.8 \
                else ReadSpec(hidden="all" if choice < 0.9 else "last")
        stops = frozenset(rng.integers(0, VOCABULARY, 2).tolist()) if rng.random() < 0.7 else frozenset()
        salt = "" if rng.random() < 0.85 else "other"
        borders = tuple(rng.integers(1, len(prompt) + 1, 2).tolist()) if rng.random() < 0.3 else ()
        return Request(f"s{i}", prompt, SamplingParams(), 0 if read_only else int(rng.integers(1, 60)), stops, int(rng.integers(2**62)), now,
                       int(rng.integers(0, 3)), f"owner{rng.integers(4)}", salt, parent, pos, bool(rng.random() < 0.06), borders, reads,
                       "g" if rng.random() < 0.05 else None, now + float(rng.exponential(5.0)) if rng.random() < 0.05 else None)

    def _schedule(self) -> None:
        rng = self.rng
        bases = [rng.integers(0, VOCABULARY, int(rng.integers(5, 220))).astype(np.int32) for _ in range(8)]
        made: list[Request] = []
        now, gap = 0.0, float(rng.choice([0.01, 0.04, 0.15]))
        for i in range(self.n):
            if rng.random() < 0.7:                                  # the rest arrives together with the one before
                now += float(rng.exponential(gap))
            request = self._request(i, now, bases, made)
            made.append(request)
            self.fates[request.request_id] = _Fate(request)
            self.loop.at(now, Arrive(request))
            if rng.random() < 0.3:
                self.loop.at(now + float(rng.exponential(rng.choice([0.05, 0.3, 2.0]))), Cancel(request.request_id, bool(rng.random() < 0.7)))
            if request.hold:
                self.loop.at(now + float(rng.exponential(1.0)), Release(request.request_id))
            if request.mask:
                self.loop.at(now + float(rng.exponential(0.05)), MaskReady(request.request_id, "bad grammar" if rng.random() < 0.2 else None))

    # ---- verdict ----------------------------------------------------------------------------------------------------------------

    def _observe(self, output: Output, now: float) -> None:
        fate = self.fates[output.request_id]
        if fate.ends:
            raise StormError(f"seed {self.seed}: {output.request_id} goes on after its end")
        fate.ids += output.ids.tolist()
        if output.reads is not None and output.reads.hidden is not None:
            fate.reads.append(output.reads.hidden)
        if output.finish is not None:
            fate.ends += 1
            fate.output = output
            self.ended += 1
            if self.ended == self.n * 9 // 10 and self.loop.faults is not None:
                self.loop.faults.until = now                        # then faults stop and everybody must end

    def run(self) -> StormReport:
        """Run to the end and judge; StormError or AssertionError (with the seed) where a promise broke."""
        self._schedule()
        try:
            self.loop.run()
            for fate in self.fates.values():
                self._judge(fate)
            self._balance()
        except StormError:
            raise
        except Exception as e:
            raise StormError(f"seed {self.seed} ({self.spec}, {self.sched}, {self.evict}): {type(e).__name__}: {e}") from e
        ends = [fate.output.finish for fate in self.fates.values() if fate.output is not None]
        c = self.scheduler.counters
        assert self.loop.faults is not None
        return StormReport(self.seed, self.spec, self.sched, self.evict, self.n, self.loop.steps, sum(e in ("stop", "length") for e in ends),
                           ends.count("abort"), ends.count("error"), c.cached, c.computed, c.preempted, self.loop.faults.counts)

    def _judge(self, fate: _Fate) -> None:
        request, output = fate.request, fate.output
        name = f"seed {self.seed} ({self.spec}, {self.sched}, {self.evict}): {request.request_id}"
        if output is None:
            raise StormError(f"{name} never ended")
        if output.finish == "error" and not output.error:
            raise StormError(f"{name} failed without a reason")
        right = linear(request.prompt, request.seed, request.max_new, request.stop_ids, VOCABULARY)
        if output.finish in ("stop", "length"):
            if fate.ids != right or (output.finish == "stop") != (len(right) < request.max_new):
                raise StormError(f"{name} yielded {fate.ids} ({output.finish}), an undisturbed run yields {right}")
            if output.cached_tokens + output.computed_tokens != len(request.prompt):
                raise StormError(f"{name}: {output.cached_tokens} cached and {output.computed_tokens} computed of {len(request.prompt)}")
            self._judge_reads(fate, name)
        elif fate.ids != right[: len(fate.ids)]:
            raise StormError(f"{name} yielded {fate.ids} before it ended early, an undisturbed run yields {right}")

    def _judge_reads(self, fate: _Fate, name: str) -> None:
        spec = fate.request.reads
        if not spec.any:
            return
        if len(fate.reads) != 1:
            raise StormError(f"{name}: reads came {len(fate.reads)} times")
        spans = fate.reads[0]
        first = 0 if spec.hidden == "all" else max((spec.score_from or 0) - 1, 0) if spec.score_from is not None else len(fate.request.prompt) - 1
        joined = (spans[1:, 0] == spans[:-1, 1]).all()
        if not joined or spans[0, 0] > first or spans[-1, 1] < len(fate.request.prompt):
            raise StormError(f"{name}: reads cover {spans.tolist()}, wanted from {first}")

    def _balance(self) -> None:
        """All blocks, slots and references are back once the cache is emptied."""
        kv, name = self.scheduler.kv, f"seed {self.seed} ({self.spec})"
        if self.scheduler.running or self.scheduler.waiting or len(self.scheduler.held):
            raise StormError(f"{name}: {self.scheduler.running} rows, {self.scheduler.waiting} waiting, {len(self.scheduler.held)} held at the end")
        kv.denies = None
        kv.empty(self.loop.now)
        pools = [kv.nodes.ids, *kv.nodes.pools, *kv.pools, kv.slots]
        if any(p.n_free != p.total or p.refs.any() for p in pools) or kv.points.all or len(kv.index):
            raise StormError(f"{name}: blocks do not balance: {[(p.n_free, p.total) for p in pools]} free, {len(kv.points.all)} checkpoints")
