"""litellm: a proxy library in between, with its two prefixes for servers like this one."""

import asyncio
import json
import sys
from importlib.metadata import version

import litellm

URL, MODEL = sys.argv[1], sys.argv[2]
ASK = [{"role": "user", "content": "Say hello."}]
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 0, "maximum": 9}}, "required": ["n"], "additionalProperties": False}
TOOL = {"type": "function", "function": {"name": "pick", "parameters": SCHEMA}}
litellm.telemetry = False

print(f"litellm {version('litellm')}")
for prefix in ("openai", "hosted_vllm"):
    common = {"model": f"{prefix}/{MODEL}", "api_base": f"{URL}/v1", "api_key": "none", "temperature": 0}
    whole = litellm.completion(messages=ASK, max_tokens=20, **common)
    want = whole.choices[0].message.content
    assert whole.usage.completion_tokens > 0
    parts = litellm.completion(messages=ASK, max_tokens=20, stream=True, **common)
    assert "".join(p.choices[0].delta.content or "" for p in parts) == want
    assert asyncio.run(litellm.acompletion(messages=ASK, max_tokens=20, **common)).choices[0].message.content == want
    call = litellm.completion(messages=ASK, tools=[TOOL], tool_choice="required", max_tokens=300, **common).choices[0]
    assert call.finish_reason == "tool_calls" and "n" in json.loads(call.message.tool_calls[0].function.arguments)
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA, "strict": True}}
    assert "n" in json.loads(litellm.completion(messages=ASK, response_format=form, max_tokens=100, **common).choices[0].message.content)
    print(f"{prefix}/: completion, stream, async, required tool, response_format")
r = litellm.embedding(model=f"hosted_vllm/{MODEL}", input=["a", "b"], api_base=f"{URL}/v1", api_key="none")
assert len(r.data) == 2
print("embedding")
try:
    litellm.completion(model=f"openai/{MODEL}", messages=ASK, api_base=f"{URL}/v1", api_key="none", max_tokens=10**8, num_retries=0)
    raise SystemExit("an error was expected")
except litellm.BadRequestError:
    print("errors arrive as its own exception classes")
