"""The command line as people meet it: output, one-line errors, exit codes, a conversation."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from headwater.cli.main import main

SRC = Path(__file__).parent.parent.parent / "src"


def headwater(*args: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(SRC)}
    command = [sys.executable, "-m", "headwater.cli.main", *args]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, env=env, timeout=120, check=False)


def test_complete_prints_the_text_and_repeats_it_for_a_seed() -> None:
    options = ("--model", "echo", "--max-tokens", "12", "--temperature", "0.8", "--seed", "7")
    one = headwater("complete", "hello", *options)
    assert one.returncode == 0
    assert len(one.stdout.rstrip("\n")) > 0
    assert headwater("complete", "-", *options, stdin="hello").stdout == one.stdout


def test_complete_reports_the_seed_that_it_drew() -> None:
    one = headwater("complete", "hello", "--model", "echo", "--max-tokens", "9", "--temperature", "1")
    seed = one.stderr.split()[-1]
    assert headwater("complete", "hello", "--model", "echo", "--max-tokens", "9", "--temperature", "1", "--seed", seed).stdout == one.stdout


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("complete", "x", "--model", "no-such-model"), "no-such-model"),
        (("complete", "x", "--model", "echo", "--temperature", "-1"), "temperature: must be a number from 0 to 100"),
        (("complete", "x", "--model", "echo", "--max-tokens", "5000"), "5,000"),
        (("complete", "x", "--model", "echo", "--kv-memory", "many"), "'many' is not a size"),
        (("chat", "--model", "echo", "--chat-template", "/no/such/file"), "--chat-template"),
        (("complete", "x", "--model", "echo", "--backend", "gpu"), "--backend gpu: one of auto, native, reference"),
    ],
    ids=lambda v: v if isinstance(v, str) else " ".join(v[2:4]),
)
def test_wrong_input_is_one_line_and_exit_code_2(args: tuple[str, ...], says: str) -> None:
    done = headwater(*args)
    assert done.returncode == 2
    assert says in done.stderr
    assert done.stderr.startswith("headwater: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("verb", ["latency", "kernels", "load", "profile", "serve", "decide-grid", "speculate", "longcontext", "longprefill"])
def test_a_measurement_whose_figures_could_not_be_kept_does_not_begin(verb, monkeypatch, capsys) -> None:
    monkeypatch.setattr("sys.argv", ["headwater", "bench", verb, "--json", "no/such/folder/figures.json"])
    with pytest.raises(SystemExit) as e:
        main()
    assert e.value.code == 2
    assert capsys.readouterr().err == "headwater: --json no/such/folder/figures.json: its folder does not exist\n"


def test_a_conversation_keeps_resets_and_saves_its_history(tmp_path: Path) -> None:
    path = tmp_path / "talk.json"
    lines = [
        "/set temperature 0", "hello", "/stats", "and again", f"/save {path}", "/undo", "/system be kind", "/again", "/set top_k x", "/nonsense",
        "/reset", "/help", "/quit",
    ]
    done = headwater("chat", "--model", "echo", "--max-tokens", "8", stdin="\n".join(lines) + "\n")
    assert done.returncode == 0, done.stderr
    saved = json.loads(path.read_text())
    assert [m["role"] for m in saved] == ["user", "assistant", "user", "assistant"]
    assert "prompt tokens" in done.stdout
    assert "unknown command /nonsense" in done.stdout


def test_a_second_turn_reuses_the_first() -> None:
    done = headwater("chat", "--model", "echo", "--max-tokens", "8", stdin="hello\nand more\n/stats\n")
    assert "(0 reused)" not in done.stdout.splitlines()[-1]


def test_models_are_listed_with_their_licences() -> None:
    done = headwater("models")
    assert "smollm2-135m-instruct" in done.stdout
    assert "Apache-2.0" in done.stdout


def test_help_imports_neither_numpy_nor_the_engine() -> None:
    code = "import sys; sys.argv=['headwater','--help']\nfrom headwater.cli.main import main\ntry:\n main()\nexcept SystemExit: pass\n"
    code += "print([m for m in ('numpy', 'rich', 'fastapi', 'headwater.llm') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(SRC)}, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_completing_imports_no_web_framework() -> None:
    code = "import sys, headwater.llm as m; m.LLM('echo').generate('x'); print([m for m in ('fastapi', 'jinja2', 'uvicorn') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(SRC)}, check=True)
    assert done.stdout.strip() == "[]"
