"""Forks, the prefix index across requests, and what they cost, counted in tokens and copied blocks."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_scheduler import FULL, HYBRID, SHAPES, VOCABULARY, WINDOW, Toy, prompt, request

from headwater.core.events import Release
from headwater.core.request import ReadSpec
from headwater.sim.memory import linear

shapes = st.sampled_from(sorted(SHAPES))


def right(r) -> list[int]:
    return linear(r.prompt, r.seed, r.max_new, r.stop_ids, VOCABULARY)


@pytest.mark.parametrize("shape", SHAPES)
def test_64_forks_of_a_2000_token_state_cost_their_own_tokens_and_one_block_each(shape: str) -> None:
    toy = Toy(SHAPES[shape], blocks=600, slots=100)
    state = prompt(2000)
    toy.run(request("state", state, 0, hold=True))
    before = toy.computed
    forks = [request(f"q{i}", np.concatenate([state, prompt(7, i + 1)]), 1, parent="state", parent_pos=2000) for i in range(64)]
    toy.run(*forks)
    assert before == 2000
    assert toy.computed - before == 64 * 7
    assert toy.copies == 0                                          # 2,000 is a multiple of the block: nothing is copied at all
    assert all(toy.ids(f.request_id) == right(f) for f in forks)


@pytest.mark.parametrize(("shape", "groups"), [("full", 1), ("window", 2), ("hybrid", 1)])
def test_a_fork_inside_a_block_copies_that_block_once_per_group(shape: str, groups: int) -> None:
    toy = Toy(SHAPES[shape], blocks=600, slots=100)
    state = prompt(1003)
    toy.run(request("state", state, 0, hold=True))
    toy.run(*[request(f"q{i}", np.concatenate([state, prompt(5, i + 1)]), 1, parent="state", parent_pos=1003) for i in range(64)])
    assert toy.computed == 1003 + 64 * 5
    assert toy.copies == 64 * groups
    assert toy.scheduler.kv.copies.tolist() == [64] * groups


@pytest.mark.parametrize("shape", SHAPES)
def test_64_forks_that_arrive_together_with_the_same_prefix_compute_it_once(shape: str) -> None:
    toy = Toy(SHAPES[shape], blocks=900, slots=100)
    state = prompt(2000)
    toy.run(*[request(f"q{i}", np.concatenate([state, prompt(9, i + 1)]), 1) for i in range(64)])
    assert toy.computed == 2000 + 64 * 9
    assert [toy.end(f"q{i}").cached_tokens for i in range(64)] == [0] + [2000] * 63


@pytest.mark.parametrize("shape", SHAPES)
def test_n_choices_share_the_whole_prompt_but_its_last_token(shape: str) -> None:
    toy = Toy(SHAPES[shape])
    ids = prompt(150)
    choices = [request(f"c{i}", ids, 6, seed=i, parent="c0" if i else None, parent_pos=150 if i else 0) for i in range(4)]
    toy.run(*choices)
    assert [toy.end(f"c{i}").cached_tokens for i in range(4)] == [0, 149, 149, 149]
    assert [toy.ids(f"c{i}") for i in range(4)] == [right(c) for c in choices]


def test_a_fork_of_a_parent_that_goes_on_drawing_sees_the_parent_at_the_fork() -> None:
    toy = Toy()
    parent = request("parent", prompt(50), 40)
    toy.arrive(parent)
    for _ in range(8):
        toy.step()
    child = request("child", np.concatenate([parent.prompt[:45], prompt(3, 6)]), 5, parent="parent", parent_pos=45)
    toy.run(child)
    assert toy.end("child").cached_tokens == 45
    assert toy.ids("child") == right(child)
    assert toy.ids("parent") == right(parent)


@given(st.integers(1, 300), st.data(), shapes, st.integers(0, 2**30))
@settings(max_examples=60)
def test_a_fork_at_any_position_yields_what_a_linear_run_yields(n: int, data, shape: str, seed: int) -> None:
    toy = Toy(SHAPES[shape], blocks=120)
    trunk = prompt(n, seed)
    cut = data.draw(st.integers(1, n))
    toy.run(request("trunk", trunk, 3, hold=True))
    branch = request("branch", np.concatenate([trunk[:cut], prompt(data.draw(st.integers(1, 40)), seed + 1)]), 8, parent="trunk", parent_pos=cut)
    toy.run(branch)
    assert toy.ids("branch") == right(branch)


def test_a_parent_may_be_released_before_its_children_ran() -> None:
    toy = Toy()
    state = prompt(100)
    toy.run(request("state", state, 0, hold=True))
    child = request("child", np.concatenate([state, prompt(4, 1)]), 3, parent="state", parent_pos=100)
    toy.arrive(child)
    toy.on(Release("state"))
    toy.run()
    assert toy.end("child").cached_tokens == 100
    assert toy.ids("child") == right(child)


def test_a_held_state_survives_memory_pressure_and_a_released_one_does_not() -> None:
    toy = Toy(blocks=40)
    state = prompt(320)
    toy.run(request("state", state, 0, hold=True))
    for i in range(6):
        toy.run(request(f"other{i}", prompt(200, i + 10), 2))
    toy.run(request("fork", np.concatenate([state, prompt(3, 1)]), 1, parent="state", parent_pos=320))
    assert toy.end("fork").cached_tokens == 320
    toy.on(Release("state"))
    for i in range(6):
        toy.run(request(f"more{i}", prompt(500, i + 20), 2))
    toy.run(request("late", np.concatenate([state, prompt(3, 2)]), 1))
    assert toy.end("late").cached_tokens == 0


def test_a_next_turn_finds_the_answer_of_the_one_before_to_the_token() -> None:
    toy = Toy()
    first = request("first", prompt(37), 11)
    toy.run(first)
    known = np.concatenate([first.prompt, np.array(right(first), np.int32)])
    toy.run(request("second", np.concatenate([known, prompt(20, 3)]), 2))
    assert toy.end("second").cached_tokens == len(known) - 1         # the last drawn token was never computed


@pytest.mark.parametrize("spec", [WINDOW, HYBRID])
def test_models_that_cannot_be_cut_start_a_next_turn_at_a_message_border(spec) -> None:
    toy = Toy(spec, blocks=400)
    head = prompt(500)
    toy.run(request("a", np.concatenate([head, prompt(60, 1)]), 2, borders=(500,)))
    toy.run(request("b", np.concatenate([head, prompt(60, 2)]), 2))
    assert toy.end("b").cached_tokens == 500


@pytest.mark.parametrize("spec", [WINDOW, HYBRID])
def test_models_that_cannot_be_cut_have_a_checkpoint_every_1024_tokens(spec) -> None:
    toy = Toy(spec, blocks=600)
    head = prompt(3000)
    toy.run(request("a", np.concatenate([head, prompt(10, 1)]), 1))
    toy.run(request("b", np.concatenate([head, prompt(10, 2)]), 1))
    assert toy.end("b").cached_tokens == 2048


def test_a_window_keeps_no_block_that_no_query_can_read() -> None:
    toy = Toy(WINDOW, blocks=200)
    toy.arrive(request("long", prompt(600), 100))
    most = 0
    for _ in range(60):
        toy.step()
        pool = toy.scheduler.kv.pools[0]
        held = {int(b) for p in toy.scheduler.kv.points.all for b in p.windows[0][1]}
        most = max(most, pool.total - pool.n_free - len(held))
    assert sum(len(p.trims[1]) for p in toy.plans) > 30
    assert most <= 600 // 16 + 1                                    # while the one chunk of the prompt runs
    used = toy.scheduler.kv.pools[0]
    assert used.total - used.n_free - len(held) <= 40 // 16 + 2


def test_tenants_never_share_states() -> None:
    toy = Toy()
    ids = prompt(200)
    toy.run(request("a", ids, 1, cache_salt="one"))
    toy.run(request("b", ids, 1, cache_salt="two", parent="a", parent_pos=200))
    toy.run(request("c", ids, 1, cache_salt="one"))
    assert (toy.end("b").cached_tokens, toy.end("c").cached_tokens) == (0, 199)


def test_a_parent_that_does_not_hold_the_prefix_it_is_said_to_hold_changes_no_answer() -> None:
    toy = Toy()
    toy.run(request("parent", prompt(100), 1, hold=True))
    liar = request("liar", prompt(90, 7), 4, parent="parent", parent_pos=80)
    toy.run(liar)
    assert toy.ids("liar") == right(liar)


def test_scored_tokens_are_computed_even_where_their_state_is_known() -> None:
    toy = Toy()
    ids = prompt(100)
    toy.run(request("warm", ids, 1))
    toy.run(request("score", ids, 0, reads=ReadSpec(score_from=40)))
    assert toy.end("score").cached_tokens == 39                     # position 39 is read for the log-probability of token 40
    assert toy.end("score").reads is not None


def test_reads_of_a_chunked_prompt_come_once_and_in_order() -> None:
    toy = Toy(max_step_tokens=32)
    toy.run(request("all", prompt(100), 0, reads=ReadSpec(hidden="all")))
    reads = toy.end("all").reads
    assert reads is not None and reads.hidden.tolist() == [[0, 32], [32, 64], [64, 96], [96, 100]]


def test_a_partly_filled_block_is_not_kept_twice() -> None:
    toy = Toy(FULL)
    ids = prompt(23)
    for i in range(5):
        toy.run(request(f"r{i}", ids, 1))
    assert toy.scheduler.kv.nodes.n_cached == 2


@pytest.mark.parametrize("spec", [WINDOW, HYBRID])
def test_a_checkpoint_of_a_parent_that_went_elsewhere_is_not_taken(spec) -> None:
    # the index knows the child's 24 tokens from another request; the running parent has a checkpoint at 24, but after other tokens
    toy = Toy(spec)
    child = np.concatenate([prompt(20), prompt(4, 1), prompt(3, 2)])
    toy.run(request("other", child[:24], 0))
    toy.arrive(request("parent", np.concatenate([prompt(20), prompt(4, 3)]), 5, borders=(20,)))
    toy.step()
    toy.step()
    fork = request("fork", child, 3, parent="parent", parent_pos=20)
    toy.run(fork)
    assert toy.ids("fork") == right(fork)


@pytest.mark.parametrize("spec", [FULL, WINDOW, HYBRID])
def test_a_row_alone_never_needs_two_copies_of_its_own_history(spec) -> None:
    toy = Toy(spec, blocks=5, slots=2, max_step_tokens=16)
    toy.run(request("first", prompt(70), 1))
    kv = toy.scheduler.kv
    for point in list(kv.points.all):                               # known blocks, but no state to start from
        kv.drop_point(point)
    again = request("again", prompt(70), 10, reads=ReadSpec(score_from=1))      # scored: computed even where its state is known
    toy.run(again)
    assert toy.ids("again") == right(again)
    assert toy.scheduler.check(full=True) == []
    assert (len(kv.index), kv.nodes.n_cached) == (4, 5)             # 79 computed tokens, each once


def test_a_twin_that_somebody_reads_stays_where_it_is() -> None:
    toy = Toy(HYBRID, blocks=10, slots=4, max_step_tokens=16)
    toy.run(request("held", prompt(40), 0, hold=True))
    kv = toy.scheduler.kv
    for point in list(kv.points.all):
        kv.drop_point(point)
    toy.run(request("again", prompt(40), 60))
    assert toy.ids("again") == right(request("again", prompt(40), 60))
    assert toy.scheduler.check(full=True) == []
