"""The Grafana dashboard asks for metrics that a server really has, and leaves none of the server's out."""

import json
import re
from pathlib import Path

import httpx
import pytest

from headwater.engine.build import EngineSpec
from tests.wire.conftest import start, stop

FILE = Path(__file__).parents[2] / "deploy" / "grafana" / "headwater.json"
SUFFIXES = re.compile(r"_(bucket|sum|count|total|created)$")


@pytest.fixture(scope="module")
def dashboard() -> dict:
    return json.loads(FILE.read_text("utf-8"))


@pytest.fixture(scope="module")
def served() -> set[str]:
    """Names of all series that a server which drafts can have."""
    running = start(EngineSpec("echo", draft="ngram"))
    text = httpx.get(f"{running.url}/metrics").text
    stop(running)
    declared = dict(line.split()[2:4] for line in text.splitlines() if line.startswith("# TYPE"))        # also those that have no series yet
    parts = {"histogram": ("_bucket", "_sum", "_count")}
    return {name + part for name, kind in declared.items() for part in parts.get(kind, ("",)) if not name.endswith("_created")}


def asked(dashboard: dict) -> set[str]:
    expressions = [t["expr"] for p in dashboard["panels"] for t in p["targets"]]
    expressions += [v["query"] for v in dashboard["templating"]["list"] if v["type"] == "query"]
    return {name for e in expressions for name in re.findall(r"headwater:\w+", e)}


def test_every_metric_of_the_dashboard_is_served(dashboard, served) -> None:
    assert asked(dashboard) - served == set()


def test_every_metric_that_is_served_has_its_place_on_the_dashboard(dashboard, served) -> None:
    shown = {SUFFIXES.sub("", name) for name in asked(dashboard)}
    assert {SUFFIXES.sub("", name) for name in served} - shown == set()


def test_panels_have_titles_units_and_places_of_their_own(dashboard) -> None:
    cells: set[tuple[int, int]] = set()
    for p in dashboard["panels"]:
        g = p["gridPos"]
        own = {(x, y) for x in range(g["x"], g["x"] + g["w"]) for y in range(g["y"], g["y"] + g["h"])}
        assert p["title"] and p["fieldConfig"]["defaults"]["unit"] and not cells & own
        cells |= own
