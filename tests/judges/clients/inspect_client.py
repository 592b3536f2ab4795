"""inspect-ai: an evaluation with its OpenAI-compatible provider: plain answers, structured output, and an agent's loop with tools."""

import os
import sys
from importlib.metadata import version

from inspect_ai import Task
from inspect_ai import eval as evaluate
from inspect_ai.dataset import Sample
from inspect_ai.model import GenerateConfig, ResponseSchema, get_model
from inspect_ai.scorer import includes, match
from inspect_ai.solver import generate, use_tools
from inspect_ai.tool import ToolFunction, tool
from inspect_ai.util import json_schema
from pydantic import BaseModel, ConfigDict

URL, MODEL = sys.argv[1], sys.argv[2]
os.environ |= {"HEADWATER_API_KEY": "none", "HEADWATER_BASE_URL": f"{URL}/v1", "INSPECT_LOG_DIR": "logs", "INSPECT_DISPLAY": "none"}


class Flag(BaseModel):
    model_config = ConfigDict(extra="forbid")
    on: bool


@tool
def flip():
    async def execute(on: bool) -> str:
        """Flip a flag.

        Args:
            on: where it stands
        """
        calls.append(on)
        return str(not on)

    return execute


calls: list[bool] = []
model = get_model(f"openai-api/headwater/{MODEL}", config=GenerateConfig(temperature=0, max_tokens=150, max_retries=0))
samples = [Sample(input=f"Question {i}?", target="a") for i in range(8)]


def run(task: Task):
    log = evaluate(task, model=model, log_dir="logs", display="none")[0]
    assert log.status == "success", log.error
    return log


print(f"inspect-ai {version('inspect-ai')}")
first, second = (run(Task(dataset=samples, solver=generate(), scorer=includes())) for _ in range(2))
outputs = [[s.output.completion for s in log.samples] for log in (first, second)]
assert outputs[0] == outputs[1] and sum(u.output_tokens for u in first.stats.model_usage.values()) > 0
print("8 samples generated and scored, twice the same")
shaped = GenerateConfig(response_schema=ResponseSchema(name="flag", json_schema=json_schema(Flag)))
log = run(Task(dataset=samples[:2], solver=generate(), scorer=match(), config=shaped))
assert all(isinstance(Flag.model_validate_json(s.output.completion), Flag) for s in log.samples)
print("a response schema is kept")
demanded = use_tools(flip(), tool_choice=ToolFunction("flip"))
log = run(Task(dataset=samples[:1], solver=[demanded, generate(tool_calls="loop")], scorer=includes(), message_limit=8))
roles = [m.role for m in log.samples[0].messages]
assert calls and "tool" in roles and roles.count("assistant") > 1
print(f"an agent's loop with a tool: {len(calls)} calls over {len(roles)} messages")
