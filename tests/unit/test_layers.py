"""The house rules of the import layers, forbidden modules in pure folders, and sizes."""

import ast
from pathlib import Path

import pytest

SRC = Path(__file__).parent.parent.parent / "src" / "headwater"
FILES = sorted(SRC.rglob("*.py"))

FORBIDDEN_IN_PURE = {"time", "random", "threading", "asyncio", "datetime", "socket", "subprocess"}
PURE = ("core", "sched", "kv", "policies", "cluster")
PURE_EXCEPT = ("kv/tiers", "cluster/ray")

# what each folder may import of ours; a room's residents may also import core and their own api
MAY_IMPORT = {
    "core": ("core",),
    "kernels": ("kernels", "_native"),
    "sched": ("core", "sched", "kv", "policies.*.api"),
    "kv": ("core", "kv", "policies.*.api"),
    "model": ("core", "kernels", "model"),
    "text": ("core", "text"),
    "worker": ("core", "kernels", "model", "policies.*.api", "worker"),
    "engine": ("core", "sched", "kv", "text", "policies.*.api", "decisions", "engine"),
    "decisions": ("core", "decisions"),
    "ledger": ("core", "ledger"),
}
ENGINE_BUILD = ("core", "sched", "kv", "text", "policies", "decisions", "engine", "worker", "model", "kernels")
ROOM_WITH_KERNELS = {"attend", "draft", "prune"}


def imports(path: Path) -> list[str]:
    """Dotted names that a file imports, `from a import b` as a.b; TYPE_CHECKING blocks do not count."""
    tree = ast.parse(path.read_text("utf-8"))
    skipped = {
        id(sub)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for sub in ast.walk(node)
    }
    names = []
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            names += [a.name for a in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names += [f"{node.module}.{a.name}" for a in node.names]
    return names


def allowed_prefixes(path: Path) -> tuple[str, ...] | None:
    parts = path.relative_to(SRC).with_suffix("").parts
    if parts[0] == "policies" and len(parts) > 2:
        own = ("core", f"policies.{parts[1]}.api")
        return own + (("kernels",) if parts[1] in ROOM_WITH_KERNELS else ())
    if parts[:2] == ("engine", "build"):
        return ENGINE_BUILD
    return MAY_IMPORT.get(parts[0])


def matches(name: str, prefix: str) -> bool:
    want = prefix.split(".")
    got = name.split(".")[: len(want)]
    return len(got) == len(want) and all(w in ("*", g) for w, g in zip(want, got, strict=True))


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SRC)))
def test_a_file_imports_only_from_its_layer_and_below(path: Path) -> None:
    allowed = allowed_prefixes(path)
    if allowed is None:
        return
    for name in imports(path):
        if name.startswith("headwater."):
            inner = name.removeprefix("headwater.")
            assert inner == "__version__" or any(matches(inner, p) for p in allowed), f"{path}: may not import {name}"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SRC)))
def test_pure_folders_read_no_clock_and_start_no_threads(path: Path) -> None:
    relative = str(path.relative_to(SRC))
    if not relative.startswith(PURE) or relative.startswith(PURE_EXCEPT):
        return
    names = imports(path)
    assert not {n.split(".")[0] for n in names} & FORBIDDEN_IN_PURE, path
    assert not any(n.startswith(("os.environ", "numpy.random")) for n in names), path
    assert "os.environ" not in path.read_text("utf-8"), path


def test_core_needs_only_the_standard_library_and_numpy() -> None:
    import sys

    for path in (SRC / "core").glob("*.py"):
        for name in imports(path):
            top = name.split(".")[0]
            assert top in sys.stdlib_module_names or top in ("numpy", "headwater"), f"{path}: {name}"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SRC)))
def test_files_hold_one_idea_of_at_most_about_five_hundred_lines(path: Path) -> None:
    assert len(path.read_text("utf-8").splitlines()) <= 560, path


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SRC)))
def test_functions_fit_on_a_screen_or_two(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            assert node.end_lineno - node.lineno < 90, f"{path}: {node.name} has {node.end_lineno - node.lineno + 1} lines"


def test_no_empty_rooms() -> None:
    for folder in (SRC / "policies").iterdir():
        if folder.is_dir() and not folder.name.startswith("__"):
            residents = [p for p in folder.glob("*.py") if p.name not in ("__init__.py", "api.py")]
            assert (folder / "api.py").exists() and residents, f"{folder.name}: a room opens with an api and a resident"
