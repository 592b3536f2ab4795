"""Structured output: whatever is drawn from the masks satisfies the grammar; bad grammars fail closed."""

import json
import random
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_tokenizer import TOKENIZERS

from headwater.core.errors import UserInputError
from headwater.engine.thinking import AfterThinking, Thinking
from headwater.text.grammar import GrammarCompiler, GrammarSpec, compile_grammar

pytest.importorskip("llguidance")
TOK = TOKENIZERS["qwen25"]
COMPILER = GrammarCompiler(TOK, width=TOK.vocab_size + 70)


def legal(matcher) -> np.ndarray:
    bits = np.zeros((2, COMPILER.words), np.uint32)
    matcher.fill(bits, 1)
    return np.flatnonzero(np.unpackbits(bits[1].view(np.uint8), bitorder="little"))


def draw(spec: GrammarSpec, seed: int, limit: int = 60) -> tuple[str, bool]:
    """Random text under the grammar, and whether it came to its end."""
    rng, matcher, ids = random.Random(seed), COMPILER.compile(spec), []
    for _ in range(limit):
        choice = int(rng.choice(legal(matcher)))
        assert matcher.accept([choice]) == 1
        if choice in TOK.turn_end_ids:
            return TOK.decode(ids), True
        ids.append(choice)
    return TOK.decode(ids), False


SCHEMAS = st.recursive(
    st.sampled_from([{"type": "integer"}, {"type": "boolean"}, {"type": "string", "maxLength": 3}, {"enum": ["a", 1, None]}, {"type": "null"}]),
    lambda s: st.fixed_dictionaries({"type": st.just("array"), "items": s, "maxItems": st.just(2)}) | st.dictionaries(
        st.sampled_from(["a", "b", "é"]), s, min_size=1, max_size=3
    ).map(lambda p: {"type": "object", "properties": p, "required": sorted(p), "additionalProperties": False}),
    max_leaves=4,
)


def conforms(value, schema) -> bool:
    if "enum" in schema:
        return value in schema["enum"]
    kind = schema["type"]
    if kind == "object":
        return set(value) == set(schema["properties"]) and all(conforms(value[k], s) for k, s in schema["properties"].items())
    if kind == "array":
        return len(value) <= 2 and all(conforms(v, schema["items"]) for v in value)
    return type(value) is {"integer": int, "boolean": bool, "string": str, "null": type(None)}[kind]


@settings(max_examples=60)
@given(schema=SCHEMAS, seed=st.integers(0, 10**6))
def test_random_schema_and_random_logits_give_valid_json_or_length(schema, seed):
    text, ended = draw(GrammarSpec.of("json_schema", schema), seed)
    if ended:
        assert conforms(json.loads(text), schema)


@given(seed=st.integers(0, 10**6))
@settings(max_examples=30)
def test_regex_choice_and_lark_hold(seed):
    text, ended = draw(GrammarSpec.of("regex", "[a-c]{2,5}-[0-9]+"), seed)
    assert not ended or re.fullmatch("[a-c]{2,5}-[0-9]+", text)
    choices = ["yes", "yes, \"really\"", "no\\n", "ä"]
    assert draw(GrammarSpec.of("choice", choices), seed) in [(c, True) for c in choices]
    text, ended = draw(GrammarSpec.of("lark", 'start: "x" start "y" | "z"'), seed)
    assert not ended or re.fullmatch("x*zy*", text)


def test_padding_and_control_tokens_are_never_legal_inside():
    matcher = COMPILER.compile(GrammarSpec.of("lark", 'start: /(.|\\n)*/ "end"'))
    allowed = set(legal(matcher).tolist())
    assert not allowed & TOK.special_ids
    assert all(i < TOK.vocab_size for i in allowed)
    assert not [TOK.vocab.text(i) for i in allowed if TOK.vocab.text(i).startswith("[PAD")]


def test_blanks_do_not_run_on_forever():
    matcher = COMPILER.compile(GrammarSpec.of("json_schema", {"type": "array", "items": {"type": "integer"}}))
    blank = TOK.encode(" ", add_special=False)
    assert matcher.accept(TOK.encode("[", add_special=False)) == 1
    accepted = sum(matcher.accept(blank) for _ in range(200))
    assert 0 < accepted <= 24


def test_accept_counts_rollback_returns_and_forks_are_apart():
    matcher = COMPILER.compile(GrammarSpec.of("choice", ["abcd", "abxy"]))
    ids = [TOK.token_id(c) for c in "ab"]
    assert matcher.accept([*ids, TOK.token_id("q")]) == 2
    fork = matcher.fork()
    assert fork.accept([TOK.token_id("x")]) == 1
    assert matcher.accept([TOK.token_id("c")]) == 1 and not matcher.done()
    assert TOK.decode(fork.forced()) == "y"
    matcher.rollback(1)
    assert matcher.accept([TOK.token_id("x"), TOK.token_id("y")]) == 2
    assert matcher.may_end() and matcher.done() and set(legal(matcher).tolist()) == set(TOK.turn_end_ids)


@pytest.mark.parametrize("choices", [["ab"], ["ab", "abc"]])
def test_an_end_token_counts_once_and_can_be_taken_back(choices):
    matcher = COMPILER.compile(GrammarSpec.of("choice", choices))
    a, b, end = TOK.token_id("a"), TOK.token_id("b"), min(TOK.turn_end_ids)
    assert matcher.accept([a, end]) == 1 and not matcher.done()
    assert matcher.accept([b, end, end, b]) == 2 and matcher.done()
    assert matcher.accept([end]) == 0
    matcher.rollback(2)
    assert not matcher.done() and matcher.accept([b, end]) == 2


@pytest.mark.parametrize(
    "kind, value",
    [
        ("json_schema", "text"), ("json_schema", {"type": "no-such-type"}), ("json_schema", {"type": "object", "x": float("nan")}),
        ("json_schema", {"$ref": "#/$defs/missing"}), ("json_schema", {"not": {"type": "string"}}),
        ("regex", "(unclosed"), ("regex", ""), ("regex", "(?<!a)b"), ("regex", 5),
        ("choice", []), ("choice", "abc"), ("choice", ["a", 1]), ("choice", [""]), ("choice", ["a"] * 5000),
        ("lark", "start: nothing"), ("lark", "start: ("), ("lark", "x" * 300_000),
    ],
)
def test_a_bad_grammar_is_refused_in_one_line(kind, value):
    with pytest.raises(UserInputError) as e:
        COMPILER.compile(GrammarSpec.of(kind, value, "guided"), "guided")
    assert "\n" not in str(e.value) and str(e.value).startswith("guided: ") and e.value.field == "guided"


@pytest.mark.timeout(120)                                           # without limits some of these never end
@pytest.mark.parametrize(
    "kind, value",
    [
        ("regex", "(((a{1,1000}){1,1000}){1,1000}){1,1000}"),
        ("regex", "(a|b|ab)*" * 2000),
        ("json_schema", {"type": "string", "pattern": "^(([a-z])+.)+[A-Z]([a-z])+$" * 200}),
        ("json_schema", {"allOf": [{"anyOf": [{"type": "object", "properties": {f"p{i}": {"minLength": i}}} for i in range(60)]}] * 12}),
        ("json_schema", {"type": "object", "properties": {f"p{i}": {"type": "string"} for i in range(5000)}}),
        ("lark", "start: " + " ".join(f"r{i}" for i in range(20)) + "\n" + "\n".join(f"r{i}: r{i + 1} r{i + 1}" for i in range(40)) + '\nr40: "a"'),
    ],
)
def test_an_explosive_grammar_ends_soon(kind, value):
    try:
        matcher = COMPILER.compile(GrammarSpec.of(kind, value))
        legal(matcher)
    except Exception as e:
        assert "\n" not in str(e)


def test_the_same_grammar_is_compiled_once():
    compiler = GrammarCompiler(TOK, keep=2)
    specs = [GrammarSpec.of("choice", [c]) for c in "abc"]
    for s in [*specs, specs[2]]:
        compiler.compile(s)
    assert len(compiler._cache) == 2


def test_a_grammar_behind_thinking_begins_with_its_token_and_rolls_back_over_it():
    think = TOK.token_id("</tool_call>")                            # stands for the end of thinking in this vocabulary
    matcher = AfterThinking(compile_grammar(TOK, "choice", ["ab"]), Thinking((think,), withheld=TOK.turn_end_ids))
    a, b, end = TOK.token_id("a"), TOK.token_id("b"), TOK.eos_id
    bits = np.full((1, (TOK.vocab_size + 31) // 32 + 2), 0xFFFFFFFF, np.uint32)
    matcher.fill(bits, 0)
    free = np.flatnonzero(np.unpackbits(bits[0].view(np.uint8), bitorder="little"))
    assert {a, b, think} <= set(free.tolist()) and end not in free
    assert matcher.accept(np.array([b, end])) == 1
    assert matcher.accept(np.array([b, think, a, a])) == 3
    matcher.fill(bits, 0)
    assert np.flatnonzero(np.unpackbits(bits[0].view(np.uint8), bitorder="little")).tolist() == [b]
    matcher.rollback(2)
    assert matcher.accept([b, b, think]) == 3 and matcher.accept([end]) == 0
    assert matcher.accept([a, b, end]) == 3


def test_a_model_that_may_think_or_not_is_held_to_the_grammar_either_way():
    start, think = TOK.token_id("<tool_call>"), TOK.token_id("</tool_call>")
    ab, b, end = TOK.token_id("ab"), TOK.token_id("b"), TOK.eos_id
    matcher = AfterThinking(compile_grammar(TOK, "choice", ["ab"]), Thinking((think,), start=(start,), withheld=TOK.turn_end_ids))
    bits = np.zeros((1, (TOK.vocab_size + 31) // 32), np.uint32)

    def legal_now() -> set[int]:
        matcher.fill(bits, 0)
        return set(np.flatnonzero(np.unpackbits(bits[0].view(np.uint8), bitorder="little")).tolist())

    assert legal_now() == {ab, start}
    assert matcher.accept([b]) == 0
    assert matcher.accept([ab, end]) == 2                           # it does not think
    matcher.rollback(2)
    assert legal_now() == {ab, start}
    assert matcher.accept([start, b, end]) == 2                     # it thinks
    assert {ab, b, think} <= legal_now() and end not in legal_now()
    assert matcher.accept([think]) == 1 and legal_now() == {ab}
    matcher.rollback(3)
    assert legal_now() == {ab, start} and matcher.accept([start, think, ab, end]) == 4


def test_matchers_of_one_tokenizer_share_compiled_grammars_and_not_their_state():
    first, second = (compile_grammar(TOK, "choice", ["ab"]) for _ in range(2))
    assert first.accept([TOK.token_id("a")]) == 1
    assert second.accept([TOK.token_id("b")]) == 0
    with pytest.raises(UserInputError, match="'xml' is not one of"):
        compile_grammar(TOK, "xml", "x")
