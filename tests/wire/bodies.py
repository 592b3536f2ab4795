"""Request bodies for every POST endpoint: right ones, with pieces made wrong. The same strategies feed the tests and the long fuzz judge."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

ASK = [{"role": "user", "content": "hi"}]
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}}}
STATE = {"state": "s", "questions": {"q": {"type": "noul", "instructions": "x"}, "c": {"type": "choice", "criteria": {"a": None, "b": "x"}}}}
# a right body of each endpoint, with every field that changes what is done
BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {
        "messages": ASK, "max_tokens": 4, "temperature": 1, "top_p": 0.9, "top_k": 5, "min_p": 0.1, "n": 2, "stop": ["a"], "seed": 1,
        "stream": True, "stream_options": {"include_usage": True}, "logprobs": True, "top_logprobs": 2, "tools": [TOOL], "tool_choice": "auto",
        "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"enum": [1, 2]}}}, "logit_bias": {"65": 1},
        "chat_template_kwargs": {"a": 1}, "reasoning_effort": "low", "parallel_tool_calls": True, "min_tokens": 1, "stop_token_ids": [65],
        "allowed_token_ids": [65, 66, 123], "cache_salt": "s", "priority": 1, "request_id": "r", "return_token_ids": True, "guided_regex": "a|b",
        "continue_final_message": False, "max_completion_tokens": 4, "presence_penalty": 0.5, "repetition_penalty": 1.1, "ignore_eos": True,
    },
    "/v1/completions": {
        "prompt": ["a", "b"], "max_tokens": 3, "echo": True, "logprobs": 1, "prompt_logprobs": 1, "suffix": "", "n": 2, "stream": True,
        "stream_options": {"continuous_usage_stats": True}, "structured_outputs": {"choice": ["x", "y"]}, "user": "u", "best_of": 1, "seed": 3,
    },
    "/v1/embeddings": {"input": ["a", "b"], "encoding_format": "float", "dimensions": 8, "pooling": "mean", "truncate_prompt_tokens": 4},
    "/v1/responses": {
        "input": [{"role": "user", "content": [{"type": "input_text", "text": "x"}]}], "instructions": "i", "max_output_tokens": 3, "store": True,
        "stream": True, "text": {"format": {"type": "text"}}, "tools": [{"type": "function", "name": "f", "parameters": {}}],
        "tool_choice": "auto", "reasoning": {"effort": "low"}, "metadata": {"k": "v"}, "previous_response_id": None, "truncation": "disabled",
    },
    "/v1/messages": {
        "model": "echo", "messages": [*ASK, {"role": "assistant", "content": [{"type": "text", "text": "x"}]}], "max_tokens": 3, "system": "s",
        "stop_sequences": ["a"], "stream": True, "tools": [{"name": "f", "input_schema": {"type": "object"}}], "tool_choice": {"type": "any"},
        "thinking": {"type": "disabled"}, "metadata": {"user_id": "u"}, "top_k": 3,
    },
    "/v1/messages/count_tokens": {"model": "echo", "messages": ASK, "system": [{"type": "text", "text": "x"}], "tools": []},
    "/api/chat": {
        "model": "echo", "messages": [*ASK, {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": {}}}]}],
        "options": {"num_predict": 3, "temperature": 0, "stop": ["a"], "num_ctx": 9}, "format": "json", "think": False, "tools": [TOOL],
        "stream": False, "keep_alive": "5m",
    },
    "/api/generate": {
        "model": "echo", "prompt": "x", "system": "s", "raw": True, "options": {"num_predict": 3, "seed": 1}, "format": {"enum": [1]}, "stream": True,
    },
    "/api/show": {"model": "echo", "name": "echo"},
    "/tokenize": {"messages": ASK, "tools": [TOOL], "add_special_tokens": True, "return_token_strs": True},
    "/detokenize": {"tokens": [65, 300]},
    "/v1/rerank": {"query": "q", "documents": ["a", {"text": "b"}], "top_n": 1, "return_documents": True, "instruction": "i"},
    "/v1/score": {
        "query": "q", "items": ["a", "b"], "label_token_ids": [65, 66], "apply_softmax": True, "item_first": True, "text_1": "a", "text_2": ["b"],
    },
    "/v1/systemone": {"model": "jev", **STATE, "x_debias": "cyclic", "x_label_mass": True},
    "/v1/decisions": {
        "model": "echo", "input": [{"role": "user", "content": "x"}], "x_return_token_ids": True, "questions": [
            {"type": "predicate", "instructions": "x", "name": "p"},
            {"type": "choice", "instructions": "x", "choices": [{"value": "a"}, {"value": True}]},
            {"type": "score", "instructions": "x", "levels": [{"label": "l"}, {"label": "m"}]},
        ],
    },
    "/v1/decisions/batch": {"model": "echo", **STATE},
}
NEEDED = frozenset(("messages", "prompt", "input", "model", "query", "documents", "tokens", "state", "questions", "items", "label_token_ids"))
SHORT = {  # keeps every row short however the rest of the body turns out
    "/v1/chat/completions": ("max_tokens", "max_completion_tokens"), "/v1/completions": ("max_tokens",), "/v1/responses": ("max_output_tokens",),
    "/v1/messages": ("max_tokens",),
}

texts = st.text(max_size=12) | st.sampled_from(["", "\ud800", "\x00", "a" * 300, "<|im_end|>", "<tool_call>", "{", "-1", "\u2028", "../..", "auto"])
numbers = st.integers(-3, 5) | st.sampled_from([2**31, 2**63, 2**64, -(2**63) - 1, 10**30, 1e308, -0.0, 0.5]) | st.floats(allow_nan=True)
scalars = st.none() | st.booleans() | numbers | texts
anything = st.recursive(scalars, lambda x: st.lists(x, max_size=4) | st.dictionaries(texts, x, max_size=4), max_leaves=8)
schemas = st.sampled_from([
    {"type": "nonsense"}, {"$ref": "#/x"}, {"$ref": "#"}, {"pattern": "("}, {"minItems": 10**9, "type": "array"}, {"enum": []}, True, False, {},
    {"type": "object", "properties": {"a": {"$ref": "#"}}}, {"anyOf": [{"type": "string"}] * 60},
    {"const": {"a": [None]}}, {"type": ["integer", "null"]},
    {"type": "string", "maxLength": 10**9}, {"type": "string", "pattern": "(a|b)*c{1,500}"}, {"multipleOf": 0}, {"minimum": 5, "maximum": 1},
])


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place inside of a JSON value."""
    out = [path] if path else []
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, x in inner:
        out += places(x, (*path, key))
    return out


def put(value: Any, path: tuple[Any, ...], new: Any, *, drop: bool = False) -> None:
    for key in path[:-1]:
        value = value[key]
    if drop and isinstance(value, dict):
        del value[path[-1]]
    else:
        value[path[-1]] = new


@st.composite
def bodies(draw: st.DrawFn, path: str) -> Any:
    """A body of the endpoint: some of its fields, a few places of them replaced, dropped or added to; or anything at all."""
    if draw(st.integers(0, 19)) == 0:
        return draw(anything)
    whole = BODIES[path]
    body = json.loads(json.dumps({k: v for k, v in whole.items() if k in NEEDED or draw(st.integers(0, 3)) == 0}))
    for _ in range(draw(st.sampled_from([0, 1, 1, 1, 2, 3]))):
        inside = places(body)
        if not inside:
            break
        put(body, draw(st.sampled_from(inside)), json.loads(json.dumps(draw(anything | schemas))), drop=draw(st.booleans()))
    if draw(st.integers(0, 9)) == 0:
        body[draw(texts)] = draw(anything)
    for name in SHORT.get(path, ()):
        if name in body and (not isinstance(body[name], int) or body[name] > 8):
            body[name] = 4
        elif SHORT[path][0] == name:
            body.setdefault(name, 4)
    if path.startswith("/api/") and path != "/api/show":
        options = body.get("options")
        body["options"] = {**(options if isinstance(options, dict) else {}), "num_predict": 3}
    return body
