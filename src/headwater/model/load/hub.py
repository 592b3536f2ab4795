"""`hf:ORG/REPO[@REVISION][:FILE]`: fetch a model through huggingface_hub (the `hub` extra): cached, resumed after a break, checked by it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from headwater.core.errors import UserInputError

T = TypeVar("T")
_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}"
_REFERENCE = re.compile(rf"hf:(?P<repo>{_NAME}/{_NAME})(?:@(?P<revision>[\w./-]{{1,200}}))?(?::(?P<file>[^:]{{1,300}}))?")
_SPLIT = re.compile(r"(?P<stem>.*)-\d{5}-of-(?P<count>\d{5})\.gguf")
# what a folder model needs; never *.bin or *.pt, which are pickles
FOLDER_FILES = ("*.json", "*.safetensors", "*.jinja", "tokenizer.model")


@dataclass(frozen=True, slots=True)
class HubReference:
    """repo: ORG/REPO. revision: branch, tag or commit, None = the default branch. file: a path inside, None = let the repository decide."""

    repo: str
    revision: str | None
    file: str | None

    @classmethod
    def parse(cls, text: str) -> HubReference:
        found = _REFERENCE.fullmatch(text)
        if found is None or ".." in (found["file"] or ""):
            raise UserInputError(f"model '{text[:200]}': expected hf:ORG/REPO[@REVISION][:FILE]", field="model")
        return cls(found["repo"], found["revision"], found["file"])


def fetch(text: str, progress: bool = False) -> list[Path]:
    """Local paths of the model that `text` names: its .gguf file (all parts of a split one) or its folder.

    Without FILE: the repository's only .gguf file, or its safetensors folder. Files already in the hub cache are not fetched again; where the
    hub cannot be reached, what the cache has is used. progress: show the library's bars.
    Raises UserInputError saying what is missing or which files there are to choose from.
    """
    reference = HubReference.parse(text)
    hub = _library(progress)
    file = reference.file
    if file is None:
        names = _ask(reference, lambda: hub.HfApi().list_repo_files(reference.repo, revision=reference.revision), cached=lambda: None)
        if names is None:
            return [_folder(hub, reference, offline=True)]
        file = _choose(reference, names)
        if file is None:
            return [_folder(hub, reference)]
    if not file.endswith(".gguf"):
        raise UserInputError(f"model '{text}': FILE must end in .gguf; leave it out to take a safetensors folder", field="model")
    split = _SPLIT.fullmatch(file)
    files = [file] if split is None else [f"{split['stem']}-{i:05}-of-{split['count']}.gguf" for i in range(1, min(int(split["count"]), 4096) + 1)]

    def take(name: str) -> Path:
        return Path(_ask(reference, lambda: hub.hf_hub_download(reference.repo, name, revision=reference.revision)))

    return [take(name) for name in files][:1]                        # a split file's siblings are found next to its first part


def _choose(reference: HubReference, names: list[str]) -> str | None:
    """The .gguf file to take; None = the repository is a safetensors folder."""
    models = sorted(n for n in names if n.endswith(".gguf") and not n.rpartition("/")[2].startswith("mmproj"))
    firsts = [n for n in models if not _SPLIT.fullmatch(n) or "-00001-of-" in n]
    if len(firsts) == 1:
        return firsts[0]
    if firsts:
        listed = ", ".join(firsts[:12]) + (f" and {len(firsts) - 12} more" if len(firsts) > 12 else "")
        raise UserInputError(f"model 'hf:{reference.repo}' has {len(firsts)} GGUF files; add one as :FILE: {listed}", field="model")
    if "config.json" in names and any(n.endswith(".safetensors") for n in names):
        return None
    raise UserInputError(f"model 'hf:{reference.repo}' has neither .gguf nor .safetensors files", field="model")


def _folder(hub: Any, reference: HubReference, offline: bool = False) -> Path:
    def take(local: bool) -> str:
        return hub.snapshot_download(reference.repo, revision=reference.revision, allow_patterns=list(FOLDER_FILES), local_files_only=local)

    folder = Path(_ask(reference, lambda: take(offline)))
    if not (folder / "config.json").is_file():
        found = sorted(str(p.relative_to(folder)) for p in folder.rglob("*.gguf"))
        hint = f"; it holds {', '.join(found[:12])}: name one as :FILE" if found else ""
        raise UserInputError(f"model 'hf:{reference.repo}': the hub cannot be reached and the cache holds no complete folder{hint}", field="model")
    return folder


def _ask(reference: HubReference, call: Callable[[], T], cached: Callable[[], T] | None = None) -> T:
    """Run a hub call; its many exceptions become one line each. cached: what to do instead where the hub cannot be reached."""
    from huggingface_hub import errors

    name = f"model 'hf:{reference.repo}'"
    try:
        return call()
    except errors.GatedRepoError:
        raise UserInputError(f"{name} is gated: accept its terms on the hub and set HF_TOKEN", field="model") from None
    except errors.RepositoryNotFoundError:
        raise UserInputError(f"{name} does not exist on the hub, or is private and HF_TOKEN is not set", field="model") from None
    except errors.RevisionNotFoundError:
        raise UserInputError(f"{name} has no revision '{reference.revision}'", field="model") from None
    except errors.LocalEntryNotFoundError:
        raise UserInputError(f"{name}: the hub cannot be reached and the file is not in the cache", field="model") from None
    except errors.EntryNotFoundError:
        raise UserInputError(f"{name} has no file '{reference.file}'", field="model") from None
    except (errors.HfHubHTTPError, OSError, errors.OfflineModeIsEnabled) as e:
        if cached is not None:
            return cached()
        raise UserInputError(f"{name}: the hub cannot be read ({type(e).__name__}: {' '.join(str(e).split())[:160]})", field="model") from None
    except Exception as e:                                           # the transport library's own errors are not part of the hub's interface
        if type(e).__module__.split(".")[0] not in ("httpx", "httpx2", "httpcore", "httpcore2", "requests", "urllib3"):
            raise
        if cached is not None:
            return cached()
        raise UserInputError(f"{name}: the hub cannot be reached ({type(e).__name__})", field="model") from None


def _library(progress: bool) -> Any:
    try:
        import huggingface_hub
        from huggingface_hub import utils
    except ImportError:
        raise UserInputError("fetching from the hub needs the 'hub' extra; install it with: pip install 'headwater[hub]'", field="model") from None
    (utils.enable_progress_bars if progress else utils.disable_progress_bars)()
    return huggingface_hub
