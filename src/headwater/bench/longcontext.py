"""Lossy attention against dense: divergence, retrieval, bytes read and seconds, every policy from one and the same prefill."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from headwater.bench.haystack import Document, Question, make_document
from headwater.bench.keyrecall import key_recall
from headwater.bench.longproc import TASKS, make_procedure
from headwater.core.errors import UserInputError
from headwater.core.kvspec import BLOCK_TOKENS, KVSpec
from headwater.core.registry import build
from headwater.kernels.kv_formats import block_bytes
from headwater.kernels.program import Step
from headwater.kernels.select import NEVER, QUEST, TREE, WAVE, WINDOW, SelectSpec

RECALL_QUERIES = 4                        # queries that are replayed in numpy per document
SPARE = 256                               # positions behind the document for what follows it
BUDGETS = (0.15, 0.2, 0.3, 0.5)           # of dense's bytes
BEAM = 32                                 # nodes of a level that `tree` opens


@dataclass(slots=True)
class Score:
    """One policy over one or more documents. kl: per position, nats; right: task -> answers right or wrong; bytes: of dense's, measured.

    found: what `keyrecall` says, per document. step: seconds of decoding steps; index: seconds of the step that builds the whole index, less a
    usual one; prefill: dense, whole document.
    """

    policy: str
    kl: list[float] = field(default_factory=list)
    right: dict[str, list[bool]] = field(default_factory=dict)
    bytes: list[float] = field(default_factory=list)
    step: list[float] = field(default_factory=list)
    index: list[float] = field(default_factory=list)
    prefill: list[float] = field(default_factory=list)
    agree: list[bool] = field(default_factory=list)
    found: list[dict[str, float]] = field(default_factory=list)


class Trunk:
    """A document prefilled once; policies decode from its end, each over the same keys and values."""

    def __init__(self, model: Any, length: int, kv: KVSpec | None = None) -> None:
        from headwater.worker.model_forward import ModelForward

        self.length, self.context = length, length + SPARE
        blocks = -(-self.context // BLOCK_TOKENS)
        self.kv = kv or model.kvspec
        self.full = next((i for i, g in enumerate(self.kv.groups) if g.kind == "full"), None)
        if self.full is None or self.kv.states:
            raise UserInputError("bench longcontext: the model has no layers of full attention, or recurrent states", "model")
        self.forward = ModelForward(model.program, self.kv, (blocks,) * len(self.kv.groups), 0, context=self.context, identity=model.identity,
                                    step_tokens=512, vocabulary=model.config.vocab)
        self.tables = [np.arange(blocks, dtype=np.int32)[None] for _ in self.kv.groups]
        self.blocks = blocks

    def prefill(self, tokens: np.ndarray, spec: SelectSpec | None = None) -> float:
        """Compute the document, densely or by a policy for prompts; seconds."""
        self.choose(spec)
        began = time.perf_counter()
        for at in range(0, len(tokens), 512):
            self._hidden(tokens[at : at + 512], at, reads=False)
        return time.perf_counter() - began

    def choose(self, spec: SelectSpec | None) -> None:
        """From now on positions behind the document attend by this policy."""
        from headwater.worker.index_pool import IndexPool

        assert self.full is not None
        self.forward.index = None if spec is None else IndexPool(spec, self.full, self.kv.groups[self.full], self.blocks, self.context)

    def logits(self, tokens: np.ndarray) -> np.ndarray:
        """float32[n, vocabulary] after each of these tokens, which stand at the end of the document."""
        return self.forward.logits(self._hidden(tokens, self.length))

    def _hidden(self, tokens: np.ndarray, at: int, reads: bool = True) -> np.ndarray:
        n = len(tokens)
        where = np.arange(n if reads else 0, dtype=np.int32)
        width = -(-(at + n) // BLOCK_TOKENS)
        tables = [np.ascontiguousarray(t[:, :width]) for t in self.tables]
        step = Step(np.asarray(tokens, np.int32), np.arange(at, at + n, dtype=np.int32), np.array([0, n], np.int32), where, tables)
        step.border = np.array([self.length], np.int32)
        return self.forward.hidden(step)

    def bytes_share(self, positions: int) -> float:
        """Bytes that the queries since `choose` read, of what dense ones would have; positions: sum over queries of the keys before them."""
        index = self.forward.index
        assert index is not None and self.full is not None
        group = self.kv.groups[self.full]
        pair = sum(block_bytes(group.format, group.head_dim, key=key) for key in (True, False)) / BLOCK_TOKENS
        vector = 2.0 * group.head_dim
        _, read, scanned, estimated = index.stats.tolist()
        dense = pair * positions * group.kv_heads
        selective = group.layers - index.spec.dense_layers
        return (pair * read + vector * (scanned + estimated) + dense * index.spec.dense_layers) / (dense * (selective + index.spec.dense_layers))


def log_softmax(x: np.ndarray) -> np.ndarray:
    x = x.astype(np.float64)
    x -= x.max(1, keepdims=True)
    return x - np.log(np.exp(x).sum(1, keepdims=True))


def matched(length: int, budget: float, *, segment: int = 1024, estimate: float = 0.232, second: float = 0.0) -> dict[str, SelectSpec]:
    """One spec per method that reads about `budget` of dense's bytes just behind `length`, in units of stored vectors: index scans and
    summaries are charged. Methods whose newest positions and index alone cost more are left out.
    """
    n = length + 17
    vectors = budget * 2 * n
    out = {"window": SelectSpec(WINDOW, 4, max(1, round(vectors / 2) - 4))}
    end = max(0, n - 64) // segment * segment
    clusters = end // 16
    left = vectors - 2 * (n - end)
    for_wave, for_quest = left - 8 - clusters * (1 + estimate + (second > 0)), left - 2 * clusters - 32
    for_tree = left - 2 * _scanned(clusters, end // segment, segment) - 32
    if clusters and for_wave >= 32:
        out["wave"] = SelectSpec(WAVE, 4, 64, segment, retrieve=min(0.999, for_wave / 32 / clusters), estimate=estimate, second=second)
    if clusters and for_quest >= 32:
        out["quest"] = SelectSpec(QUEST, 4, 64, segment, iterations=0, retrieve=min(0.999, for_quest / 32 / clusters))
    if clusters and for_tree >= 32:
        out["tree"] = SelectSpec(TREE, 4, 64, segment, iterations=0, retrieve=min(0.999, for_tree / 32 / clusters), beam=BEAM)
    return out


def _scanned(pages: int, segments: int, segment: int) -> int:
    """Nodes that a search with the beam of this benchmark scores, over so many pages in so many segments."""
    counts = [segments * c for c in SelectSpec(TREE, 4, 64, segment).levels()]
    level = next((i for i, c in enumerate(counts) if c <= 2 * BEAM), len(counts) - 1)
    return counts[level] + sum(min(BEAM, counts[at + 1]) * 4 for at in range(level)) if pages else 0


def grid(length: int, budgets: tuple[float, ...] = BUDGETS) -> dict[str, SelectSpec]:
    """Every method at every budget, named `method budget`. Both segment sizes; `wave+` is wave with the second-order term, at equal bytes."""
    out: dict[str, SelectSpec] = {}
    for budget in budgets:
        for segment, mark in ((1024, ""), (256, "/256")):
            for name, spec in matched(length, budget, segment=segment).items():
                out[f"{name}{'' if name == 'window' else mark} {budget:.2f}"] = spec
            better = matched(length, budget, segment=segment, second=1.0).get("wave")
            if better:
                out[f"wave+{mark} {budget:.2f}"] = better
    return out


class Bench:
    """Runs policies over documents and keeps their scores. tell: progress, one line at a time."""

    def __init__(self, model: Any, tokenizer: Any, text: str, tell: Callable[[str], None] = lambda _: None) -> None:
        self.model, self.tokenizer, self.text, self.tell = model, tokenizer, text, tell

    def encode(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special=False))

    def run(
        self, length: int, documents: int, policies: dict[str, SelectSpec], *, items: int = 4, steps: int = 3, first: int = 0, recall: bool = False,
    ) -> list[Score]:
        """Scores of dense and of every policy at one length, over documents `first` and on. items: questions per task and document.

        recall: also what the policies find of the largest keys (slow: numpy).
        """
        scores = {name: Score(name) for name in ("dense", *policies)}
        trunk = Trunk(self.model, length)
        for d in range(documents):
            document = make_document(self.text, self.encode, length, seed=1000 * length + first + d, items=items)
            seconds = trunk.prefill(document.tokens)
            self.tell(f"{length:,} tokens, document {d + 1} of {documents}: prefill {seconds:.1f} s")
            truth = self._dense(trunk, document, scores["dense"])
            scores["dense"].prefill.append(seconds)
            for name, spec in policies.items():
                self.tell(f"{length:,} tokens, document {d + 1} of {documents}: {name}")
                self._policy(trunk, document, spec, scores[name], truth, steps)
            if recall:
                self.tell(f"{length:,} tokens, document {d + 1} of {documents}: recall of the largest keys")
                for name, found in key_recall(trunk, self.model.program, document.following[:RECALL_QUERIES], policies).items():
                    scores[name].found.append(found)
        return list(scores.values())

    def _dense(self, trunk: Trunk, document: Document, score: Score) -> list[np.ndarray]:
        """Log-probabilities after the text that follows and after each question with its answer."""
        trunk.choose(None)
        truth = [log_softmax(trunk.logits(document.following))]
        for q in document.questions:
            text, answer = self.encode(q.text), self.encode(q.answer)
            truth.append(log_softmax(trunk.logits(np.array([*text, *answer], np.int32))))
            score.right.setdefault(q.task, []).append(_right(truth[-1], text, answer))
        score.kl.append(0.0)
        score.bytes.append(1.0)
        return truth

    def _policy(self, trunk: Trunk, document: Document, spec: SelectSpec, score: Score, truth: list[np.ndarray], steps: int) -> None:
        one = document.following[:1]
        trunk.choose(spec)
        began = time.perf_counter()
        trunk.logits(one)
        first = time.perf_counter() - began
        index = trunk.forward.index
        assert index is not None
        took: list[float] = []
        for _ in range(max(steps, 1)):
            began = time.perf_counter()
            trunk.logits(one)
            took.append(time.perf_counter() - began)
        score.step += took
        score.index.append(max(0.0, first - statistics.median(took)))
        index.stats[:] = 0
        texts: list[tuple[Question | None, np.ndarray]] = [(None, document.following)]
        texts += [(q, np.array([*self.encode(q.text), *self.encode(q.answer)], np.int32)) for q in document.questions]
        for (q, tokens), want in zip(texts, truth, strict=True):
            got = log_softmax(trunk.logits(tokens))
            score.kl += (np.exp(want) * (want - got)).sum(1).tolist()
            score.agree += (got.argmax(1) == want.argmax(1)).tolist()
            if q is not None:
                score.right.setdefault(q.task, []).append(_right(got, self.encode(q.text), self.encode(q.answer)))
        score.bytes.append(trunk.bytes_share(sum(int((trunk.length + 1 + np.arange(len(t))).sum()) for _, t in texts)))

    def formats(self, length: int, documents: int) -> list[dict[str, Any]]:
        """Mean KL to f16 of dense attention over each cache format, and seconds of a decoding step; every format computes its own prefill."""
        from headwater.core.kvspec import CACHE_FORMATS

        rows: list[dict[str, Any]] = []
        truth: list[np.ndarray] = []
        for format in CACHE_FORMATS:
            trunk = Trunk(self.model, length, self.model.config.kvspec(format))
            kl: list[float] = []
            agree: list[bool] = []
            took: list[float] = []
            for d in range(documents):
                document = make_document(self.text, self.encode, length, seed=1000 * length + d)
                trunk.prefill(document.tokens)
                self.tell(f"{length:,} tokens, document {d + 1} of {documents}: {format}")
                got = log_softmax(trunk.logits(document.following))
                if format == "f16":
                    truth.append(got)
                kl += (np.exp(truth[d]) * (truth[d] - got)).sum(1).tolist()
                agree += (got.argmax(1) == truth[d].argmax(1)).tolist()
                for _ in range(8):
                    began = time.perf_counter()
                    trunk.logits(document.following[:1])
                    took.append(time.perf_counter() - began)
            rows.append({"length": length, "format": format, "bytes_per_token": trunk.kv.bytes_per_token, "kl": float(np.mean(kl)),
                         "kl_standard_error": float(np.std(kl) / np.sqrt(len(kl))), "agree": float(np.mean(agree)), "seconds": took})
        return rows

    def procedures(self, length: int, documents: int, policies: dict[str, SelectSpec]) -> list[dict[str, Any]]:
        """Long procedures (`longproc.py`): per task and policy the share of right steps and of procedures that are right to the end."""
        rows: dict[tuple[str, str], dict[str, Any]] = {}
        for task in TASKS:
            for d in range(documents):
                document = make_procedure(task, self.encode, length, seed=1000 * length + d)
                trunk = Trunk(self.model, len(document.tokens))
                self.tell(f"{length:,} tokens, {task} {d + 1} of {documents}")
                trunk.prefill(document.tokens)
                scores = {name: Score(name) for name in ("dense", *policies)}
                truth = self._dense(trunk, document, scores["dense"])
                for name, spec in policies.items():
                    self._policy(trunk, document, spec, scores[name], truth, 0)
                for name, score in scores.items():
                    entry = rows.setdefault((task, name), {"length": length, "task": task, "policy": name, "steps": [], "whole": []})
                    entry["steps"] += score.right[task]
                    entry["whole"].append(all(score.right[task]))
        return list(rows.values())

    def prefills(self, length: int, documents: int, thresholds: Sequence[float]) -> list[dict[str, Any]]:
        """Prefill with chunks left out (blasst) against dense: seconds in turns, what was left out, mean KL over the text that follows."""
        trunk = Trunk(self.model, length)
        specs: dict[str, SelectSpec | None] = {"dense": None}
        specs |= {f"blasst:threshold={t:g}": build("attend", f"blasst:threshold={t}").selection() for t in thresholds}
        rows: dict[str, dict[str, Any]] = {n: {"length": length, "policy": n, "seconds": [], "left_out": [], "values": []} for n in specs}
        for d in range(documents):
            document = make_document(self.text, self.encode, length, seed=1000 * length + d)
            truth = np.zeros(0)
            for name, spec in specs.items():                        # dense comes first
                self.tell(f"{length:,} tokens, document {d + 1} of {documents}: {name}")
                rows[name]["seconds"].append(trunk.prefill(document.tokens, spec))
                if trunk.forward.index is not None:
                    seen, left = trunk.forward.index.stats[:2].tolist()
                    rows[name]["left_out"].append(left / seen)
                got = log_softmax(trunk.logits(document.following))
                truth = got if spec is None else truth
                rows[name]["values"] += (np.exp(truth) * (truth - got)).sum(1).tolist()
        return list(rows.values())

    def timed(self, length: int, policies: dict[str, SelectSpec], rounds: int = 12) -> dict[str, list[float]]:
        """Seconds of decoding steps at the end of a document, policies and dense taking turns in every round."""
        trunk = Trunk(self.model, length)
        document = make_document(self.text, self.encode, length, seed=length)
        trunk.prefill(document.tokens)
        indices = {}
        for name, spec in policies.items():
            trunk.choose(spec)
            trunk.logits(document.following[:1])
            indices[name] = trunk.forward.index
        took: dict[str, list[float]] = {name: [] for name in ("dense", *policies)}
        for _ in range(rounds):
            for name, seconds in took.items():
                trunk.forward.index = indices.get(name)
                began = time.perf_counter()
                trunk.logits(document.following[:1])
                seconds.append(time.perf_counter() - began)
        return took


def _right(logprobs: np.ndarray, text: list[int], answer: list[int]) -> bool:
    """Whether greedy decoding after the question brings the answer: every answer token is the most likely one where it stands."""
    return bool((logprobs[len(text) - 1 : -1].argmax(1) == np.asarray(answer)).all())


def solved(dense: Score, least: float = 0.5) -> list[str]:
    """Tasks that dense attention solves at least that often: only these can tell policies apart."""
    return [task for task, right in dense.right.items() if np.mean(right) >= least]


def points(score: Score, tasks: list[str]) -> float:
    """Answers right in these tasks, in percent; NaN where there is none."""
    right = [r for task in tasks for r in score.right.get(task, [])]
    return 100 * float(np.mean(right)) if right else float("nan")


def policies_of(specs: list[str]) -> dict[str, SelectSpec]:
    """Residents by their command-line specs; dense ones, those that never select and those for prompts are left out."""
    out = {}
    for spec in specs:
        select = build("attend", spec).selection()
        if isinstance(select, SelectSpec) and select.first_selective < NEVER and not select.everywhere:
            out[spec] = select
    return out


def find_text(path: Path | None) -> str:
    """The file's text, or a public-domain one from an installed package (aiperf ships Shakespeare)."""
    if path is None:
        from importlib import metadata

        try:
            files = metadata.files("aiperf") or []
        except metadata.PackageNotFoundError:
            files = []
        found = next((f for f in files if f.name == "shakespeare.txt"), None)
        if found is None:
            raise UserInputError("--text: a long plain-text file is needed (a public-domain book; the package aiperf ships one)", "text")
        path = Path(str(found.locate()))
    try:
        return path.read_text("utf-8", errors="replace")
    except OSError as e:
        raise UserInputError(f"--text {path}: {e.strerror}", "text") from None


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """KL over bytes read, one line per method, one panel per length. Needs matplotlib (headwater[plots])."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    lengths = sorted({r["length"] for r in rows})
    figure, axes = plt.subplots(1, len(lengths), figsize=(5 * len(lengths), 4), squeeze=False)
    for axis, length in zip(axes[0], lengths, strict=True):
        here = [r for r in rows if r["length"] == length and r["policy"] != "dense"]
        for method in sorted({r["policy"].split()[0].split(":")[0] for r in here}):
            mine = sorted((r for r in here if r["policy"].split()[0].split(":")[0] == method), key=lambda r: r["bytes"])
            axis.plot([r["bytes"] for r in mine], [max(r["kl"], 1e-6) for r in mine], "o-", label=method)
        axis.axhline(0.01, color="grey", lw=0.8, ls=":")
        axis.set(title=f"{length:,} tokens", xlabel="bytes read, of dense", ylabel="mean KL to dense, nats", yscale="log")
        axis.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def row(score: Score, dense: Score, length: int) -> dict[str, Any]:
    """What is printed and kept of a score."""
    tasks = solved(dense)
    kl = np.array(score.kl)
    return {
        "length": length, "policy": score.policy, "bytes": float(np.mean(score.bytes)), "kl": float(kl.mean()),
        "kl_standard_error": float(kl.std() / np.sqrt(len(kl))), "agree": float(np.mean(score.agree)) if score.agree else 1.0,
        "points": points(score, tasks), "dense_points": points(dense, tasks), "tasks": tasks,
        "by_task": {task: float(np.mean(right)) for task, right in score.right.items()},
        "index_share": float(np.sum(score.index) / np.sum(dense.prefill)) if score.index else 0.0,
        **{name: float(np.mean([f[name] for f in score.found])) for name in (score.found[0] if score.found else ())},
        "items": {task: len(right) for task, right in score.right.items()}, "prefill": float(np.median(dense.prefill)),
        "positions": len(kl), "values": kl.tolist(),
    }


def table_of(rows: list[dict[str, Any]], title: str) -> Any:
    """A rich table of rows with their seconds; speed-ups are medians of steps taken in turns."""
    from rich.table import Table

    table = Table("tokens", "policy", "bytes", "KL", "±", "top-1", "recall", "mass", "points", "dense", "ms", "x dense", "index", title=title)
    for r in rows:
        dense = next(d for d in rows if d["length"] == r["length"] and d["policy"] == "dense")
        ms = 1000 * statistics.median(r["seconds"])
        faster = statistics.median(b / a for a, b in zip(r["seconds"], dense["seconds"], strict=True))
        table.add_row(f"{r['length']:,}", r["policy"], f"{r['bytes']:.3f}", f"{r['kl']:.4f}", f"{r['kl_standard_error']:.4f}", f"{r['agree']:.3f}",
                      f"{r.get('recall', math.nan):.3f}", f"{r.get('mass', math.nan):.3f}", f"{r['points']:.0f}", f"{r['dense_points']:.0f}",
                      f"{ms:.1f}", f"{faster:.2f}", f"{100 * r['index_share']:.1f} %")
    return table


def items_for(length: int) -> tuple[int, int]:
    """(documents, items per task and document): 20 items per task up to 8k, 5 up to 16k, 1 beyond."""
    return (5, 4) if length <= 8192 else (1, 5) if length <= 16_384 else (1, 1)


def compare(rows: list[dict[str, Any]], ours: str = "wave", theirs: str = "quest") -> tuple[int, int, list[str]]:
    """At equal bytes: (points where `ours` is not significantly worse in KL, points in all, the others in words).

    Worse: the 95 % interval of the mean paired difference lies above 0. Positions of a document are not independent, so the interval is too
    narrow and exceptions are listed too readily.
    """
    kept = {(r["length"], r["policy"]): r for r in rows}
    good, exceptions = 0, []
    for (length, policy), mine in kept.items():
        method, _, budget = policy.partition(" ")
        other = kept.get((length, f"{method.replace(ours, theirs, 1)} {budget}"))
        if method.split("/")[0] != ours or other is None:
            continue
        difference = np.array(mine["values"]) - np.array(other["values"])
        low = difference.mean() - 1.96 * difference.std(ddof=1) / np.sqrt(len(difference))
        if low <= 0:
            good += 1
        else:
            exceptions.append(f"{length:,} tokens, {policy}: KL {mine['kl']:.4f} against {other['kl']:.4f}")
    return good, good + len(exceptions), exceptions


def formats_table(rows: list[dict[str, Any]], title: str) -> Any:
    """A rich table of `Bench.formats`."""
    from rich.table import Table

    table = Table("tokens", "format", "bytes per token", "KL to f16", "±", "top-1", "ms per step", title=title)
    for r in rows:
        table.add_row(f"{r['length']:,}", r["format"], f"{r['bytes_per_token']:,}", f"{r['kl']:.5f}", f"{r['kl_standard_error']:.5f}",
                      f"{r['agree']:.3f}", f"{1000 * statistics.median(r['seconds']):.1f}")
    return table


def procedures_table(rows: list[dict[str, Any]], title: str) -> Any:
    """A rich table of `Bench.procedures`."""
    from rich.table import Table

    table = Table("tokens", "task", "policy", "steps right", "whole right", "procedures", title=title)
    for r in rows:
        table.add_row(f"{r['length']:,}", r["task"], r["policy"], f"{100 * float(np.mean(r['steps'])):.0f} %",
                      f"{100 * float(np.mean(r['whole'])):.0f} %", str(len(r["whole"])))
    return table


def prefills_table(rows: list[dict[str, Any]], title: str) -> Any:
    """A rich table of `Bench.prefills`."""
    from rich.table import Table

    table = Table("tokens", "policy", "left out", "KL", "seconds", "x dense", title=title)
    for r in rows:
        dense = next(d for d in rows if d["length"] == r["length"] and d["policy"] == "dense")
        faster = statistics.median(b / a for a, b in zip(r["seconds"], dense["seconds"], strict=True))
        table.add_row(f"{r['length']:,}", r["policy"], f"{100 * float(np.mean(r['left_out'] or [0])):.1f} %", f"{float(np.mean(r['values'])):.5f}",
                      f"{statistics.median(r['seconds']):.2f}", f"{faster:.2f}")
    return table
