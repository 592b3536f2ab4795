"""From a chat request to the shape of its answer: tools that are offered, demanded or forbidden, structured output, reasoning."""

from __future__ import annotations

import json
from typing import Any

from headwater.core.errors import UserInputError
from headwater.engine.client import Grammar
from headwater.engine.front import Front
from headwater.serve.assemble import Assembler, Shape
from headwater.serve.schema.chat import ChatRequest, NamedTool, Tool

MAX_CALLS = 8                     # demanded calls in one answer: a model in a loop must come to an end
OPEN, CLOSE = "<tool_call>\n", "\n</tool_call>"


def shape_of(front: Front, body: ChatRequest) -> Shape:
    """Raises UserInputError for tools that contradict each other or the rest of the request."""
    from headwater.text.reasoning import TWO_STAGE, ReasoningSplitter, detect_format
    from headwater.text.tools.api import detect_format as detect_tools
    from headwater.text.tools.api import tool_parser

    template = front.text.tokenizer.chat_template if front.text.template_file is None else front.text.template.source
    marked = detect_format(template)
    form = TWO_STAGE if marked is None and body.thinking_token_budget is not None and not body.budget_is_advice else marked
    messages = [m.as_dict(f"messages[{i}]") for i, m in enumerate(body.messages)]
    tools = _offered(body)
    grammar = body.grammar()
    demanded = _demanded(body)
    if demanded is not None:
        if grammar is not None:
            raise UserInputError("tool_choice: a demanded call and a response format exclude each other", field="tool_choice")
        grammar = Grammar("lark", call_grammar(demanded, many=body.tool_choice == "required" and body.parallel_tool_calls is not False))
    native = detect_tools(template)
    names = [t.function.name for t in tools or ()]
    as_dicts = [t.model_dump(exclude_none=True) for t in tools] if tools else None
    if tools and native is None:                                    # the template has no place for tools: say it in words
        messages, as_dicts = [{"role": "system", "content": tools_text(tools)}, *_merge_system(messages)], None
        messages = _join_system(messages)
    style = "hermes" if demanded is not None or native is None else native
    after = _token_of(front, form.end) if form is not None and grammar is not None else None

    def assembler(prompt_end: str) -> Assembler:
        splitter = ReasoningSplitter(form, prompt_end) if form is not None else None
        parser = tool_parser(style, names) if tools else None
        return Assembler(splitter, parser, body.parallel_tool_calls is False)

    if grammar is not None and after is not None:
        grammar = Grammar(grammar.kind, grammar.source, after)
    return Shape(assembler, grammar, form is not None, bool(tools) or marked is not None, messages, as_dicts)


def _offered(body: ChatRequest) -> list[Tool] | None:
    if not body.tools:
        if body.tool_choice not in (None, "none", "auto"):
            raise UserInputError("tool_choice: needs tools", field="tool_choice")
        return None
    names = [t.function.name for t in body.tools]
    for i, name in enumerate(names):
        if names.index(name) != i:
            raise UserInputError(f"tools[{i}].function.name: '{name}' is there twice", field=f"tools[{i}].function.name")
    return None if body.tool_choice == "none" else list(body.tools)


def _demanded(body: ChatRequest) -> list[Tool] | None:
    """The tools one of which must be called, None when none has to be."""
    if body.tool_choice == "required":
        return list(body.tools or ())
    if isinstance(body.tool_choice, NamedTool):
        wanted = body.tool_choice.function.name
        found = [t for t in body.tools or () if t.function.name == wanted]
        if not found:
            raise UserInputError(f"tool_choice.function.name: '{wanted}' is none of the tools", field="tool_choice")
        return found
    return None


def call_grammar(tools: list[Tool], many: bool) -> str:
    """Lark grammar (llguidance) of one call, or of 1 to MAX_CALLS, in the Hermes form; arguments follow each tool's schema."""
    calls = [
        {
            "type": "object",
            "properties": {"name": {"const": t.function.name}, "arguments": t.function.parameters or {"type": "object"}},
            "required": ["name", "arguments"],
            "additionalProperties": False,
        }
        for t in tools
    ]
    rest = ' ("\\n" call)?' * (MAX_CALLS - 1) if many else ""
    schema = json.dumps(calls[0] if len(calls) == 1 else {"anyOf": calls})
    return f'start: call{rest}\ncall: {json.dumps(OPEN)} object {json.dumps(CLOSE)}\nobject: %json {schema}\n'


def tools_text(tools: list[Tool]) -> str:
    """What a template without tools is told about them."""
    lines = [json.dumps({k: v for k, v in t.function.model_dump(exclude_none=True).items() if k != "strict"}, ensure_ascii=False) for t in tools]
    return (
        "You can call these functions, one JSON description a line:\n" + "\n".join(lines)
        + "\nTo call one, write a block of exactly this form, as often as needed:\n"
        + f'{OPEN}{{"name": "the function", "arguments": {{...}}}}{CLOSE}'
    )


def _merge_system(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Tool turns in words for a template that knows neither calls nor results."""
    out = []
    for m in messages:
        if m["role"] == "tool":
            out.append({"role": "user", "content": f"<tool_response>\n{m['content']}\n</tool_response>"})
        elif m.get("tool_calls"):
            calls = "\n".join(OPEN + json.dumps(c["function"], ensure_ascii=False) + CLOSE for c in m["tool_calls"])
            out.append({"role": "assistant", "content": "\n".join(filter(None, [m["content"], calls]))})
        else:
            out.append(m)
    return out


def _join_system(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The first two messages as one where both are the system's."""
    if len(messages) > 1 and messages[1]["role"] == "system":
        return [{"role": "system", "content": f"{messages[1]['content']}\n\n{messages[0]['content']}"}, *messages[2:]]
    return messages


def _token_of(front: Front, text: str) -> int | None:
    """The single token that `text` is, if it is one."""
    ids = front.text.tokenizer.encode(text, add_special=False)
    return int(ids[0]) if len(ids) == 1 else None
