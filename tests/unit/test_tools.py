"""Tool-call parsers: the same calls and text at every cut; what is no call stays text."""

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.core.errors import UserInputError
from headwater.text.tools.api import CallDelta, TextDelta, detect_format, tool_parser


def run(name, pieces, functions=None):
    """Text and calls [(name, arguments)] as a client would put them together; checks the order of the deltas on the way."""
    ids = (f"id{i}" for i in itertools.count())
    parser = tool_parser(name, functions, lambda: next(ids))
    text, calls = "", []
    for d in [d for p in pieces for d in parser.push(p)] + parser.finish():
        if isinstance(d, TextDelta):
            assert d.text
            text += d.text
        elif d.name is not None:
            assert (d.index, d.id) == (len(calls), f"id{len(calls)}")
            calls.append([d.name, d.arguments])
        else:
            assert isinstance(d, CallDelta) and d.index == len(calls) - 1 and d.id is None
            calls[d.index][1] += d.arguments
    assert parser.calls == len(calls)
    return text, [tuple(c) for c in calls]


F = ("f", '{"a": "x}y\\"]", "b": [1, {"c": null}]}')
G = ("g.h-1", "{}")
G_OBJECT = '{"name": "g.h-1", "arguments": {}}'
P = ("f", '{"a": 1, "b": "x)]", "c": [true, null, -1.5], "d": {"k": true}}')
CASES = [
    ("hermes", f'<tool_call>\n{{"name": "f", "arguments": {F[1]}}}\n</tool_call>', ("", [F])),
    ("hermes", f'Sure.\n\n<tool_call>{{"arguments": {F[1]}, "name": "f"}}</tool_call>\n<tool_call>\n{G_OBJECT}\n</tool_call>', ("Sure.", [F, G])),
    ("hermes", '<tool_call>{"name": "g.h-1"}</tool_call> done ', ("done ", [G])),
    ("hermes", '<tool_call>{"name": "g.h-1", "arguments": null}</tool_call>', ("", [G])),
    ("hermes", '<tool_call>{"name": "f", "arguments": "{\\"a\\": 1}"}</tool_call>', ("", [("f", '{"a": 1}')])),
    ("hermes", '<tool_call>{"name": "f", "arguments": {"a": 1}}', ("", [("f", '{"a": 1}')])),
    ("hermes", '<tool_call>{"name": "f", "arguments": {"a": [1, 2', ("", [("f", '{"a": [1, 2')])),
    ("hermes", "plain < text <tool_cal ", ("plain < text <tool_cal ", [])),
    ("hermes", "<tool_call>not json</tool_call>", ("<tool_call>not json</tool_call>", [])),
    ("hermes", '<tool_call>{"name": 5}</tool_call>', ('<tool_call>{"name": 5}</tool_call>', [])),
    ("hermes", "<tool_call>", ("<tool_call>", [])),
    ("llama3_json", f'{{"name": "f", "parameters": {F[1]}}}', ("", [F])),
    ("llama3_json", f'<|python_tag|>{{"name": "f", "parameters": {F[1]}}}; {G_OBJECT}', ("", [F, G])),
    ("llama3_json", '{"type": "function", "name": "f", "parameters": {"a": 1}}', ("", [("f", '{"a": 1}')])),
    ("llama3_json", '{"name": "Bob", "age": 3}', ('{"name": "Bob", "age": 3}', [])),
    ("llama3_json", ' {"x": 1} ', (' {"x": 1} ', [])),
    ("llama3_json", "Hello {} there", ("Hello {} there", [])),
    ("llama3_json", "<|python", ("<|python", [])),
    ("llama3_json", '{"name": "f"', ('{"name": "f"', [])),
    ("mistral", f'[TOOL_CALLS] [{{"name": "f", "arguments": {F[1]}}}, {G_OBJECT}]', ("", [F, G])),
    ("mistral", f"Hi [TOOL_CALLS]f[ARGS]{F[1]}[TOOL_CALLS]g.h-1[ARGS]{{}}", ("Hi", [F, G])),
    ("mistral", f"[TOOL_CALLS]f[CALL_ID]abcdefghi[ARGS]{F[1]}", ("", [F])),
    ("mistral", "[TOOL", ("[TOOL", [])),
    ("mistral", "a [list] of things", ("a [list] of things", [])),
    ("mistral", "[TOOL_CALLS] what?!", ("[TOOL_CALLS] what?!", [])),
    ("pythonic", "[f(a=1, b='x)]', c=[True, None, -1.5], d={'k': true})]", ("", [P])),
    ("pythonic", "<|python_start|>[f(a=1), g.h(b=2)]<|python_end|>", ("", [("f", '{"a": 1}'), ("g.h", '{"b": 2}')])),
    ("pythonic", "[1, 2, 3]", ("[1, 2, 3]", [])),
    ("pythonic", "[f(x)]", ("[f(x)]", [])),
    ("pythonic", "[f(a=__import__('os'))]", ("[f(a=__import__('os'))]", [])),
    ("pythonic", "[f(a=1", ("[f(a=1", [])),
    ("pythonic", "Hello [f(a=1)]", ("Hello [f(a=1)]", [])),
]


@pytest.mark.parametrize("name, text, want", CASES)
def test_calls_and_text_are_the_same_at_every_cut(name, text, want):
    assert run(name, [text]) == want
    assert run(name, list(text)) == want
    for cut in range(len(text) + 1):
        assert run(name, [text[:cut], text[cut:]]) == want


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | st.text(max_size=6),
    lambda v: st.lists(v, max_size=3) | st.dictionaries(st.text(max_size=4), v, max_size=3),
)
CALLS = st.lists(st.tuples(st.sampled_from(["f", "get_weather"]), st.dictionaries(st.text(max_size=4), JSON, max_size=3)), min_size=1, max_size=3)
WRITE = {
    "hermes": lambda calls: "\n".join(f'<tool_call>\n{json.dumps({"name": n, "arguments": a})}\n</tool_call>' for n, a in calls),
    "llama3_json": lambda calls: "; ".join(json.dumps({"name": n, "parameters": a}) for n, a in calls),
    "mistral": lambda calls: "[TOOL_CALLS]" + json.dumps([{"name": n, "arguments": a} for n, a in calls]),
}


@pytest.mark.parametrize("name", WRITE)
@given(calls=CALLS, seed=st.randoms(use_true_random=False))
def test_any_calls_come_back_whatever_the_cuts(name, calls, seed):
    text = WRITE[name](calls)
    cuts = sorted(seed.randrange(len(text) + 1) for _ in range(5))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    rest, got = run(name, pieces)
    assert rest == "" and [(n, json.loads(a)) for n, a in got] == calls


PIECES = (
    "<tool_call>", "</tool_call>", "[TOOL_CALLS]", "[ARGS]", "<|python_tag|>", '{"name": "f", ', '"arguments": {', "}", "{", "[", "]", "f(", "a=1",
    ")", ", ", '"', "\\", " ", "x", "\n",
)


@pytest.mark.parametrize("name", ["hermes", "llama3_json", "mistral", "pythonic"])
@given(pieces=st.lists(st.sampled_from(PIECES), max_size=14))
def test_garbage_never_crashes_and_does_not_depend_on_the_cuts(name, pieces):
    text = "".join(pieces)
    assert run(name, pieces) == run(name, [text]) == run(name, list(text))


def test_unknown_functions_are_text_where_the_format_has_no_markers():
    text = '{"name": "nope", "parameters": {"a": 1}}'
    assert run("llama3_json", list(text), ["f"]) == (text, [])
    assert run("pythonic", ["[nope(a=1)]"], ["f"]) == ("[nope(a=1)]", [])


def test_mistral_ids_have_nine_letters_or_digits():
    parser = tool_parser("mistral")
    first = parser.push('[TOOL_CALLS][{"name": "f", "arguments": {}}]')[0]
    assert isinstance(first, CallDelta) and first.id is not None and len(first.id) == 9 and first.id.isalnum()


def test_arguments_stream_before_the_call_is_complete():
    parser = tool_parser("hermes")
    assert [d.name for d in parser.push('<tool_call>{"name": "f", "arguments": {"a": ')] == ["f", None]
    assert [d.arguments for d in parser.push('"bc')] == ['"bc']


def test_the_format_is_found_in_the_template_and_unknown_names_are_refused():
    assert detect_format("... <tool_call> ...") == "hermes" and detect_format("[TOOL_CALLS]") == "mistral"
    assert detect_format(None) is None
    with pytest.raises(UserInputError, match="--tool-parser nope"):
        tool_parser("nope")
