"""Token trees: several ways on are verified in one pass, the one that holds longest is kept, and nobody can tell from the answer."""

import random
from pathlib import Path

import numpy as np
import pytest
import tiny_models
from drafted_requests import Asked, ask, request, same
from echo_engine import KINDS, echo_offline
from guessed_trees import TreeGuess, tree
from hypothesis import given, settings
from hypothesis import strategies as st
from test_speculation_families import END, offline
from toy_scheduler import SHAPES, VOCABULARY, Toy
from toy_scheduler import request as toy_request

from headwater.core.cost import LinearCost
from headwater.core.drafting import DraftCounts
from headwater.core.params import SamplingParams
from headwater.core.plan import Branches, Guesses, Ragged
from headwater.engine.expand import GenerateRequest
from headwater.engine.offline import Offline
from headwater.kernels import native
from headwater.kernels.history import LINKS, ReferenceHistory, TokenHistory
from headwater.model.load.loader import load_model
from headwater.policies.draft.api import Branch, Draft
from headwater.policies.draft.suffix import SuffixDraft, leaving
from headwater.sched.branches import worthwhile
from headwater.sched.guess import Guesser
from headwater.sim.memory import linear

CHEAP = LinearCost((1e-2, 1e-6, 0.0, 1e-6, 0.0, 0.0, 0.0, 0.0))    # a guess costs next to nothing: trees are worth their tokens
ids = st.lists(st.integers(0, 3), max_size=60)


def i32(x) -> np.ndarray:
    return np.array(x, np.int32)
PROMPT = np.arange(20, dtype=np.int32)


# ---- what is proposed -----------------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not native.available(), reason="needs the native module")
@given(st.lists(ids, min_size=1, max_size=8), ids)
def test_native_occurrences_are_those_of_the_definition(sequences, tail) -> None:
    fast, slow = TokenHistory(100), ReferenceHistory(100)
    for s in sequences:
        for h in (fast, slow):
            h.begin()
            h.extend(i32(s))
    out, matches = np.empty((LINKS, 5), np.int32), np.empty(LINKS, np.int32)
    n = slow.occurrences(i32(tail)[-64:], out, matches)
    following, got = fast.occurrences(i32(tail), 5)
    assert following.tolist() == out[:n].tolist() and got.tolist() == matches[:n].tolist()


def test_branches_are_the_ways_that_most_occurrences_took() -> None:
    following = i32([[1, 2, 3], [1, 9, 9], [4, 5, 6], [1, 9, 8], [7, 7, -1]])
    got = leaving(i32([1, 2, 3]), following, 2)
    assert [b.ids.tolist() for b in got] == [[1, 9, 9], [4, 5, 6]]
    assert [b.share for b in got] == [1.0, 0.5]


def test_the_suffix_drafter_proposes_a_tree_only_where_it_is_asked_to() -> None:
    text = i32([1, 2, 3, 50, 51, 52, 1, 2, 3, 60, 61, 62, 1, 2, 3])
    for tree_on, want in ((True, [[50, 51, 52]]), (False, [])):
        d = SuffixDraft(tree=tree_on)
        d.begin(1, text, "")
        draft = d.propose(1, 3)
        assert draft.ids.tolist() == [60, 61, 62] and [b.ids.tolist() for b in draft.branches] == want


@pytest.mark.parametrize("price, branches", [(0.02, 2), (0.3, 0)])
def test_the_price_of_a_token_decides_between_chain_and_tree(price, branches) -> None:
    ways = [Branch(i32([9, 2, 3, 4]), 1.0), Branch(i32([1, 8, 3, 4]), 0.5)]
    got = worthwhile(i32([1, 2, 3, 4]), ways, 0.6, 0.5, price, 100, 8)
    assert len(got) == branches


@given(st.floats(0.05, 0.95), st.floats(0.01, 1.0), st.floats(0.01, 1.0), st.integers(0, 40), st.integers(0, 4), st.integers(0, 2**32 - 1))
def test_branches_stay_within_their_budget_and_below_the_length_of_the_chain(alpha, hold, price, room, most, seed) -> None:
    rng = np.random.default_rng(seed)
    chain, ways = tree(rng, rng.integers(0, 9, 12).astype(np.int32), 40, 5)
    got = worthwhile(chain, [Branch(w, 0.5) for w in ways], alpha, hold, price, room, most)
    assert len(got) <= most and sum(1 + len(g) for g in got) <= room
    assert all(0 < len(g) <= len(chain) and not np.array_equal(g, chain[: len(g)]) for g in got)


# ---- what is said ---------------------------------------------------------------------------------------------------------------------


def compare(plain: Offline, fast: Offline, guess: TreeGuess, asked: list[Asked], label: str) -> None:
    guess.scheduler = fast.engine.scheduler
    expected = ask(plain, asked, f"plain-{label}")
    guess.learn(asked, expected)
    for a, p, d in zip(asked, expected, ask(fast, asked, f"tree-{label}"), strict=True):
        same(a, p, d, label)
    assert not fast.engine.scheduler.check(full=True)


@pytest.mark.parametrize("kind", KINDS, ids=["full", "window", "state", "window-state"])
@given(st.integers(0, 2**32 - 1))
@settings(max_examples=6, deadline=None)
def test_trees_never_change_an_answer_of_the_echo_family(kind, seed) -> None:
    pytest.importorskip("llguidance")
    rng, guess = random.Random(seed), TreeGuess(seed, 120)
    asked = [request(rng, 120, 40, grammar=True if i == 0 else None) for i in range(4)]
    compare(echo_offline(eos_rate=200, **kind), echo_offline(eos_rate=200, guess=guess, **kind), guess, asked, f"seed {seed}")


@pytest.mark.parametrize("family", ["hybrid", "gemma3", "mistral", "llama"])
def test_trees_never_change_an_answer_of_a_native_program(family, tmp_path: Path) -> None:
    model = load_model(tiny_models.write_folder(family, tmp_path))
    seed = random.randrange(2**32)
    rng, guess = random.Random(seed), TreeGuess(seed, tiny_models.VOCAB)
    plain, fast = offline(model, "none"), offline(model, "none")
    fast.engine.scheduler.draft_with(guess)
    for batch in range(3):
        asked = [request(rng, tiny_models.VOCAB, 40, grammar=False, marker=END) for _ in range(3)]
        asked.append(Asked(GenerateRequest([7, 8, 9, 10] * 5, SamplingParams(temperature=0.8, seed=batch, max_tokens=30, ignore_eos=True))))
        compare(plain, fast, guess, asked, f"seed {seed}, batch {batch}")
    assert guess.branched > 0


@pytest.mark.parametrize("shape", SHAPES)
@given(st.integers(0, 2**32 - 1))
@settings(max_examples=15, deadline=None)
def test_no_block_or_state_is_ever_anothers_while_trees_are_verified(shape, seed) -> None:
    rng = np.random.default_rng(seed)
    requests = [toy_request(f"r{i}", rng.integers(0, VOCABULARY, int(rng.integers(1, 60))).astype(np.int32), 30, seed=i) for i in range(5)]
    right = {r.request_id: [*r.prompt.tolist(), *linear(r.prompt, r.seed, 30, frozenset(), VOCABULARY)] for r in requests}

    def guess(rows: np.ndarray, most: np.ndarray) -> Guesses:
        chains, branches = [], []
        for i, (row, n) in enumerate(zip(rows.tolist(), most.tolist(), strict=True)):
            known = len(toy.scheduler.history(row))
            after = i32(right[toy.scheduler.request(row).request_id][known : known + min(n, 9)])
            chain, ways = tree(rng, after, VOCABULARY, 1) if len(after) else (after, [])
            chains.append(chain)
            branches += [(i, w) for w in ways]
        return Guesses(Ragged.of(chains), Branches.of(branches))

    toy = Toy(SHAPES[shape], blocks=int(rng.integers(14, 60)), guess=guess)
    toy.run(*requests)
    assert {r.request_id: [*r.prompt.tolist(), *toy.ids(r.request_id)] for r in requests} == right


# ---- what is counted ------------------------------------------------------------------------------------------------------------------


class Knowing:
    """A drafter that knows the answer and says it beside a chain that goes wrong at once (or beside the right chain a wrong branch)."""

    def __init__(self, right: list[int]) -> None:
        self.right, self.drawn, self.turn = i32(right), 0, 0

    def begin(self, row: int, tokens: np.ndarray, salt: str) -> None:
        self.drawn = len(tokens) - len(PROMPT)

    def extend(self, row: int, tokens: np.ndarray) -> None:
        self.drawn += len(tokens)

    def propose(self, row: int, most: int) -> Draft:
        self.turn += 1
        right = self.right[self.drawn : self.drawn + min(most, 4)]
        wrong = (right + 1) % VOCABULARY
        chain, branch = (wrong, right) if self.turn % 2 else (right, wrong)
        return Draft(chain, 32, "suffix", (Branch(branch, 1.0),))

    def end(self, row: int) -> None:
        """One row only."""


def test_branches_are_counted_for_themselves_and_reported() -> None:
    right = linear(PROMPT, 0, 40, frozenset(), VOCABULARY)
    guesser = Guesser(Knowing(right), CHEAP)
    toy = Toy(guess=guesser)
    toy.run(toy_request("r", PROMPT, 40))
    passes = [o.draft for o in toy.outputs if o.draft is not None]
    counts, own = guesser.counts, DraftCounts()
    for p, o in zip(passes, [o for o in toy.outputs if o.draft is not None], strict=True):
        own.add(p, len(o.ids))
    assert toy.ids("r") == right and own == counts
    verified, held = counts.branches
    assert verified > held > 0 and counts.by_source["suffix_branch"][1] >= held
    assert counts.tokens == counts.passes + counts.accepted and sum(a for _, a in counts.by_position) == counts.accepted
    assert counts.summary()["branches"] == {"verified": verified, "held": held}


def test_a_branch_that_holds_longer_than_its_chain_is_what_the_pass_brings() -> None:
    right = linear(PROMPT, 0, 12, frozenset(), VOCABULARY)

    def guess(rows: np.ndarray, most: np.ndarray) -> Guesses:
        return Guesses(Ragged.of([wrong_from(right, toy, 1)[: most[0]]]), Branches.of([(0, upcoming(right, toy)[: most[0]])]))

    toy = Toy(guess=guess)
    toy.run(toy_request("r", PROMPT, 12))
    assert toy.ids("r") == right and len(toy.plans) == 1 + 3         # the prompt, then five tokens a pass: four guesses of the branch and a draw


def upcoming(right: list[int], toy: Toy) -> np.ndarray:
    known = len(toy.scheduler.history(0)) - len(PROMPT)
    return i32(right[known : known + 4])


def wrong_from(right: list[int], toy: Toy, at: int) -> np.ndarray:
    out = upcoming(right, toy)
    out[at:] = (out[at:] + 1) % VOCABULARY
    return out
