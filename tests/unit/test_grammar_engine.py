"""Grammars through the engine: the output is what was asked for, alone, in crowds, with choices, after thinking; bad ones are the caller's."""

import asyncio
import json
import re

import numpy as np
import pytest

from headwater.core.errors import UserInputError
from headwater.core.params import SamplingParams
from headwater.engine.build import EngineSpec, build_front
from headwater.engine.client import Grammar
from headwater.engine.front import GenerateRequest
from headwater.engine.thinking import AfterThinking, Thinking
from headwater.llm import LLM

pytest.importorskip("llguidance")
PARAMS = SamplingParams(max_tokens=120, temperature=1.0, seed=5)
SCHEMA = {
    "type": "object", "properties": {"name": {"type": "string", "maxLength": 8}, "age": {"type": "integer", "minimum": 0, "maximum": 99}},
    "required": ["name", "age"], "additionalProperties": False,
}


@pytest.fixture(scope="module")
def llm() -> LLM:
    return LLM("echo")


def test_a_schema_holds_for_every_choice_of_every_prompt(llm: LLM) -> None:
    outs = llm.generate(["a", "bc", "def"], SamplingParams(max_tokens=120, temperature=1.0, seed=3, n=3), grammar=Grammar("json_schema", SCHEMA))
    for choice in (c for o in outs for c in o.outputs):
        assert choice.finish_reason == "stop"
        value = json.loads(choice.text)
        assert set(value) == {"name", "age"}
        assert 0 <= value["age"] <= 99


def test_a_regex_and_a_choice_hold(llm: LLM) -> None:
    out = llm.generate("x", PARAMS, grammar=Grammar("regex", "[a-c]{3}-[0-9]{2}"))[0].outputs[0].text
    assert re.fullmatch("[a-c]{3}-[0-9]{2}", out)
    assert llm.generate("x", PARAMS, grammar=Grammar("choice", ["yes", "no"]))[0].outputs[0].text in ("yes", "no")


def test_ignoring_ends_of_turn_does_not_run_into_the_end_of_a_grammar(llm: LLM) -> None:
    params = SamplingParams(max_tokens=50, temperature=1.0, seed=1, ignore_eos=True)
    assert llm.generate("x", params, grammar=Grammar("regex", "[ab]{4}"))[0].outputs[0].finish_reason == "stop"


@pytest.mark.parametrize("grammar", [Grammar("regex", "("), Grammar("json_schema", "no object"), Grammar("choice", []), Grammar("lark", "start: (")])
def test_what_is_no_grammar_is_the_callers_error(llm: LLM, grammar: Grammar) -> None:
    with pytest.raises(UserInputError, match="response_format") as e:
        llm.generate("x", PARAMS, grammar=grammar)
    assert e.value.field == "response_format"
    assert len(llm.generate("x", SamplingParams(max_tokens=3, ignore_eos=True))[0].outputs[0].token_ids) == 3


def test_a_front_compiles_beside_the_running_streams() -> None:
    async def main() -> None:
        front = build_front(EngineSpec("echo"))
        await front.start()
        try:
            async def ask(grammar: Grammar | None) -> str:
                async with front.submit(GenerateRequest(list(b"abc"), PARAMS, grammar=grammar)) as stream:
                    return "".join([d.text async for d in stream])

            texts = await asyncio.gather(ask(Grammar("json_schema", SCHEMA)), ask(None), ask(Grammar("regex", "[0-9]{5}")))
            assert set(json.loads(texts[0])) == {"name", "age"}
            assert re.fullmatch("[0-9]{5}", texts[2])
            with pytest.raises(UserInputError, match="response_format"):
                await ask(Grammar("regex", "("))
        finally:
            await front.close()

    asyncio.run(asyncio.wait_for(main(), 60))


class Digits:
    """A matcher of digits only (ids 0 to 9)."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    def accept(self, ids: list[int]) -> int:
        n = next((k for k, t in enumerate(ids) if t > 9), len(ids))
        self.seen += ids[:n]
        return n

    def rollback(self, n: int) -> None:
        del self.seen[len(self.seen) - n :]

    def fill(self, bits: np.ndarray, row: int) -> None:
        bits[row] = 0x3FF


def test_a_grammar_begins_behind_the_end_of_thinking_and_can_go_back_over_it() -> None:
    inner = Digits()
    m = AfterThinking(inner, Thinking((20,)))
    bits = np.zeros((1, 1), np.uint32)
    assert m.accept(np.array([15, 16])) == 2
    m.fill(bits, 0)
    assert bits[0, 0] == 0xFFFFFFFF
    assert m.accept(np.array([20, 3, 4, 30])) == 3
    m.fill(bits, 0)
    assert bits[0, 0] == 0x3FF
    m.rollback(3)
    m.fill(bits, 0)
    assert (bits[0, 0], inner.seen) == (0xFFFFFFFF, [])
    assert m.accept(np.array([17, 20, 5])) == 3
    assert inner.seen == [5]


def test_thinking_is_free_and_the_answer_is_not(llm: LLM) -> None:
    end = ord("~")
    params = SamplingParams(max_tokens=60, temperature=1.0, seed=1, logit_bias={end: 6.0})
    text = llm.generate("x", params, grammar=Grammar("regex", "[0-9]{3}", after=end))[0].outputs[0].text
    assert re.fullmatch(r"[^~]*~[0-9]{3}", text)
