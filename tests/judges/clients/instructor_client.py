"""instructor: pydantic models out of chat completions, by schema and by tools."""

import asyncio
import sys
from importlib.metadata import version

import instructor
import openai
from pydantic import BaseModel, ConfigDict, Field

URL, MODEL = sys.argv[1], sys.argv[2]
ASK = [{"role": "user", "content": "A point."}]


class Point(BaseModel):
    model_config = ConfigDict(extra="forbid")
    x: int = Field(ge=0, le=9)
    on: bool


print(f"instructor {version('instructor')}")
plain = openai.OpenAI(base_url=f"{URL}/v1", api_key="none", max_retries=0)
for mode in (instructor.Mode.TOOLS, instructor.Mode.JSON_SCHEMA):
    client = instructor.from_openai(plain, mode=mode)
    point, raw = client.chat.completions.create_with_completion(
        model=MODEL, messages=ASK, response_model=Point, max_tokens=300, temperature=0, max_retries=0
    )
    assert isinstance(point, Point) and raw.usage.completion_tokens > 0
    streamed: list = []
    streamed += client.chat.completions.create_partial(model=MODEL, messages=ASK, response_model=Point, max_tokens=300, temperature=0)
    assert (streamed[-1].x, streamed[-1].on) == (point.x, point.on)
    print(f"{mode.name}: a model, and the same one streamed in parts")


async def several() -> None:
    client = instructor.from_openai(openai.AsyncOpenAI(base_url=f"{URL}/v1", api_key="none", max_retries=0), mode=instructor.Mode.JSON_SCHEMA)
    points = await asyncio.gather(*(
        client.chat.completions.create(model=MODEL, messages=ASK, response_model=Point, max_tokens=300, temperature=0) for _ in range(4)
    ))
    assert len({(p.x, p.on) for p in points}) == 1


asyncio.run(several())
print("async client: four at once")
