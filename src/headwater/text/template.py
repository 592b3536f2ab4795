"""Chat template: messages, tools and options to the prompt text that the model was trained on."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import TemplateSyntaxError

from headwater.core.errors import FormatError, UserInputError
from headwater.text.sandbox import MAX_SOURCE, Budget, TemplateRefusal, TemplateSandbox, budget

if TYPE_CHECKING:
    from headwater.text.tokenizer import Tokenizer

_CONTINUE = "\ue000continue\ue001"                                  # private-use characters: no message holds them by chance


class MissingChatTemplate(UserInputError):
    """The model brings no chat template and none was given."""

    def __init__(self) -> None:
        super().__init__("the model has no chat template; start with --chat-template FILE to give it one, or use completions", "messages")


class ChatTemplate:
    """A compiled template. Rendering is thread-safe, bounded in time and output, and runs in a sandbox.

    source: jinja2 text, None for a model without one (rendering then raises MissingChatTemplate).
    tokens: names that the template may use, `bos_token`, `eos_token` and the like.
    """

    def __init__(self, source: str | None, tokens: Mapping[str, str] | None = None, name: str = "chat template") -> None:
        self.source, self.name, self._tokens = source, name, dict(tokens or {})
        self._template = None
        if source is None:
            return
        if len(source) > MAX_SOURCE:
            raise FormatError(f"{name}: {len(source):,} characters; at most {MAX_SOURCE:,} are allowed", field="chat_template")
        try:
            self._template = TemplateSandbox().from_string(source)
        except TemplateSyntaxError as e:
            raise FormatError(f"{name}: line {e.lineno}: {_one_line(e.message)}", field="chat_template") from None
        except (RecursionError, MemoryError):
            raise FormatError(f"{name}: nested too deeply", field="chat_template") from None
        except Exception as e:                                      # the compiler's own: a name that Python rejects, for one
            raise FormatError(f"{name}: cannot be compiled ({_one_line(e)})", field="chat_template") from None

    @classmethod
    def of(cls, tokenizer: Tokenizer, file: Path | str | None = None) -> ChatTemplate:
        """The template in `file` (`--chat-template`), else the model's own, else one that refuses to render."""
        v = tokenizer.vocab
        ids = {"bos_token": v.bos_id, "eos_token": v.eos_id, "pad_token": v.pad_id, "unk_token": v.unk_id}
        tokens = {k: v.text(i) for k, i in ids.items() if i is not None}
        if file is None:
            return cls(tokenizer.chat_template, tokens)
        path = Path(file)
        try:
            with path.open("rb") as f:
                source = f.read(4 * MAX_SOURCE + 1).decode()
        except (OSError, UnicodeDecodeError, ValueError) as e:
            reason = e.strerror if isinstance(e, OSError) else "not UTF-8 text"
            raise FormatError(f"--chat-template {path}: cannot be read ({reason})", field="chat_template") from None
        return cls(source, tokens, name=f"--chat-template {path.name}")

    @property
    def exists(self) -> bool:
        """Whether there is a template to render."""
        return self._template is not None

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        documents: Sequence[Mapping[str, Any]] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> str:
        """The prompt text; encode it without special tokens around it, the template has put them there.

        messages: role and content each, content text or a list of text parts; tool calls and results as in OpenAI's API.
        continue_final_message: leave the last message open, the model goes on with it. options: `chat_template_kwargs`.
        Raises UserInputError naming the field, also when the template itself refuses the conversation.
        """
        if self._template is None:
            raise MissingChatTemplate
        if continue_final_message and add_generation_prompt:
            raise UserInputError("continue_final_message needs add_generation_prompt=false", field="continue_final_message")
        chat = [_message(m, i) for i, m in enumerate(messages)]
        if not chat:
            raise UserInputError("messages is empty; at least one message would be right", field="messages")
        if continue_final_message:
            chat[-1]["content"] = _final_text(chat[-1], len(chat) - 1) + _CONTINUE
        variables = {
            **self._tokens, **(options or {}), "messages": chat, "tools": list(tools) if tools else None,
            "documents": list(documents) if documents else None, "add_generation_prompt": add_generation_prompt,
        }
        text = self._render(variables)
        if not continue_final_message:
            return text
        cut = text.rfind(_CONTINUE)
        if cut < 0:
            raise UserInputError(f"{self.name}: it does not show the last message, so it cannot be continued", field="continue_final_message")
        return text[:cut]

    def _render(self, variables: dict[str, Any]) -> str:
        """A few templates want tool arguments as JSON text, as on the wire; they get it when the object makes them fail."""
        try:
            return self._run(variables)
        except UserInputError as first:
            if not any("tool_calls" in m for m in variables["messages"]):
                raise
            try:
                return self._run({**variables, "messages": [_with_text_arguments(m) for m in variables["messages"]]})
            except UserInputError:
                raise first from None

    def _run(self, variables: dict[str, Any]) -> str:
        assert self._template is not None
        token = budget.set(Budget())
        try:
            return self._template.render(variables)
        except TemplateRefusal as e:
            raise UserInputError(f"the chat template refuses these messages: {_one_line(e) or 'no reason given'}", field="messages") from None
        except (RecursionError, MemoryError):
            raise UserInputError(f"{self.name}: it nests too deeply for these messages", field="messages") from None
        except Exception as e:                                      # whatever a foreign template trips over is a fault of template or messages
            raise UserInputError(f"{self.name}: {type(e).__name__}: {_one_line(e)}", field="messages") from None
        finally:
            budget.reset(token)


def _one_line(message: object) -> str:
    text = " ".join(str(message).split())
    return "".join(c if c.isprintable() else "?" for c in text[:300])


def _message(message: Mapping[str, Any], i: int) -> dict[str, Any]:
    """A message as templates expect it: text content, tool arguments as objects, reasoning under both of its names."""
    if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
        raise UserInputError(f"messages[{i}] is not an object with a role", field=f"messages[{i}]")
    out = dict(message)
    out["content"] = content_text(message.get("content"), f"messages[{i}].content")
    reasoning = message.get("reasoning_content") or message.get("reasoning")
    if isinstance(reasoning, str):
        out["reasoning_content"] = out["reasoning"] = reasoning
    calls = message.get("tool_calls")
    if calls is None:
        out.pop("tool_calls", None)
        return out
    if not isinstance(calls, Sequence) or isinstance(calls, str):
        raise UserInputError(f"messages[{i}].tool_calls is not a list", field=f"messages[{i}].tool_calls")
    out["tool_calls"] = [_tool_call(c, f"messages[{i}].tool_calls[{k}]") for k, c in enumerate(calls)]
    return out


def _tool_call(call: Any, field: str) -> dict[str, Any]:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise UserInputError(f"{field} has no function with a name", field=field)
    arguments = function.get("arguments")
    if isinstance(arguments, str):                                  # on the wire it is JSON in a string; templates print the object
        try:
            arguments = json.loads(arguments or "{}")
        except (ValueError, RecursionError):
            raise UserInputError(f"{field}.function.arguments is not valid JSON", field=f"{field}.function.arguments") from None
    return {**call, "type": call.get("type", "function"), "function": {**function, "arguments": arguments if arguments is not None else {}}}


def _with_text_arguments(message: dict[str, Any]) -> dict[str, Any]:
    if "tool_calls" not in message:
        return message
    functions = [c["function"] for c in message["tool_calls"]]
    texts = [{**f, "arguments": f["arguments"] if isinstance(f["arguments"], str) else json.dumps(f["arguments"])} for f in functions]
    return {**message, "tool_calls": [{**c, "function": f} for c, f in zip(message["tool_calls"], texts, strict=True)]}


def content_text(content: Any, field: str) -> str:
    """Text of a message's content: a string, null, or a list of text parts (joined by line breaks)."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, Sequence):
        raise UserInputError(f"{field} is neither text nor a list of parts", field=field)
    texts = []
    for i, part in enumerate(content):
        if isinstance(part, str):
            texts.append(part)
            continue
        kind = part.get("type") if isinstance(part, Mapping) else type(part).__name__
        text = part.get("text", part.get("refusal")) if isinstance(part, Mapping) else None
        if kind not in ("text", "input_text", "output_text", "refusal") or not isinstance(text, str):
            raise UserInputError(f"{field}[{i}] is a part of type {str(kind)[:40]!r}; only text parts are supported", field=f"{field}[{i}]")
        texts.append(text)
    return "\n".join(texts)


def _final_text(message: Mapping[str, Any], i: int) -> str:
    if message["role"] != "assistant" or message.get("tool_calls"):
        raise UserInputError("continue_final_message needs a last message of role assistant without tool calls", field=f"messages[{i}]")
    return message["content"]
