"""Chat templates: what they are given, what they may use, how they fail."""

import json

import pytest

from headwater.core.errors import FormatError, UserInputError
from headwater.text.template import ChatTemplate, MissingChatTemplate

CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>' + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
USER = [{"role": "user", "content": "hi"}]


def render(source: str, messages=None, **options) -> str:
    return ChatTemplate(source, {"bos_token": "<s>", "eos_token": "</s>"}).render(messages or USER, **options)


def test_messages_become_the_prompt_and_the_generation_prompt_is_optional():
    assert render(CHATML) == "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    assert render(CHATML, add_generation_prompt=False) == "<|im_start|>user\nhi<|im_end|>\n"


def test_a_model_without_a_template_names_the_option_that_gives_one():
    template = ChatTemplate(None)
    assert not template.exists
    with pytest.raises(MissingChatTemplate, match="--chat-template"):
        template.render(USER)


def test_text_parts_join_and_other_parts_are_refused_by_name():
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert "user\na\nb<|im_end|>" in render(CHATML, [{"role": "user", "content": parts}])
    with pytest.raises(UserInputError, match=r"messages\[0\]\.content\[1\] is a part of type 'image_url'") as e:
        render(CHATML, [{"role": "user", "content": [parts[0], {"type": "image_url", "image_url": {}}]}])
    assert e.value.field == "messages[0].content[1]"


@pytest.mark.parametrize("bad", [{"role": "user", "content": 5}, {"content": "x"}, "text", {"role": 1}, {"role": "user", "tool_calls": "x"}])
def test_a_malformed_message_is_refused_by_its_place(bad):
    with pytest.raises(UserInputError, match=r"messages\[1\]"):
        render(CHATML, [USER[0], bad])


def test_tool_arguments_reach_the_template_as_an_object():
    call = {"id": "1", "function": {"name": "f", "arguments": '{"a": "Zürich"}'}}
    source = "{% for c in messages[0].tool_calls %}{{ c.function.arguments | tojson }}{{ c.type }}{% endfor %}"
    assert render(source, [{"role": "assistant", "content": None, "tool_calls": [call]}]) == '{"a": "Zürich"}function'
    broken = {"id": "1", "function": {"name": "f", "arguments": "{"}}
    with pytest.raises(UserInputError, match=r"messages\[0\]\.tool_calls\[0\]\.function\.arguments is not valid JSON"):
        render(source, [{"role": "assistant", "tool_calls": [broken]}])


def test_a_template_that_wants_tool_arguments_as_text_gets_text():
    call = {"id": "1", "function": {"name": "f", "arguments": '{"a": 1}'}}
    assert render("{{ 'x' + messages[0].tool_calls[0].function.arguments }}", [{"role": "assistant", "tool_calls": [call]}]) == 'x{"a": 1}'


def test_the_helpers_that_templates_expect_are_there():
    assert render("{{ bos_token }}{{ tools | tojson(indent=1) }}", tools=[{"a": "<ü>"}]) == '<s>[\n {\n  "a": "<ü>"\n }\n]'
    assert len(render("{{ strftime_now('%d %b %Y') }}")) == 11
    assert render("{% for i in range(9) %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 4 %}{% break %}{% endif %}{{ i }}{% endfor %}") == "013"
    assert render("{% generation %}a{{ messages[0].content }}{% endgeneration %}b") == "ahib"
    assert render("{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{{ loop.last }}{% endfor %}{{ ns.n }}") == "True1"
    assert render("  {% if true %}\n  x\n  {% endif %}\ny") == "  x\ny"
    assert render("{{ enable_thinking }}", options={"enable_thinking": False}) == "False"


def test_a_refusal_of_the_template_reaches_the_user():
    with pytest.raises(UserInputError, match="refuses these messages: roles must alternate"):
        render("{{ raise_exception('roles must\nalternate') }}")


def test_the_final_message_can_be_continued_where_it_ends():
    chat = [*USER, {"role": "assistant", "content": "Once upon "}]
    text = render(CHATML, chat, add_generation_prompt=False, continue_final_message=True)
    assert text.endswith("<|im_start|>assistant\nOnce upon ")
    with pytest.raises(UserInputError, match="add_generation_prompt"):
        render(CHATML, chat, continue_final_message=True)
    with pytest.raises(UserInputError, match="role assistant"):
        render(CHATML, USER, add_generation_prompt=False, continue_final_message=True)


def test_a_template_from_a_file_wins_over_the_models_own(tmp_path, smollm2):
    from headwater.model.load.gguf import open_gguf
    from headwater.text.tokenizer import Tokenizer

    tok = Tokenizer.from_gguf(open_gguf(smollm2).metadata)
    own = ChatTemplate.of(tok).render(USER)
    assert own.endswith("<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n")
    file = tmp_path / "t.jinja"
    file.write_text("{{ eos_token }}!")
    assert ChatTemplate.of(tok, file).render(USER) == "<|im_end|>!"
    with pytest.raises(FormatError, match=r"--chat-template .*missing"):
        ChatTemplate.of(tok, tmp_path / "missing.jinja")


@pytest.mark.parametrize(
    "source", ["{% if %}", "{% for x in messages %}", "{{ a | nosuchfilter }}", "{% include 'x' %}{% bogus %}", "(" * 10 + "{{ " + "(" * 20_000]
)
def test_a_template_that_does_not_compile_is_refused_in_one_line(source):
    with pytest.raises(FormatError) as e:
        ChatTemplate(source, name="t.jinja")
    assert str(e.value).startswith("t.jinja: ") and "\n" not in str(e.value)


def test_a_deeply_nested_template_is_refused():
    with pytest.raises((FormatError, UserInputError)):
        render("{{ " + "[" * 5000 + "]" * 5000 + " }}")


def test_values_of_messages_are_not_templates():
    assert "{{ 7*7 }}" in render(CHATML, [{"role": "user", "content": "{{ 7*7 }}{% raise %}"}])


def test_json_of_tools_keeps_order_and_is_not_html_escaped():
    tool = {"type": "function", "function": {"name": "f", "description": "a<b & 'c'"}}
    assert json.loads(render("{{ tools[0] | tojson }}", tools=[tool])) == tool
