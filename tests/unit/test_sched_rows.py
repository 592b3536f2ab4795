"""Batching, budgets, ends, failures: what the scheduler promises about rows."""

import numpy as np
import pytest
from toy_scheduler import HYBRID, SHAPES, VOCABULARY, Toy, prompt, request

from headwater.core.cost import LinearCost
from headwater.core.events import Cancel, ExecutorLost, MaskReady, Release
from headwater.core.plan import Ragged, StepResult, Want
from headwater.policies.sched.api import SchedPolicy
from headwater.sim.memory import MemoryExecutor, draw, hashes, linear


def right(r) -> list[int]:
    return linear(r.prompt, r.seed, r.max_new, r.stop_ids, VOCABULARY)


def test_rows_of_all_kinds_share_a_step() -> None:
    toy = Toy()
    toy.arrive(request("a", prompt(30), 10))
    toy.step()
    toy.arrive(request("b", prompt(50, 1), 10), request("c", prompt(70, 2), 0))
    plan = toy.step()
    assert plan.n_new.tolist() == [1, 50, 70]
    assert [bool(w & Want.SAMPLE) for w in plan.want] == [True, True, False]


def test_a_long_prompt_is_chunked_and_decodes_go_on_in_every_step() -> None:
    cost = LinearCost((0.001, 0.001, 0, 0, 0, 0, 0, 0))
    toy = Toy(cost=cost, blocks=600, sched="fcfs:seconds=0.05,idle_seconds=0.05")
    toy.arrive(request("stream", prompt(10), 200))
    toy.step()
    toy.arrive(request("long", prompt(3000, 1), 1))
    for _ in range(20):
        plan = toy.step()
        assert plan.rows[0] == 0 and plan.n_new[0] == 1
        assert plan.n_tokens <= 49                                   # 0.05 s at 1 ms per token and 1 ms per step
        assert plan.n_tokens >= 45


def test_a_prompt_moves_on_even_where_decodes_alone_fill_the_budget() -> None:
    toy = Toy(cost=LinearCost((1.0, 1.0, 0, 0, 0, 0, 0, 0)))
    toy.arrive(request("stream", prompt(10), 500))
    toy.step()
    toy.arrive(request("long", prompt(500, 1), 1))
    assert toy.step().n_new.tolist() == [1, 16]


def test_a_stop_id_ends_the_row_and_is_not_part_of_the_answer() -> None:
    toy = Toy()
    free = request("free", prompt(20), 30)
    stop = right(free)[7]
    first = right(free).index(stop)
    toy.run(request("stopped", prompt(20), 30, stop_ids=frozenset({stop})))
    end = toy.end("stopped")
    assert (end.finish, end.stop_id, toy.ids("stopped")) == ("stop", stop, right(free)[:first])


def test_min_tokens_lets_an_early_stop_id_pass() -> None:
    toy = Toy()
    ids = right(request("x", prompt(20), 30))
    r = request("r", prompt(20), 30, stop_ids=frozenset({ids[0]}))
    r.params.min_tokens = 5
    toy.run(r)
    assert len(toy.ids("r")) >= 5


def test_max_new_ends_with_length() -> None:
    toy = Toy()
    toy.run(request("r", prompt(20), 5))
    assert (toy.end("r").finish, len(toy.ids("r"))) == ("length", 5)


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("shape", SHAPES)
def test_drafts_right_or_wrong_change_no_answer_and_only_save_steps(shape: str, share: float) -> None:
    rng = np.random.default_rng(5)

    def guess(rows: np.ndarray, most: np.ndarray) -> Ragged:
        parts = []
        for row, n in zip(rows.tolist(), most.tolist(), strict=True):
            history, ids = toy.scheduler.history(row), []
            for i in range(min(n, 4)):
                h = int(hashes(np.concatenate([history, np.array(ids, np.int32)]))[-1])
                token = draw(h, toy.scheduler.request(row).seed, len(history) + i, VOCABULARY)
                ids.append(token if rng.random() < share else (token + 1) % VOCABULARY)
            parts.append(np.array(ids, np.int32))
        return Ragged.of(parts)

    toy = Toy(SHAPES[shape], guess=guess)
    stop = right(request("x", prompt(33, 1), 40))[25]
    requests = [request("a", prompt(33, 1), 40, stop_ids=frozenset({stop})), request("b", prompt(70, 2), 41, seed=9)]
    toy.run(*requests)
    assert [toy.ids(r.request_id) for r in requests] == [right(r) for r in requests]
    assert toy.end("a").finish == "stop"
    if share == 1.0:
        assert len(toy.plans) <= 2 + 41 // 5 + 1


def test_the_oldest_row_goes_on_and_the_newest_steps_aside_when_blocks_run_out() -> None:
    toy = Toy(blocks=12)
    requests = [request(f"r{i}", prompt(60, i), 60, seed=i) for i in range(3)]
    toy.run(*requests)
    assert toy.scheduler.counters.preempted > 0
    assert [toy.ids(r.request_id) for r in requests] == [right(r) for r in requests]
    order = [o.request_id for o in toy.outputs if o.finish]
    assert order[0] == "r0"


def test_a_request_longer_than_the_memory_is_refused_with_both_numbers() -> None:
    toy = Toy(blocks=10)
    toy.run(request("big", prompt(170), 1))
    assert toy.end("big").finish == "error"
    assert "170" in toy.end("big").error and "160" in toy.end("big").error
    assert toy.plans == []


def test_a_request_longer_than_the_context_is_refused_with_both_numbers() -> None:
    toy = Toy(context=100)
    toy.run(request("big", prompt(90), 20))
    assert "90" in toy.end("big").error and "100" in toy.end("big").error


@pytest.mark.parametrize(("ids", "word"), [([], "at least one"), ([VOCABULARY], "token ids"), ([-1], "token ids")])
def test_a_prompt_that_is_no_prompt_is_refused(ids: list[int], word: str) -> None:
    toy = Toy()
    toy.run(request("bad", np.array(ids, np.int32), 1))
    assert word in toy.end("bad").error


def test_a_full_queue_refuses_with_a_time_to_come_back() -> None:
    toy = Toy(sched="fcfs:queue=2")
    toy.run(*[request(f"r{i}", prompt(20, i), 1) for i in range(4)])
    refused = [o for o in toy.outputs if o.error]
    assert [o.request_id for o in refused] == ["r2", "r3"]
    assert all(o.retry_after > 0 for o in refused)


def test_a_request_that_cannot_run_beside_held_states_gets_a_reason_and_not_silence() -> None:
    toy = Toy(blocks=20)
    toy.run(request("state", prompt(300), 0, hold=True))
    toy.run(request("other", prompt(100, 1), 1))
    assert toy.end("other").finish == "error" and toy.end("other").retry_after is not None
    toy.on(Release("state"))
    toy.run(request("again", prompt(100, 1), 1))
    assert toy.end("again").finish == "length"


@pytest.mark.parametrize("stage", ["queued", "prefilling", "decoding", "forked", "in flight", "held"])
def test_a_client_that_leaves_gives_everything_back_within_a_step(stage: str) -> None:
    toy = Toy(max_step_tokens=64)
    victim = request("v", prompt(200), 30, hold=stage == "held")
    if stage == "queued":
        victim.mask = "g"
    toy.arrive(victim)
    if stage == "held":
        toy.run()
    elif stage != "queued":
        for _ in range({"prefilling": 2, "decoding": 6, "forked": 6, "in flight": 6}[stage]):
            toy.step()
    name = "v"
    if stage == "forked":
        toy.arrive(request("child", np.concatenate([victim.prompt, prompt(90, 1)]), 5, parent="v", parent_pos=200))
        toy.step()
        name = "child"
        toy.on(Cancel("v"))
    if stage == "in flight":
        plan = toy.scheduler.plan(toy.now)
        toy.executor.submit(plan)
        toy.on(Cancel(name))
        toy.outputs += toy.scheduler.apply(toy.executor.collect(), toy.now)
    else:
        toy.on(Cancel(name))
        toy.step()
    kv = toy.scheduler.kv
    assert toy.end(name).finish == ("length" if stage == "held" else "abort")
    assert toy.scheduler.idle and not toy.scheduler.held
    assert kv.nodes.n_free + kv.nodes.n_cached == kv.nodes.total


def test_a_cancelled_row_that_is_not_kept_leaves_no_partial_block() -> None:
    toy = Toy()
    toy.arrive(request("r", prompt(20), 30))
    toy.step()
    toy.on(Cancel("r", keep=False))
    toy.run()
    assert toy.scheduler.kv.nodes.n_cached == 1                     # the full block was public before; the partly filled one is gone


def test_one_bad_row_fails_alone_with_its_reason() -> None:
    toy = Toy()
    good, bad = request("good", prompt(20), 5), request("bad", prompt(20, 1), 5)
    toy.arrive(good, bad)
    plan = toy.scheduler.plan(0.0)
    toy.executor.submit(plan)
    result = toy.executor.collect()
    spoiled = StepResult(result.step, Ragged.of([result.tokens.row(0), np.zeros(0, np.int32)]), np.array([20, 0]), failed={1: "NaN in logits"})
    toy.outputs += toy.scheduler.apply(spoiled, 0.0)
    toy.run()
    assert (toy.end("bad").finish, toy.end("bad").error) == ("error", "NaN in logits")
    assert toy.ids("good") == right(good)


@pytest.mark.parametrize("shape", SHAPES)
def test_rows_survive_the_death_of_the_executor(shape: str) -> None:
    toy = Toy(SHAPES[shape])
    requests = [request(f"r{i}", prompt(40, i), 20, seed=i) for i in range(3)]
    toy.arrive(*requests)
    for _ in range(5):
        toy.step()
    toy.scheduler.plan(toy.now)
    toy.executor = MemoryExecutor(toy.caps)
    toy.on(ExecutorLost("killed"))
    toy.run()
    assert [toy.ids(r.request_id) for r in requests] == [right(r) for r in requests]


def test_a_request_that_is_there_whenever_the_executor_dies_fails() -> None:
    toy = Toy()
    toy.arrive(request("poison", prompt(40), 20))
    for _ in range(3):
        assert toy.scheduler.plan(toy.now) is not None
        toy.on(ExecutorLost("killed"))
    toy.run()
    assert "killed" in toy.end("poison").error


def test_a_row_with_a_grammar_waits_for_it() -> None:
    toy = Toy()
    toy.arrive(request("r", prompt(20), 3, mask="g"))
    assert toy.step() is None
    toy.on(MaskReady("r"))
    assert toy.step().want[0] & Want.MASK
    toy.run()
    assert toy.end("r").finish == "length"


def test_a_grammar_that_does_not_compile_fails_its_request() -> None:
    toy = Toy()
    toy.arrive(request("r", prompt(20), 3, mask="g"))
    toy.on(MaskReady("r", "bad schema"))
    toy.run()
    assert toy.end("r").error == "bad schema"


def test_a_deadline_that_passes_in_the_queue_ends_the_request_and_wakes_the_loop() -> None:
    toy = Toy()
    toy.arrive(request("r", prompt(20), 3, mask="g", deadline=5.0))
    assert toy.scheduler.wake_at() == 5.0
    toy.now = 6.0
    assert toy.step() is None
    assert "deadline" in toy.end("r").error


def test_cached_and_computed_prompt_tokens_add_up_to_the_prompt() -> None:
    toy = Toy(blocks=14)
    requests = [request(f"r{i}", prompt(60, i % 2), 50, seed=i) for i in range(6)]
    toy.run(*requests)
    assert toy.scheduler.counters.preempted > 0
    assert all(toy.end(r.request_id).cached_tokens + toy.end(r.request_id).computed_tokens == 60 for r in requests)


def test_a_broken_invariant_is_contained_and_the_scheduler_goes_on() -> None:
    toy = Toy()
    toy.arrive(request("victim", prompt(40), 20), request("waits", prompt(30, 1), 3, mask="g"))
    toy.step()
    toy.scheduler.kv.nodes.refs[0] += 1
    broken = toy.scheduler.check(full=True)
    assert any("references" in sentence for sentence in broken)
    toy.outputs += toy.scheduler.drain()
    assert toy.end("victim").error.startswith("internal: ")
    toy.on(MaskReady("waits"))
    toy.run()
    assert toy.end("waits").finish == "length"
    assert toy.scheduler.check(full=True) == []
    assert toy.scheduler.kv.nodes.pools[0].quarantined >= 1


def test_the_toy_memory_notices_a_copy_that_is_left_out() -> None:
    toy = Toy()
    toy.run(request("a", prompt(23), 1))
    toy.arrive(request("b", np.concatenate([prompt(23), prompt(3, 1)]), 1))
    plan = toy.scheduler.plan(toy.now)
    assert len(plan.copies) == 1
    plan.copies = plan.copies[:0]
    with pytest.raises(AssertionError, match="does not hold the row's history"):
        toy.executor.run(plan)


def test_the_toy_memory_notices_a_wrong_recurrent_slot() -> None:
    toy = Toy(HYBRID)
    toy.arrive(request("a", prompt(23), 5), request("b", prompt(24, 1), 5))
    toy.step()
    plan = toy.scheduler.plan(toy.now)
    plan.state_in = plan.state_in[::-1].copy()
    with pytest.raises(AssertionError, match="recurrent state"):
        toy.executor.run(plan)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_request_that_fills_the_memory_runs_however_much_of_it_is_cached(shape: str) -> None:
    toy = Toy(SHAPES[shape], blocks=10)
    ids = prompt(160)
    toy.run(request("warm", ids[:159], 0))
    again = request("again", ids[:159], 1)
    toy.run(again)
    assert toy.end("again").finish == "length" and toy.ids("again") == right(again)


def test_a_policy_that_gives_prompts_no_tokens_only_makes_them_slow() -> None:
    class Stingy(SchedPolicy):
        def chunk(self, pending: int, left: int, others: int) -> int:
            return 0

    toy = Toy()
    toy.scheduler._board.policy = Stingy()
    toy.run(request("r", prompt(100), 3))
    assert toy.ids("r") == right(request("r", prompt(100), 3))
