"""From process start to first token: a new Python process that imports the library, loads the model and completes a
prompt, beside llama-cpp-python in the same run."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from headwater.bench.report import Figure, Report
from headwater.core.errors import HeadwaterError

PROMPT = "The capital of France is"
OUR_SCRIPT = """
import sys
from headwater.llm import LLM, SamplingParams
llm = LLM(sys.argv[1])
llm.generate(sys.argv[2], SamplingParams(max_tokens=1, temperature=0.0), on_delta=lambda _, delta: print(delta.text or " ", end="", flush=True))
"""
PEER_SCRIPT = """
import sys
from llama_cpp import Llama
llm = Llama(sys.argv[1], n_ctx=2048, verbose=False)
for piece in llm.create_completion(sys.argv[2], max_tokens=1, temperature=0.0, stream=True):
    sys.stdout.write(piece["choices"][0]["text"] or " ")
    sys.stdout.flush()
    break
"""


def first_byte_seconds(command: list[str], env: dict[str, str], timeout: float = 120.0) -> float:
    """Seconds from the start of `command` to its first byte on stdout. Raises HeadwaterError with its last words where none comes."""
    began = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, env=env) as process:
        assert process.stdout is not None and process.stderr is not None
        first = process.stdout.read(1)
        seconds = time.perf_counter() - began
        try:
            _, errors = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            raise HeadwaterError(f"bench startup: {command[0]} did not end within {timeout:g} s") from None
    if not first:
        last = errors.decode("utf-8", "replace").strip().splitlines() or ["no output"]
        raise HeadwaterError(f"bench startup: {' '.join(command[:3])} gave no token: {last[-1]}")
    return seconds


def run(model: str, peer_python: str | None, rounds: int = 5) -> Report:
    """Rounds alternate between us and the peer; the first of each warms the page cache and is not counted."""
    from headwater.model.catalog import resolve

    ours = [sys.executable, "-c", OUR_SCRIPT, model, PROMPT]
    runners = {"headwater": ours}
    if peer_python is not None:
        runners["llama-cpp-python"] = [peer_python, "-c", PEER_SCRIPT, str(Path(resolve(model)[0])), PROMPT]
    values: dict[str, list[float]] = {name: [] for name in runners}
    with tempfile.TemporaryDirectory() as compiled:                 # both with compiled modules, as installers leave them, even from a source tree
        env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"} | {"PYTHONPYCACHEPREFIX": compiled}
        for i in range(rounds + 1):
            for name, command in runners.items():
                seconds = first_byte_seconds(command, env)
                if i:
                    values[name].append(seconds)
    report = Report("process start to first token")
    for name, seconds_of in values.items():
        report.add("startup", name, Figure("first token after", "s", seconds_of, better="lower"))
    return report
