"""The account of speculation: what the numbers mean, and that every place that shows them shows the same."""

import numpy as np
import pytest

from headwater.core.drafting import DraftCounts, DraftPass
from headwater.core.request import Output
from headwater.engine.client import DraftSeconds, EngineStats, Grammar
from headwater.engine.thinking import Thinking
from headwater.engine.wire import decode, encode
from headwater.llm import LLM, SamplingParams
from headwater.obs.meter import Meter

REPEATS = np.array(list(b"the same words again and again, ") * 4, np.int32)
PARAMS = SamplingParams(temperature=0.9, seed=11, max_tokens=60, ignore_eos=True)


def test_numbers_of_three_passes_are_those_of_counting_by_hand() -> None:
    c = DraftCounts()
    c.add(DraftPass(4, 2, "suffix"), 3)
    c.add(DraftPass(0, 0, ""), 1)
    c.add(DraftPass(2, 2, "forced"), 3)
    assert (c.passes, c.tokens, c.drafted, c.accepted) == (3, 7, 6, 4)
    assert c.tau == pytest.approx(7 / 3) and c.alpha == pytest.approx(4 / 6)
    assert c.by_source == {"suffix": (4, 2), "forced": (2, 2)}
    assert c.alphas == [1.0, 1.0, 0.0]                              # the third guess of the first pass was refused, the fourth never reached
    assert c.lengths == {4: 1, 0: 1, 2: 1}


def test_a_total_is_the_sum_of_its_parts() -> None:
    a, b = DraftCounts(), DraftCounts()
    a.add(DraftPass(3, 1, "ngram"), 2)
    b.add(DraftPass(5, 5, "ngram"), 6)
    b.add(DraftPass(1, 0, "suffix", 2, 3, 1), 2)
    total = DraftCounts.total([a, b])
    assert total is not None
    assert total.by_source == {"ngram": (8, 6), "suffix": (1, 0), "suffix_branch": (3, 1)} and total.by_position[:2] == [(3, 3), (2, 1)]
    assert (total.passes, total.tokens, total.lengths, total.branches) == (3, 10, {3: 1, 5: 1, 1: 1}, (2, 1))
    assert DraftCounts.total([]) is None


@pytest.fixture(scope="module")
def llm():
    llm = LLM("echo", draft="suffix+ngram:shortest=1")
    llm.engine.scheduler.guesser.cost = None
    yield llm
    llm.close()


def test_requests_add_up_to_the_engines_totals(llm) -> None:
    before = llm.engine.stats().drafts
    outs = llm.generate([REPEATS, REPEATS[5:]], [PARAMS, PARAMS]) + llm.generate([REPEATS], PARAMS)
    after, total = llm.engine.stats().drafts, DraftCounts.total([o.drafts for o in outs])
    assert total.drafted == after.drafted - before.drafted > 0
    assert total.accepted == after.accepted - before.accepted > 0
    assert total.passes == after.passes - before.passes
    assert total.tokens == sum(len(o.outputs[0].token_ids) - 1 for o in outs)   # the first token comes with the prompt


def test_a_stop_string_does_not_hide_what_was_drafted_before_it(llm) -> None:
    text = llm.generate(REPEATS, PARAMS)[0].outputs[0].text
    again = llm.generate(REPEATS, SamplingParams(temperature=0.9, seed=11, max_tokens=60, ignore_eos=True, stop=text[20:23]))[0]
    assert again.outputs[0].stop_reason == text[20:23]
    assert again.drafts.accepted > 0


def test_without_drafts_there_is_no_account() -> None:
    llm = LLM("echo")
    assert llm.generate(REPEATS, PARAMS)[0].drafts is None and llm.engine.stats().drafts is None
    assert "spec_decode" not in Meter(llm.engine.stats, "echo").text().decode()
    llm.close()


def test_metrics_show_the_engines_counts(llm) -> None:
    llm.generate(REPEATS, PARAMS)
    counts = llm.engine.stats().drafts
    lines = dict(line.rsplit(" ", 1) for line in Meter(llm.engine.stats, "m").text().decode().splitlines() if not line.startswith("#"))
    for source, (drafted, accepted) in counts.by_source.items():
        assert float(lines[f'headwater:spec_decode_num_draft_tokens_total{{model_name="m",source="{source}"}}']) == drafted
        assert float(lines[f'headwater:spec_decode_num_accepted_tokens_total{{model_name="m",source="{source}"}}']) == accepted
    assert float(lines['headwater:spec_decode_draft_length_count{model_name="m"}']) == counts.passes
    assert float(lines['headwater:spec_decode_tokens_per_pass{model_name="m"}']) == pytest.approx(counts.tau)


def test_the_account_and_budgets_cross_the_wire_to_the_engine_process_unchanged() -> None:
    counts = DraftCounts()
    counts.add(DraftPass(3, 2, "suffix", 1, 2, 1), 4)
    stats = EngineStats(drafts=counts, draft_seconds=DraftSeconds(1.5, 1.0, 0.25, 0.125))
    assert decode(encode("stats", stats))[1] == stats
    out = Output("r", np.array([1, 2], np.int32), draft=DraftPass(3, 1, "forced"))
    assert decode(encode("outputs", [out]))[1][0].draft == DraftPass(3, 1, "forced")
    grammar = Grammar("any", None, thinking=Thinking((7, 8), 5, (1, 7, 8), (3,), frozenset({9})))
    assert decode(encode("compile", ("r", grammar)))[1] == ("r", grammar)
