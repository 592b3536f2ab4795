"""State: hold the exact state of a sequence, fork it many times, read labels, score continuations, go on, keep it in a file."""

from __future__ import annotations

import contextlib
import json
import os
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from headwater.core.errors import FormatError, UserInputError, expect
from headwater.core.params import SamplingParams
from headwater.core.request import ReadSpec
from headwater.engine.expand import GenerateRequest
from headwater.engine.offline import Answer, Offline

if TYPE_CHECKING:
    from headwater.engine.engine import Engine

FORMAT = 1
Ids = Sequence[int] | np.ndarray


class _Held:
    """A held request, shared by the handles that stand on it."""

    def __init__(self, offline: Offline, request_id: str) -> None:
        self.offline, self.request_id, self.handles = offline, request_id, 1

    def drop(self) -> None:
        self.handles -= 1
        if self.handles == 0:
            self.offline.release(self.request_id)


class State:
    """A sequence of tokens whose state is in memory. Nothing is copied by a fork beyond one partly filled block per child.

    tokens: int32[n], read only. Made by `LLM.state`, `State.fork` or `LLM.load_state`.
    """

    def __init__(self, offline: Offline, tokens: Ids, request_id: str, held: _Held | None = None) -> None:
        self.tokens = np.array(tokens, np.int32)
        self.tokens.flags.writeable = False                         # the state in memory is of these tokens, whatever the caller does with its array
        self._offline = offline
        self._held: _Held | None = held or _Held(offline, request_id)

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def request_id(self) -> str:
        """The held request that children name as their parent."""
        return self._open().request_id

    @property
    def text(self) -> str:
        return self._offline.text.tokenizer.decode(self.tokens.tolist(), skip_special=False)

    def parent_in(self, offline: Offline) -> str:
        """The held request as a parent for requests of `offline`. Raises UserInputError where the state lies in another LLM's memory."""
        if offline is not self._offline:
            raise UserInputError("state: belongs to another LLM; save it and load it there (the same model and KV format are needed)", "state")
        return self.request_id

    def fork(self) -> State:
        """Another handle on the same position."""
        held = self._open()
        held.handles += 1
        return State(self._offline, self.tokens, held.request_id, held)

    def extend(self, more: str | Ids) -> State:
        """Compute `more` on top and stand there from now on; forks made before stay where they are. Returns self."""
        held = self._open()
        tokens = np.concatenate([self.tokens, self._ids(more, "extend")])
        request_id = self._offline.hold(tokens, held.request_id, len(self.tokens))
        tokens.flags.writeable = False
        self.tokens, self._held = tokens, _Held(self._offline, request_id)
        held.drop()
        return self

    def score(self, continuations: str | Sequence[str] | Sequence[Ids]) -> Any:
        """Raw log-probability of each token of a continuation after this state: float64[tokens] for one text, a list for several.

        All continuations are forks that run together; none sees another.
        """
        single = isinstance(continuations, str)
        expect("continuations", continuations, Iterable, "text or a list of continuations")
        several: list[str | Ids] = [continuations] if isinstance(continuations, str) else list(continuations)
        wants = [self._child(self._ids(c, f"continuations[{i}]"), ReadSpec(score_from=len(self.tokens))) for i, c in enumerate(several)]
        scores = [np.array([e.logprob for e in a.choices[0].reads.prompt]) for a in self._offline.run(wants)]
        return scores[0] if single else scores

    def label_probs(self, labels: Sequence[str | int], continuation: str | Ids = ()) -> np.ndarray:
        """float64[len(labels)]: soft-max over the labels' logits as the next token (after `continuation`, if any).

        Only the label rows of the output matrix are computed. A text label must be one token; score longer ones with `score`.
        """
        ids = self._labels(labels)
        answer = self._offline.run([self._child(self._more(continuation), ReadSpec(labels=ids))])[0]
        logits = answer.choices[0].reads.labels
        assert logits is not None
        weights = np.exp(logits.astype(np.float64) - float(logits.max()))
        return weights / weights.sum()

    def label_logits(self, continuations: Sequence[str | Ids], labels: Sequence[str | int]) -> np.ndarray:
        """Raw logits of the labels after each continuation: float32[continuations, labels]. All are forks that run together; none sees another."""
        ids = self._labels(labels)
        expect("continuations", continuations, Iterable, "a list of continuations")
        wants = [self._child(self._ids(c, f"continuations[{i}]"), ReadSpec(labels=ids)) for i, c in enumerate(continuations)]
        rows = [a.choices[0].reads.labels for a in self._offline.run(wants)]
        return np.stack([r for r in rows if r is not None]) if rows else np.zeros((0, len(ids)), np.float32)

    def generate(self, params: SamplingParams | None = None, continuation: str | Ids = ()) -> Answer:
        """Continue from here (after `continuation`, if any); the state itself stays. `answer.choices[i].text`, `.token_ids`, `.seed`."""
        params = SamplingParams() if params is None else params
        expect("params", params, SamplingParams, "SamplingParams")
        want = replace(self._child(self._more(continuation), ReadSpec()), params=params, read_only=False)
        return self._offline.run([want])[0]

    def save(self, path: str | Path) -> None:
        """Write tokens, keys, values and identity to `path` (a zip of arrays; nothing in it is executed when it is loaded).

        Models with windows or recurrent states keep only tokens and identity: their state is computed again by `LLM.load_state`.
        The file is written whole or not at all: what stood there before stays until then. Raises UserInputError where it cannot be written.
        """
        expect("path", path, (str, os.PathLike), "the name of a file")
        engine = self._offline.engine
        arrays = _export(self._offline, self) if engine.executor.caps().spec.can_cut else []
        meta = {"format": FORMAT, "identity": engine.executor.caps().identity, "spec": engine.executor.caps().spec.layout}
        _write_whole(Path(path), {"meta": np.frombuffer(json.dumps(meta).encode(), np.uint8), "tokens": self.tokens,
                                  **{f"part{i}": a for i, a in enumerate(arrays)}})

    def close(self) -> None:
        """Free the held state (once the last handle on it is closed)."""
        if self._held is not None:
            self._held.drop()
            self._held = None

    def __enter__(self) -> State:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # -- inside --------------------------------------------------------------------------------------------------------------------------

    def _open(self) -> _Held:
        if self._held is None:
            raise UserInputError("state: is closed", "state")
        return self._held

    def _child(self, more: np.ndarray, reads: ReadSpec) -> GenerateRequest:
        prompt = np.concatenate([self.tokens, more])
        return GenerateRequest(prompt, SamplingParams(), reads=reads, read_only=True, parent=self._open().request_id, parent_pos=len(self.tokens))

    def _ids(self, more: str | Ids, field: str) -> np.ndarray:
        try:
            ids = np.asarray(self._offline.text.tokenizer.encode(more, add_special=False) if isinstance(more, str) else more)
        except (TypeError, ValueError, OverflowError):              # lists of unequal length, or what is no number
            ids = np.zeros((0, 0))
        if ids.ndim != 1 or not ids.size or ids.dtype.kind not in "iu":
            raise UserInputError(f"{field}: must be text or token ids, at least one token", field)
        self._known(ids, field)
        return ids.astype(np.int32)

    def _more(self, continuation: str | Ids) -> np.ndarray:
        """Ids of a continuation that may be empty."""
        empty = isinstance(continuation, Sequence | np.ndarray) and not len(continuation)
        return np.zeros(0, np.int32) if empty else self._ids(continuation, "continuation")

    def _labels(self, labels: Sequence[str | int]) -> np.ndarray:
        if isinstance(labels, str) or not isinstance(labels, Iterable):
            raise UserInputError(f"labels: must be a list of texts or token ids, got {labels!r}", "labels")
        ids = np.array([self._label(label, i) for i, label in enumerate(labels)], np.int32)
        if not len(ids):
            raise UserInputError("labels: is empty", "labels")
        return ids

    def _label(self, label: str | int, index: int) -> int:
        field = f"labels[{index}]"
        if isinstance(label, str):
            ids = self._offline.text.tokenizer.encode(label, add_special=False)
            if len(ids) != 1:
                raise UserInputError(f"{field}: {label!r} is {len(ids)} tokens; a label must be one (use score for longer texts)", "labels")
            return ids[0]
        if isinstance(label, bool) or not isinstance(label, int | np.integer):
            raise UserInputError(f"{field}: must be text or a token id, got {label!r}", "labels")
        self._known(np.array([label], object), field)
        return int(label)

    def _known(self, ids: np.ndarray, field: str) -> None:
        """Refuse ids outside the vocabulary, before they are narrowed to int32."""
        vocabulary = self._offline.engine.executor.caps().vocabulary
        bad = ids[(ids < 0) | (ids >= vocabulary)]
        if bad.size:
            raise UserInputError(f"{field}: token id {bad[0]} is outside the vocabulary of {vocabulary:,}", field)


def _write_whole(path: Path, arrays: dict[str, Any]) -> None:
    """A zip of arrays at `path`, or what stood there before. Raises UserInputError naming the file."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        if path.is_dir():
            raise IsADirectoryError(None, "is a folder; name a file in it")
        with part.open("wb") as f:
            np.savez(f, **arrays)
        part.replace(path)
    except BaseException as e:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        if isinstance(e, OSError):
            raise UserInputError(f"{path}: cannot be written ({e.strerror or e})", str(path)) from None
        raise


def _runner(engine: Engine) -> object:
    runner = getattr(engine.executor, "runner", None)
    if runner is None:
        raise UserInputError("state: this executor cannot save or load states", "state")
    return runner


def _export(offline: Offline, state: State) -> list[np.ndarray]:
    """The arrays behind a state, taken from a child row that computes only the last token anew."""
    got: list[list[np.ndarray]] = []
    want = replace(state._child(np.zeros(0, np.int32), ReadSpec(hidden="last")), request_id=f"save-{id(state):x}-{len(state)}")
    _runner(offline.engine).export_row(want.request_id, got.append)  # type: ignore[attr-defined]
    offline.run([want])
    if not got:
        raise RuntimeError("the state's row never ran")
    return got[0]


def load_state(offline: Offline, path: str | Path) -> State:
    """See `LLM.load_state`."""
    offline.check_open()
    expect("path", path, (str, os.PathLike), "the name of a file")
    path = Path(path)
    caps = offline.engine.executor.caps()
    meta, tokens, arrays = _read(path)
    for name, theirs, ours in (("format", meta["format"], FORMAT), ("identity", meta["identity"], caps.identity),
                               ("KV layout", meta["spec"], caps.spec.layout)):
        if theirs != ours:
            raise UserInputError(f"{path}: made under {name} '{theirs}', this engine has '{ours}'; compute it again from its tokens", str(path))
    if tokens.ndim != 1 or tokens.dtype != np.int32 or not 0 < len(tokens) <= caps.context or tokens.min() < 0 or tokens.max() >= caps.vocabulary:
        raise FormatError(f"{path}: 'tokens' must be 1 to {caps.context:,} ids of the vocabulary of {caps.vocabulary:,}", str(path))
    want = GenerateRequest(tokens, SamplingParams(), request_id=f"load-{uuid.uuid4().hex[:24]}", read_only=True, hold=True)
    runner = _runner(offline.engine)
    assert want.request_id is not None
    if caps.spec.can_cut:
        if (wrong := runner.check_import(arrays, len(tokens))) is not None:  # type: ignore[attr-defined]
            raise FormatError(f"{path}: {wrong}", str(path))
        runner.import_row(want.request_id, arrays)  # type: ignore[attr-defined]
    offline.run([want])
    return State(offline, tokens, want.request_id)


def _read(path: Path) -> tuple[dict[str, Any], np.ndarray, list[np.ndarray]]:
    """Meta data, tokens and further arrays of a saved state. Raises UserInputError or FormatError naming the file."""
    try:
        with np.load(path, allow_pickle=False) as z:
            if sum(part.file_size for part in z.zip.infolist()) > path.stat().st_size:
                raise ValueError("its parts are larger than the file; a saved state is not compressed")
            meta, tokens = json.loads(z["meta"].tobytes()), z["tokens"]
            arrays = [z[f"part{i}"] for i in range(len([n for n in z.files if n.startswith("part")]))]
        if not all(isinstance(a, np.ndarray) for a in (tokens, *arrays)):
            raise ValueError("holds something else than arrays")
        return {name: meta[name] for name in ("format", "identity", "spec")}, tokens, arrays
    except FileNotFoundError:
        raise UserInputError(f"{path}: no such file", str(path)) from None
    except Exception as e:                                          # zipfile, zlib, numpy's header parser and json each have their own
        raise FormatError(f"{path}: not a saved state, or damaged ({type(e).__name__}: {e})", str(path)) from None
