"""Structured output and tools through the unmodified openai client: what is demanded is what comes, streamed or whole."""

import json

import httpx
import openai
import pydantic
import pytest

ASK = [{"role": "user", "content": "Say hello."}]
WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "Weather of a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"enum": ["Bern", "Oslo"]}, "days": {"type": "integer", "minimum": 0, "maximum": 9}},
            "required": ["city", "days"],
            "additionalProperties": False,
        },
    },
}
CLOCK = {"type": "function", "function": {"name": "clock", "parameters": {"type": "object", "properties": {}, "additionalProperties": False}}}


class Point(pydantic.BaseModel):
    """Bounded, so that a model without sense comes to an end."""

    model_config = pydantic.ConfigDict(extra="forbid")

    kind: str = pydantic.Field(json_schema_extra={"enum": ["a", "b"]})
    on: bool


@pytest.fixture(scope="module")
def client(echo):
    return openai.OpenAI(base_url=echo.v1, api_key="none", max_retries=0)


def schema() -> dict:
    return {"type": "json_schema", "json_schema": {"name": "point", "schema": Point.model_json_schema(), "strict": True}}


@pytest.mark.parametrize("seed", range(4))
def test_a_schema_is_kept_streamed_and_whole(client, seed) -> None:
    args = {"model": "echo", "messages": ASK, "response_format": schema(), "temperature": 1.5, "seed": seed, "max_tokens": 200}
    whole = client.chat.completions.create(**args)
    assert whole.choices[0].finish_reason in ("stop", "length")
    if whole.choices[0].finish_reason == "stop":
        Point.model_validate_json(whole.choices[0].message.content)
    text = "".join(c.choices[0].delta.content or "" for c in client.chat.completions.create(**args, stream=True) if c.choices)
    assert text == whole.choices[0].message.content


def test_the_clients_parse_helper_gets_an_object(client) -> None:
    r = client.chat.completions.parse(model="echo", messages=ASK, response_format=Point, temperature=0.5, seed=1, max_tokens=400)
    assert isinstance(r.choices[0].message.parsed, Point)


@pytest.mark.parametrize(("field", "value", "good"), [
    ("guided_choice", ["red", "green"], lambda t: t in ("red", "green")),
    ("guided_regex", "[0-9]{3}-[ab]", lambda t: len(t) == 5 and t[:3].isdigit()),
    ("structured_outputs", {"choice": ["up", "down"]}, lambda t: t in ("up", "down")),
    ("guided_grammar", 'start: "x" "y"', lambda t: t == "xy"),
])
def test_other_spellings_of_structured_output_are_kept(client, field, value, good) -> None:
    r = client.chat.completions.create(model="echo", messages=ASK, temperature=1, seed=3, max_tokens=50, extra_body={field: value})
    assert good(r.choices[0].message.content), r.choices[0].message.content


@pytest.mark.parametrize(("extra", "param"), [
    ({"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "nonsense"}}}}, "response_format"),
    ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
    ({"guided_regex": "("}, "response_format"),
    ({"guided_regex": "a", "guided_choice": ["a"]}, "guided_choice"),
    ({"tools": [WEATHER, WEATHER]}, "tools[1].function.name"),
    ({"tools": [WEATHER], "tool_choice": {"type": "function", "function": {"name": "other"}}}, "tool_choice"),
    ({"tool_choice": "required"}, "tool_choice"),
])
def test_what_cannot_be_enforced_is_refused_never_ignored(echo, extra, param) -> None:
    r = httpx.post(f"{echo.v1}/chat/completions", json={"messages": ASK, "max_tokens": 5, **extra}, timeout=60)
    assert r.status_code == 400, r.text
    assert r.json()["error"]["message"]
    if not param.startswith("response_format"):
        assert r.json()["error"]["param"] == param


@pytest.mark.parametrize(("choice", "names"), [
    ("required", {"weather", "clock"}),
    ({"type": "function", "function": {"name": "weather"}}, {"weather"}),
])
def test_a_demanded_call_comes_and_its_arguments_follow_the_schema(client, choice, names) -> None:
    args = {"model": "echo", "messages": ASK, "tools": [WEATHER, CLOCK], "tool_choice": choice, "temperature": 1, "seed": 5, "max_tokens": 800}
    r = client.chat.completions.create(**args)
    assert r.choices[0].finish_reason == "tool_calls"
    calls = r.choices[0].message.tool_calls
    assert calls and {c.function.name for c in calls} <= names
    for c in calls:
        arguments = json.loads(c.function.arguments)
        assert c.function.name == "clock" or (arguments["city"] in ("Bern", "Oslo") and 0 <= arguments["days"] <= 9)
    parts: dict[int, list[str]] = {}
    seen: list[str] = []
    for chunk in client.chat.completions.create(**args, stream=True):
        for t in chunk.choices[0].delta.tool_calls or []:
            if t.id:
                seen.append(t.function.name)
            parts.setdefault(t.index, []).append(t.function.arguments or "")
    assert seen == [c.function.name for c in calls]
    assert ["".join(parts[i]) for i in sorted(parts)] == [c.function.arguments for c in calls]


def test_no_call_is_made_where_none_is_allowed(client) -> None:
    r = client.chat.completions.create(model="echo", messages=ASK, tools=[WEATHER], tool_choice="none", max_tokens=10, temperature=0)
    assert r.choices[0].message.tool_calls is None and r.choices[0].message.content


def test_a_turn_with_calls_and_results_can_be_sent_back(client) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Bern", "days": 1}'}}
    history = [*ASK, {"role": "assistant", "content": None, "tool_calls": [call]}, {"role": "tool", "tool_call_id": "c1", "content": "sunny"}]
    r = client.chat.completions.create(model="echo", messages=history, tools=[WEATHER], max_tokens=5, temperature=0)
    assert r.usage.prompt_tokens > 20
