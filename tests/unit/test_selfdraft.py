"""Self-speculation: the model answers from half a thought beside its thinking, and what it said there is its own draft."""

from __future__ import annotations

import numpy as np
import pytest
from echo_engine import KINDS

from headwater.core import registry
from headwater.core.errors import UserInputError
from headwater.core.params import SamplingParams
from headwater.engine.build import EngineSpec, build_drafter, load_text
from headwater.engine.engine import Engine
from headwater.engine.expand import GenerateRequest
from headwater.engine.offline import Answer, Offline
from headwater.policies.draft.selfdraft import SelfDraft
from headwater.sched.guess import Guesser
from headwater.sched.scheduler import Scheduler
from headwater.sched.selfdraft import PROBE_EVERY, TRIAL
from headwater.worker.exec.echo import EchoForward
from headwater.worker.exec.inline import InlineExecutor
from headwater.worker.runner import Runner

OPEN, END, THOUGHTS = ord("{"), ord("}"), 60
ANSWER = list(b"So the answer begins, X and then it goes on with many words that do not depend on it.")
CHANGES = ANSWER.index(ord("X"))                                    # what stands here depends on how long was thought


class Thinker(EchoForward):
    """Opens a thought, thinks for THOUGHTS tokens, closes it and answers; sees only what its blocks hold."""

    def __init__(self, **kind) -> None:
        super().__init__(512, 2048, **kind)
        self._tokens = np.full(len(self._kv[0]), -1)

    def hidden(self, step) -> np.ndarray:
        super().hidden(step)
        out = []
        for r, (a, b) in enumerate(zip(step.row_start[:-1], step.row_start[1:], strict=True)):
            self._tokens[self._slots(step, 0, r, step.positions[a:b])] = step.tokens[a:b]
        for read in step.reads.tolist():
            r = int(np.searchsorted(step.row_start, read, side="right")) - 1
            out.append(self._next(self._tokens[self._slots(step, 0, r, np.arange(int(step.positions[read]) + 1))].tolist()))
        return np.array(out, np.float32).reshape(-1, 1)

    def _next(self, tokens: list[int]) -> int:
        if OPEN not in tokens:
            return OPEN
        thought = len(tokens) - 1 - tokens.index(OPEN)
        if END not in tokens:
            return END if thought >= THOUGHTS else ord("a") + thought % 7
        k = len(tokens) - 1 - tokens.index(END)
        if k == CHANGES:
            return ord("0") + (tokens.index(END) - tokens.index(OPEN)) % 10
        return ANSWER[k] if k < len(ANSWER) else 256

    def logits(self, hidden: np.ndarray) -> np.ndarray:
        out = np.zeros((len(hidden), self.caps.vocabulary), np.float32)
        out[np.arange(len(hidden)), hidden[:, 0].astype(int)] = 20.0
        return out

    def copy_blocks(self, copies: np.ndarray) -> None:
        super().copy_blocks(copies)
        for group, source, target in copies.tolist():
            if group == 0:
                blocks = self._tokens.reshape(-1, len(self._tokens) // self.caps.blocks[0])
                blocks[target] = blocks[source]


class Fickle(Thinker):
    """Every length of thought has an answer of its own: no draft ever holds."""

    def _next(self, tokens: list[int]) -> int:
        if END not in tokens:
            return super()._next(tokens)
        k, thought = len(tokens) - tokens.index(END), tokens.index(END) - tokens.index(OPEN)
        return 33 + (31 * k * k + 17 * k * thought + 101 * thought) % 61 if k < len(ANSWER) else 256


def engine_with(draft: str, thinker: type[Thinker] = Thinker, **kind) -> Offline:
    text = load_text(EngineSpec("echo"))
    drafter = build_drafter(draft)
    if isinstance(drafter, SelfDraft):
        drafter.mark((OPEN,), (END,))
    executor = InlineExecutor(Runner(thinker(**kind)))
    scheduler = Scheduler(executor.caps(), registry.build("sched", "fcfs"), registry.build("evict", "slru"),
                          guess=None if drafter is None else Guesser(drafter))
    return Offline(Engine(scheduler, executor), text)


def ask(draft: str, count: int = 1, **kind) -> tuple[Offline, list[Answer]]:
    offline = engine_with(draft, **kind)
    prompts = [list(f"question {i} of several".encode()) for i in range(count)]
    return offline, offline.run([GenerateRequest(p, SamplingParams(temperature=0.8, seed=3, max_tokens=400)) for p in prompts])


@pytest.mark.parametrize("kind", KINDS, ids=["full", "window", "state", "window-state"])
@pytest.mark.parametrize("spec", ["selfdraft:budget=12,most=200", "selfdraft:budget=8,interval=10,most=30"])
def test_the_answer_is_the_same_and_most_of_it_was_drafted(spec, kind) -> None:
    _, plain = ask("none", 2, **kind)
    offline, drafted = ask(spec, 2, **kind)
    assert [a.choices[0].token_ids for a in drafted] == [a.choices[0].token_ids for a in plain]
    for a in drafted:
        by_source = a.usage.drafts.by_source
        assert by_source["ssr_prefix"][1] >= CHANGES // 2           # up to where the length of the thought tells; one token a pass is no guess
        assert by_source["ssr_suffix"][1] >= 6                      # and on from there, as far as the forks came before the thinking ended
        assert a.usage.drafts.passes == len(a.choices[0].token_ids) - 1 - a.usage.drafts.accepted + 1   # and one that drew the end of turn
    scheduler = offline.engine.scheduler
    assert scheduler.idle and not scheduler.check(full=True)
    assert offline.engine.stats().generated_tokens == sum(len(a.choices[0].token_ids) + 1 for a in drafted)   # and the end of turn


@pytest.mark.parametrize("kind", KINDS, ids=["full", "window", "state", "window-state"])
def test_a_fork_computes_hardly_anything_that_its_parent_has_computed(kind) -> None:
    offline, answers = ask("selfdraft:budget=20,most=200", **kind)
    assert offline.engine.scheduler.counters.computed - len(answers[0].prompt) <= 3


@pytest.mark.parametrize("part, other", [("prefix", "ssr_suffix"), ("suffix", "ssr_prefix")])
def test_either_use_of_the_draft_can_be_switched_off(part, other) -> None:
    _, answers = ask(f"selfdraft:budget=12,most=200,{part}=false")
    assert set(answers[0].usage.drafts.by_source) == {other}


def test_the_last_level_extends_what_the_level_before_it_drafted() -> None:
    offline, _ = ask("selfdraft:budget=8,interval=20,most=300")
    once, _ = ask("selfdraft:budget=48,most=300")
    assert offline.engine.scheduler.selfdrafts.drawn > once.engine.scheduler.selfdrafts.drawn > 0


def test_a_row_that_does_not_think_is_never_forked() -> None:
    d = SelfDraft(budget=3)
    d.mark((OPEN,), (END,))
    d.begin(0, np.array([1, 2, 3], np.int32), "")
    d.extend(0, np.arange(10, 40, dtype=np.int32))
    d.begin(1, np.array([1, OPEN, 4, END, 5], np.int32), "")        # an earlier turn's thought is over
    d.extend(1, np.arange(10, 40, dtype=np.int32))
    assert d.forks() == ([], [])


def test_a_fork_takes_no_seat_while_somebody_waits() -> None:
    offline, _ = ask("selfdraft:budget=5,most=200", 80)             # more requests than seats of the policy
    assert offline.engine.scheduler.idle


def test_two_drafters_that_fork_are_one_too_many() -> None:
    with pytest.raises(UserInputError, match="at most one"):
        build_drafter("selfdraft+selfdraft:budget=9")


def one_after_another(draft: str, thinker: type[Thinker], count: int) -> tuple[list[list[int]], int]:
    """Answers, and how many tokens forks have drawn for them."""
    offline = engine_with(draft, thinker)
    params = SamplingParams(temperature=0.8, seed=3, max_tokens=200)
    said = [offline.run([GenerateRequest(list(f"question {i}".encode()), params)])[0].choices[0].token_ids for i in range(count)]
    assert offline.engine.scheduler.selfdrafts is not None
    return said, offline.engine.scheduler.selfdrafts.drawn


def test_forks_become_rare_where_drafts_never_hold() -> None:
    guarded, drawn = one_after_another("selfdraft:budget=12", Fickle, 32)
    free, all_drawn = one_after_another("selfdraft:budget=12,guarded=off", Fickle, 32)
    assert guarded == free
    assert drawn * 32 == all_drawn * (TRIAL + 32 // PROBE_EVERY)    # each fork draws the same


def test_forks_go_on_where_drafts_hold() -> None:
    _, drawn = one_after_another("selfdraft:budget=12", Thinker, 32)
    assert drawn == one_after_another("selfdraft:budget=12,guarded=off", Thinker, 32)[1]
