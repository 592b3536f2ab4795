"""Experiments that claims are bound to: files in `experiments/`, found by name, run as a command or as a function in a child process.

Two forms (see `experiments/README.md`):

* `NAME.toml` — a command that prints one JSON object (`verdict.Outcome`) as the last line of its output;
* `NAME.py` — a module with a literal `EXPERIMENT = {...}` (same keys without `command`) and `run(setting: dict) -> dict`.

Listing reads names and keys only; code runs when, and only when, somebody verifies a claim.
"""

from __future__ import annotations

import ast
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from headwater.core.errors import FormatError, UserInputError
from headwater.ledger.verdict import COMPANIONS, Outcome

_CHILD = "import json,runpy,sys; m=runpy.run_path(sys.argv[1]); print(json.dumps(m['run'](json.loads(sys.argv[2]))))"


class Spec(BaseModel):
    """Description of an experiment. family: key of `verdict.COMPANIONS`; timeout: seconds; needs: what the machine must have, in words."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    title: str = ""
    family: str = "all"
    command: list[str] = []
    timeout: float = 900.0
    needs: list[str] = []
    setting: dict[str, str] = {}


@dataclass(frozen=True, slots=True)
class Experiment:
    """A described experiment and the file it comes from."""

    spec: Spec
    path: Path

    @property
    def name(self) -> str:
        return self.spec.name


@dataclass(frozen=True, slots=True)
class Execution:
    """What came of running an experiment once; started is seconds since the epoch."""

    outcome: Outcome
    environment: dict[str, str]
    started: float
    seconds: float


def registry(folder: Path) -> dict[str, Experiment]:
    """Experiments of a folder by name.

    Raises:
        FormatError: a description is malformed; names the file and the field.
    """
    found: dict[str, Experiment] = {}
    if not folder.is_dir():
        return found
    for path in sorted(folder.iterdir()):
        if path.suffix == ".toml":
            data = _toml(path)
        elif path.suffix == ".py" and not path.name.startswith("_"):
            literal = _literal(path)
            if literal is None:
                continue
            data = literal
        else:
            continue
        data.setdefault("name", path.stem)
        try:
            spec = Spec(**data)
        except (ValidationError, TypeError) as e:
            first = e.errors()[0] if isinstance(e, ValidationError) else {"loc": ("EXPERIMENT",), "msg": str(e)}
            raise FormatError(f"{path}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None
        if spec.family not in COMPANIONS:
            raise FormatError(f"{path}: family {spec.family!r} is none of {', '.join(COMPANIONS)}")
        if path.suffix == ".toml" and not spec.command:
            raise FormatError(f"{path}: command is missing")
        if spec.name in found:
            raise FormatError(f"{path}: the name {spec.name!r} is taken by {found[spec.name].path.name}")
        found[spec.name] = Experiment(spec, path)
    return found


def find(folder: Path, name: str) -> Experiment:
    """The experiment with a name.

    Raises:
        UserInputError: there is none; lists those there are.
    """
    known = registry(folder)
    if name not in known:
        raise UserInputError(f"experiment: no {name!r} in {folder} (there are: {', '.join(known) or 'none'})", "experiment")
    return known[name]


def _toml(path: Path) -> dict:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as e:
        raise FormatError(f"{path}: not valid TOML ({e})") from None


def _literal(path: Path) -> dict | None:
    """The literal `EXPERIMENT = {...}` of a module, without running it."""
    try:
        tree = ast.parse(path.read_text("utf-8"))
    except (SyntaxError, UnicodeDecodeError) as e:
        raise FormatError(f"{path}: not readable as Python ({e})") from None
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "EXPERIMENT" for t in node.targets):
            try:
                value = ast.literal_eval(node.value)
            except ValueError:
                value = None
            if not isinstance(value, dict):
                raise FormatError(f"{path}: EXPERIMENT must be a literal dictionary")
            return value
    return None


def environment() -> dict[str, str]:
    """Where a run took place: system, processor, cores, Python, this package's version."""
    from headwater import __version__

    cpu = platform.processor()
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as f:
            cpu = next((line.split(":", 1)[1].strip() for line in f if line.startswith("model name")), cpu)
    except OSError:
        pass
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return {"system": f"{platform.system()} {platform.release()}", "machine": platform.machine(), "cpu": cpu or "unknown", "cores": str(cores),
            "python": platform.python_version(), "headwater": __version__}


def run(experiment: Experiment, setting: dict[str, str]) -> Execution:
    """Run an experiment once in a child process and an empty folder.

    A command gets the wanted setting as JSON in `HEADWATER_SETTING`; `{python}` and `{folder}` in it stand for this interpreter and
    the experiment's folder. Output before the last line is free.

    Raises:
        FormatError: it failed, ran over its time, or did not print an outcome; the message carries the end of what it said.
    """
    spec = experiment.spec
    wanted = json.dumps({**spec.setting, **setting}, sort_keys=True)
    if spec.command:
        places = {"{python}": sys.executable, "{folder}": str(experiment.path.parent.resolve())}
        command = [_filled(a, places) for a in spec.command]
    else:
        command = [sys.executable, "-c", _CHILD, str(experiment.path.resolve()), wanted]
    started = time.time()
    clock = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="headwater-run-") as folder:
        try:
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=spec.timeout, check=False,
                                  env={**os.environ, "HEADWATER_SETTING": wanted, "PYTHONPATH": _search_path()}, errors="replace")
        except subprocess.TimeoutExpired:
            raise FormatError(f"{experiment.name}: no result within {spec.timeout:g} s") from None
        except OSError as e:
            raise FormatError(f"{experiment.name}: cannot start {command[0]!r} ({e.strerror})") from None
    seconds = time.perf_counter() - clock
    if done.returncode:
        tail = (done.stderr.strip() or done.stdout.strip()).split("\n")[-1][-300:]
        raise FormatError(f"{experiment.name}: ended with exit code {done.returncode}: {tail}")
    lines = [line for line in done.stdout.split("\n") if line.strip()]
    try:
        outcome = Outcome.model_validate_json(lines[-1] if lines else "")
    except ValidationError as e:
        first = e.errors()[0]
        raise FormatError(f"{experiment.name}: the last line is no outcome ({'.'.join(map(str, first['loc'])) or 'JSON'}: {first['msg']})") from None
    return Execution(outcome, environment(), started, seconds)


def _search_path() -> str:
    """PYTHONPATH under which a child imports the very package that runs here, also from an empty folder."""
    here = str(Path(__file__).resolve().parents[2])
    given = [str(Path(p).resolve()) for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p]
    return os.pathsep.join(dict.fromkeys([here, *given]))


def _filled(text: str, places: dict[str, str]) -> str:
    for mark, value in places.items():
        text = text.replace(mark, value)
    return text
