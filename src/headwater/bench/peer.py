"""Running ourselves and peers alternately: each in a process of its own, the same tasks in turn, round by round."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headwater.core.errors import HeadwaterError, UserInputError

SCRIPTS = Path(__file__).parent / "peers"
TIMEOUT = 600.0


@dataclass(slots=True)
class PeerSpec:
    """How a runner is started. python: of its environment; script: in `bench/peers`; args: after the script."""

    name: str
    python: str
    script: str
    args: list[str] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)


class Peer:
    """A started runner. `ask` sends one task and waits. Raises HeadwaterError with the runner's own words when it fails; starting
    ours also the UserInputError that it ended with."""

    def __init__(self, spec: PeerSpec) -> None:
        self.spec = spec
        env = {**os.environ, "OMP_NUM_THREADS": "2", **spec.env}
        if spec.script != "run_headwater.py":
            env.pop("PYTHONPATH", None)
        command = [spec.python, str(SCRIPTS / spec.script), *spec.args]
        if spec.script == "run_headwater.py":
            command = [spec.python, "-m", "headwater.bench.peers.run_headwater", *spec.args]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=env)
        hello = self._read()
        self.load_seconds: float = hello["load_seconds"]
        self.version: str = hello["version"]

    def _read(self) -> dict[str, Any]:
        import select

        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], TIMEOUT)
        line = self.process.stdout.readline() if ready else ""
        if not line:
            state = "no answer in time" if not ready else f"ended with code {self.process.wait()}"
            raise HeadwaterError(f"{self.spec.name}: {state}")
        answer: dict[str, Any] = json.loads(line)
        if answer.get("input"):
            raise UserInputError(answer["error"])
        if "error" in answer:
            raise HeadwaterError(f"{self.spec.name}: {answer['error']}")
        return answer

    def ask(self, task: str, **fields: Any) -> dict[str, Any]:
        """-> {seconds, peak_mb}."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"task": task, **fields}) + "\n")
        self.process.stdin.flush()
        return self._read()

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


def ours(model: str, also: Sequence[str] = ()) -> list[PeerSpec]:
    """Headwater in this environment, and once more for each of `also`: options of `LLM` such as `kv_format=q8` or `attend=wave:retrieve=0.2`, several
    joined by `;`. Raises UserInputError where one is no NAME=VALUE."""
    for options in also:
        wrong = next((o for o in options.split(";") if not all(part.strip() for part in o.partition("="))), None)
        if wrong is not None:
            raise UserInputError(f"--also {options}: '{wrong}' is no NAME=VALUE, such as kv_format=q8", field="also")
    return [PeerSpec(" ".join(["headwater", *options]), sys.executable, "run_headwater.py", [model, *options])
            for options in ([], *(o.split(";") for o in also))]


def alternate(peers: list[Peer], rounds: int, task: str, **fields: Any) -> dict[str, list[float]]:
    """Seconds by runner name, one value per round; one run each before that is not counted. One that fails drops out, with its reason on stderr."""
    seconds: dict[str, list[float]] = {p.spec.name: [] for p in peers}
    alive = list(peers)
    for turn in range(rounds + 1):
        for p in list(alive):
            try:
                answer = p.ask(task, **fields)
            except (HeadwaterError, OSError, KeyError) as e:
                alive.remove(p)
                seconds.pop(p.spec.name, None)
                print(f"{p.spec.name}: {task} {fields}: {e}", file=sys.stderr)
                continue
            if turn:
                seconds[p.spec.name].append(answer["seconds"])
    return seconds
