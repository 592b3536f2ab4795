"""The short way of `complete`: the same options as the long one, and only command lines that leave no question."""

import inspect
import subprocess
import sys
from pathlib import Path
from typing import get_type_hints

import pytest

from headwater.cli import complete, quick

SRC = Path(__file__).parents[2] / "src"


def test_the_short_way_has_the_options_and_defaults_of_the_long_one() -> None:
    long, short = inspect.signature(complete.complete).parameters, inspect.signature(quick.run).parameters
    assert list(long) == list(short)
    same = {name: tuple(p.default) if isinstance(p.default, list) else p.default for name, p in long.items()}
    assert same == {name: p.default for name, p in short.items()}
    hints = get_type_hints(complete.complete, include_extras=True)
    spelled: set[str] = set()
    for name in long:
        option = hints[name].__metadata__[0]
        words = [w for w in (option.default, *(option.param_decls or ())) if isinstance(w, str) and w.startswith("-")]
        spelled |= set(words or [f"--{name.replace('_', '-')}"])
    assert set(quick.OPTIONS) == spelled - {"--prompt", "--accept-licence"}
    assert {name for name, _ in quick.OPTIONS.values()} == set(long) - {"prompt", "accept_licence"}


def test_simple_command_lines_are_understood() -> None:
    assert quick.parse(["Hello"]) == {"prompt": "Hello"}
    got = quick.parse(["-m", "a.gguf", "--max-tokens", "3", "Hi there", "--stop", "x", "--stop", "-y", "--temperature", "0.5", "--seed", "-1"])
    assert got == {"model": "a.gguf", "max_tokens": 3, "prompt": "Hi there", "stop": ["x", "-y"], "temperature": 0.5, "seed": -1}
    assert quick.parse(["-"]) == {"prompt": "-"}


@pytest.mark.parametrize("words", [
    [], ["--help"], ["a", "b"], ["a", "--max-tokens"], ["a", "--max-tokens", "many"], ["a", "--max-tokens=3"], ["a", "--unknown", "1"], ["--", "a"],
    ["a", "--accept-licence"], ["a", "--model", "--seed", "3"], ["a", "--seed", "1", "--seed", "2"],
])
def test_everything_else_goes_the_long_way(words: list[str]) -> None:
    assert quick.parse(words) is None


def test_completing_imports_no_command_line_library() -> None:
    code = "import sys; sys.argv = ['headwater', 'complete', 'x', '--model', 'echo', '--max-tokens', '2']\n"
    code += "from headwater.cli.main import main; main(); print([m for m in ('typer', 'pydantic', 'asyncio', 'numpy.ma') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={"PYTHONPATH": str(SRC), "PATH": ""}, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_both_ways_say_a_mistake_in_one_line() -> None:
    for more in ([], ["--accept-licence"]):
        command = [sys.executable, "-m", "headwater.cli.main", "complete", "x", "--model", "no-such.gguf", *more]
        done = subprocess.run(command, capture_output=True, text=True, env={"PYTHONPATH": str(SRC), "PATH": ""}, check=False)
        assert done.returncode == 2 and done.stderr.startswith("headwater: ") and len(done.stderr.splitlines()) == 1
