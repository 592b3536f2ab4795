"""Reasoning splitter: the same parts whatever the cuts; a template that has opened the marker; no marker shown by half."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.core.errors import UserInputError
from headwater.text.reasoning import FORMATS, ReasoningSplitter, detect_format, reasoning_format

THINK = FORMATS["think"]


def run(pieces, prompt="", form=THINK):
    s = ReasoningSplitter(form, prompt)
    out = {"reasoning": "", "content": ""}
    for d in [d for p in pieces for d in s.push(p)] + s.finish():
        out[d.kind] += d.text
    return out["reasoning"], out["content"]


@pytest.mark.parametrize(
    "text, prompt, want",
    [
        ("<think>\nhm\n</think>\n\nyes", "", ("hm", "yes")),
        ("\n<think>a < b</think>c", "", ("a < b", "c")),
        ("hm\n</think>\n\nyes", "<|im_start|>assistant\n<think>\n", ("hm", "yes")),
        ("<think>\nhm</think>yes", "assistant\n<think>\n", ("hm", "yes")),
        ("yes", "assistant\n<think>\n\n</think>\n\n", ("", "yes")),
        (" plain text </think> x", "", ("", " plain text </think> x")),
        ("<think></think>\nyes", "", ("", "yes")),
        ("<think>\nnever closed ", "", ("never closed ", "")),
        ("I like <think> as a word", "", ("", "I like <think> as a word")),
        ("<thin air", "", ("", "<thin air")),
        ("", "", ("", "")),
    ],
)
def test_reasoning_and_answer_are_told_apart_at_every_cut(text, prompt, want):
    assert run([text], prompt) == want
    assert run(list(text), prompt) == want
    for cut in range(len(text) + 1):
        assert run([text[:cut], text[cut:]], prompt) == want


PIECES = st.sampled_from(["<think>", "</think>", "<th", "ink>", "</", "think>", "a", " ", "\n", "b<"])


@given(pieces=st.lists(PIECES, max_size=12), opened=st.booleans())
def test_the_cuts_never_change_the_parts(pieces, opened):
    prompt = "<think>\n" if opened else ""
    text = "".join(pieces)
    assert run(pieces, prompt) == run([text], prompt) == run(list(text), prompt)


def test_a_model_that_always_reasons_starts_inside():
    s = ReasoningSplitter(FORMATS["deepseek_r1"], "<｜Assistant｜>")
    assert s.reasoning
    assert [d.kind for d in s.push("hm</think>x")] == ["reasoning", "content"]
    assert not s.reasoning


def test_the_format_is_found_in_the_template():
    assert detect_format("... '</think>' ...") is THINK
    assert detect_format("no reasoning") is None and detect_format(None) is None
    with pytest.raises(UserInputError, match="--reasoning-parser nope"):
        reasoning_format("nope")
