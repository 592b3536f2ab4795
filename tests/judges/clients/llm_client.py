"""The `llm` command with its own OpenAI plugin, configured by a file of the user."""

import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

URL, MODEL = sys.argv[1], sys.argv[2]
home = Path("llm-user")
home.mkdir(exist_ok=True)
(home / "extra-openai-models.yaml").write_text(
    f"- model_id: headwater\n  model_name: {MODEL}\n  api_base: {URL}/v1\n  api_key_name: none\n  supports_schema: true\n  supports_tools: true\n"
)
(home / "keys.json").write_text('{"none": "none"}')
ENVIRONMENT = {**os.environ, "LLM_USER_PATH": str(home)}


def llm(*args: str) -> str:
    command = [str(Path(sys.executable).with_name("llm")), *args]
    return subprocess.run(command, env=ENVIRONMENT, check=True, capture_output=True, text=True, timeout=300).stdout


print(f"llm {version('llm')}")
assert "headwater" in llm("models")
print("models lists it")
options = ("-m", "headwater", "-o", "temperature", "0", "-o", "max_tokens", "20", "-o", "seed", "1")
streamed, whole = llm(*options, "Say hello."), llm(*options, "--no-stream", "Say hello.")
assert streamed == whole and whole.strip()
print("a prompt, streamed and whole, with options")
assert llm(*options, "-s", "Be brief.", "Say hello.").strip()
print("a system prompt")
llm(*options, "-c", "And again.")
turns = json.loads(llm("logs", "-n", "1", "--json"))
assert turns[0]["prompt"] == "And again."
print("a conversation is continued from its log")
said = json.loads(llm("-m", "headwater", "-o", "max_tokens", "300", "-o", "temperature", "0", "--schema", json.dumps(
    {"type": "object", "properties": {"n": {"type": "boolean"}}, "required": ["n"], "additionalProperties": False}
), "--no-stream", "x"))
assert isinstance(said["n"], bool)
print("a schema")
