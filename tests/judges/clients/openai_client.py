"""The openai package: sync, async, streams, parse with pydantic, tools, embeddings, responses, completions, models, errors."""

import asyncio
import json
import sys

import openai
import pydantic

URL, MODEL = sys.argv[1], sys.argv[2]
ASK = [{"role": "user", "content": "Say hello."}]
client = openai.OpenAI(base_url=f"{URL}/v1", api_key="none", max_retries=0)


class Point(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")
    x: int = pydantic.Field(ge=0, le=9)
    on: bool


def chat() -> str:
    r = client.chat.completions.create(model=MODEL, messages=ASK, max_tokens=20, temperature=0)
    assert r.choices[0].finish_reason in ("stop", "length") and r.usage.total_tokens == r.usage.prompt_tokens + r.usage.completion_tokens
    return r.choices[0].message.content


def stream(want: str) -> None:
    chunks = list(client.chat.completions.create(
        model=MODEL, messages=ASK, max_tokens=20, temperature=0, stream=True, stream_options={"include_usage": True}
    ))
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == want and chunks[-1].usage and not chunks[-1].choices


async def asynchronous(want: str) -> None:
    async with openai.AsyncOpenAI(base_url=f"{URL}/v1", api_key="none", max_retries=0) as c:
        answers = await asyncio.gather(*(c.chat.completions.create(model=MODEL, messages=ASK, max_tokens=20, temperature=0) for _ in range(8)))
        assert {a.choices[0].message.content for a in answers} == {want}
        s = await c.chat.completions.create(model=MODEL, messages=ASK, max_tokens=20, temperature=0, stream=True)
        assert "".join([x.choices[0].delta.content or "" async for x in s]) == want


def parse() -> None:
    r = client.chat.completions.parse(model=MODEL, messages=ASK, response_format=Point, temperature=0, max_tokens=200)
    assert isinstance(r.choices[0].message.parsed, Point)
    r = client.responses.parse(model=MODEL, input="A point.", text_format=Point, temperature=0, max_output_tokens=200)
    assert isinstance(r.output_parsed, Point)


def tools() -> None:
    tool = openai.pydantic_function_tool(Point, name="draw")
    args = {"model": MODEL, "messages": ASK, "tools": [tool], "tool_choice": "required", "parallel_tool_calls": False, "temperature": 0,
            "max_tokens": 200}
    whole = client.chat.completions.create(**args).choices[0]
    call = whole.message.tool_calls[0]
    point = Point.model_validate_json(call.function.arguments)
    with client.chat.completions.stream(**args) as s:
        assert s.get_final_completion().choices[0].message.tool_calls[0].function.parsed_arguments == point
    turns = [*ASK, {"role": "assistant", "tool_calls": [call.model_dump()]}, {"role": "tool", "tool_call_id": call.id, "content": "drawn"}]
    assert client.chat.completions.create(model=MODEL, messages=turns, tools=[tool], max_tokens=5).usage.prompt_tokens > 20


def embeddings() -> None:
    plain = client.embeddings.create(model=MODEL, input=["a", "b"], encoding_format="float").data
    packed = client.embeddings.create(model=MODEL, input=["a", "b"]).data
    assert all(abs(x - y) < 1e-6 for p, q in zip(plain, packed, strict=True) for x, y in zip(p.embedding, q.embedding, strict=True))


def responses(want: str) -> None:
    r = client.responses.create(model=MODEL, input="Say hello.", max_output_tokens=20, temperature=0, store=True)
    assert r.output_text == want and client.responses.retrieve(r.id).output_text == want
    again = client.responses.create(model=MODEL, input="Again.", previous_response_id=r.id, max_output_tokens=5)
    assert again.usage.input_tokens > r.usage.input_tokens
    with client.responses.stream(model=MODEL, input="Say hello.", max_output_tokens=20, temperature=0) as s:
        assert "".join(e.delta for e in s if e.type == "response.output_text.delta") == want
    client.responses.delete(r.id)
    tool = {"type": "function", "name": "draw", "parameters": Point.model_json_schema(), "strict": True}
    r = client.responses.create(model=MODEL, input="x", tools=[tool], tool_choice="required", parallel_tool_calls=False, temperature=0,
                                max_output_tokens=200)
    assert {o.type for o in r.output} == {"function_call"} and json.loads(r.output[0].arguments)


def completions() -> None:
    r = client.completions.create(model=MODEL, prompt=["one", "two"], max_tokens=4, temperature=0, echo=True, logprobs=2, n=2)
    assert len(r.choices) == 4 and r.choices[0].logprobs.token_logprobs[0] is None


def errors() -> None:
    for call, kind in (
        (lambda: client.chat.completions.create(model="nothing", messages=ASK), openai.NotFoundError),
        (lambda: client.chat.completions.create(model=MODEL, messages=ASK, temperature=-1), openai.BadRequestError),
        (lambda: client.chat.completions.create(model=MODEL, messages=ASK, max_tokens=10**8, stream=True), openai.BadRequestError),
    ):
        try:
            call()
            raise SystemExit("an error was expected")
        except kind as e:
            assert e.body["message"]


print(f"openai {openai.__version__}")
text = chat()
print("chat completion with usage")
stream(text)
print("streamed chat with a usage chunk")
asyncio.run(asynchronous(text))
print("async client: eight at once, and a stream")
parse()
print("parse with a pydantic model: chat and responses")
tools()
print("tools: required, streamed with parsed arguments, results sent back")
embeddings()
print("embeddings as floats and as base64")
responses(text)
print("responses: whole, streamed, stored, continued, deleted, function calls")
completions()
print("completions: list of prompts, echo, logprobs, n")
assert [m.id for m in client.models.list()] == [MODEL] and client.models.retrieve(MODEL).id == MODEL
print("models: list and retrieve")
errors()
print("errors arrive as the client's own exception classes")
