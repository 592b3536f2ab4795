"""Judge: the chat templates of the llama-cpp-python source archive, rendered by our sandbox and by plain jinja2 set up as
`transformers` does; the texts must be equal, or both must refuse.

    python tests/judges/templates.py --archive llama_cpp_python-0.3.36.tar.gz
"""

from __future__ import annotations

import argparse
import datetime
import json
import sys
import tarfile
from typing import Any

from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

from headwater.core.errors import UserInputError
from headwater.text.template import ChatTemplate

TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}
TOOLS = [{
    "type": "function",
    "function": {
        "name": "weather", "description": "Look up <b>weather</b>.",
        "parameters": {
            "type": "object", "required": ["city"],
            "properties": {"city": {"type": "string", "description": "Zürich"}, "days": {"type": "integer", "enum": [1, 2]}},
        },
    },
}]
CALL = {"id": "c12345678", "type": "function", "function": {"name": "weather", "arguments": {"city": "Zürich", "days": 2}}}
TALKS: list[list[dict[str, Any]]] = [
    [{"role": "user", "content": "hi"}],
    [
        {"role": "system", "content": "Be kind.\n"}, {"role": "user", "content": " a "}, {"role": "assistant", "content": "b"},
        {"role": "user", "content": "c"},
    ],
    [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "<think>\nx\n</think>\n\ny", "reasoning_content": "x"},
        {"role": "user", "content": "c"},
    ],
    [
        {"role": "user", "content": "w?"}, {"role": "assistant", "content": "", "tool_calls": [CALL]},
        {"role": "tool", "name": "weather", "tool_call_id": "c12345678", "content": "rain"},
    ],
]


def plain(source: str, messages: list[dict[str, Any]], **variables: Any) -> str | None:
    """The text, or None when the template fails or refuses."""

    def refuse(message: str) -> None:
        raise ValueError(message)

    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    env.filters["tojson"] = lambda x, ensure_ascii=False, indent=None, separators=None, sort_keys=False: json.dumps(
        x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )
    env.globals |= {"raise_exception": refuse, "strftime_now": lambda f: datetime.datetime.now().strftime(f)}
    try:
        return env.from_string(source).render(messages=messages, **variables, **TOKENS)
    except Exception:
        return None


def ours(source: str, messages: list[dict[str, Any]], **variables: Any) -> str | None:
    flag = variables.pop("add_generation_prompt")
    tools = variables.pop("tools")
    try:
        return ChatTemplate(source, TOKENS).render(messages, tools=tools, add_generation_prompt=flag, options=variables)
    except UserInputError:
        return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--archive", required=True)
    wrong = cases = rendered = 0
    with tarfile.open(parser.parse_args().archive) as tar:
        for member in tar:
            if "/models/templates/" not in member.name or not member.name.endswith(".jinja"):
                continue
            source = tar.extractfile(member).read().decode()  # type: ignore[union-attr]
            for talk in TALKS:
                for tools in (None, TOOLS):
                    for flag in (True, False):
                        want = plain(source, talk, tools=tools, documents=None, add_generation_prompt=flag)
                        got = ours(source, talk, tools=tools, documents=None, add_generation_prompt=flag)
                        cases, rendered = cases + 1, rendered + (want is not None)
                        if want != got and not (want is None and got is not None):
                            wrong += 1
                            print(f"{member.name.split('/')[-1]}: {talk[-1]['role']} tools={bool(tools)}: plain {want!r:.200} ours {got!r:.200}")
    print(f"{cases} renderings, {rendered} accepted by plain jinja2, {wrong} different")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
