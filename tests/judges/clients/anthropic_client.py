"""The anthropic package: messages, streams, tools, token counts, errors."""

import asyncio
import sys

import anthropic

URL, MODEL = sys.argv[1], sys.argv[2]
ASK = [{"role": "user", "content": "Say hello."}]
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 0, "maximum": 9}}, "required": ["n"], "additionalProperties": False}
TOOL = {"name": "pick", "description": "Pick a number", "input_schema": SCHEMA}
GREEDY = {"temperature": 0}
client = anthropic.Anthropic(base_url=URL, api_key="none", max_retries=0)

print(f"anthropic {anthropic.__version__}")
whole = client.messages.create(model=MODEL, messages=ASK, system="Be brief.", max_tokens=20, extra_body=GREEDY)
assert whole.content[0].type == "text" and whole.stop_reason in ("end_turn", "max_tokens")
print("messages with a system prompt")
with client.messages.stream(model=MODEL, messages=ASK, system="Be brief.", max_tokens=20, extra_body=GREEDY) as s:
    assert "".join(s.text_stream) == whole.content[0].text
    assert s.get_final_message().usage.output_tokens == whole.usage.output_tokens
print("streamed messages accumulate to the whole one")


async def together() -> None:
    async with anthropic.AsyncAnthropic(base_url=URL, api_key="none", max_retries=0) as c:
        answers = await asyncio.gather(*(
            c.messages.create(model=MODEL, messages=ASK, system="Be brief.", max_tokens=20, extra_body=GREEDY) for _ in range(8)
        ))
        assert {a.content[0].text for a in answers} == {whole.content[0].text}


asyncio.run(together())
print("async client: eight at once")
args = {"model": MODEL, "messages": ASK, "tools": [TOOL], "tool_choice": {"type": "tool", "name": "pick"}, "max_tokens": 200, "extra_body": GREEDY}
call = client.messages.create(**args)
block = call.content[-1]
assert call.stop_reason == "tool_use" and block.name == "pick" and 0 <= block.input["n"] <= 9
with client.messages.stream(**args) as s:
    assert s.get_final_message().content[-1].input == block.input
turns = [
    *ASK, {"role": "assistant", "content": [block.model_dump(exclude_none=True)]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": block.id, "content": "7"}]},
]
client.messages.create(model=MODEL, messages=turns, tools=[TOOL], max_tokens=5)
print("tools: named choice, streamed input, results sent back")
count = client.messages.count_tokens(model=MODEL, messages=ASK, system="Be brief.").input_tokens
assert count == whole.usage.input_tokens + whole.usage.cache_read_input_tokens
print("count_tokens equals what the answer was billed")
for fields, kind in (({"model": "nothing"}, anthropic.NotFoundError), ({"max_tokens": -1}, anthropic.BadRequestError)):
    try:
        client.messages.create(**{"model": MODEL, "messages": ASK, "max_tokens": 5, **fields})
        raise SystemExit("an error was expected")
    except kind:
        pass
print("errors arrive as the client's own exception classes")
