"""Prompts read in patterns against dense: divergence, captured mass, what is left out, and seconds; chunks of all policies take turns."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from headwater.bench.haystack import Document, make_document
from headwater.bench.longcontext import Trunk, log_softmax
from headwater.core.errors import UserInputError
from headwater.core.kvspec import BLOCK_TOKENS
from headwater.core.registry import build
from headwater.kernels.pattern import PatternSpec

CHUNK = 512                                # tokens of a step
MOST_KL = 0.01                             # mean, nats: the quality bound
POLICIES = (
    "crisp:alpha=1", "crisp:alpha=1.5", "crisp:alpha=1,block=64,least=4", "crisp:alpha=1.5,block=32,least=4", "crisp:whole_prompt=true",
    "flexprefill:gamma=0.95",
    "verticalslash:vertical=512,slash=1024", "xattention:threshold=0.9", "blasst:threshold=0.01",
)
QUICK = ("crisp:alpha=1", "crisp:alpha=1,block=64,least=4", "verticalslash:vertical=512,slash=1024", "xattention:threshold=0.9")
ABLATION = {                               # router x rule, everything else alike
    "mass, floor": "crisp:alpha=1", "divergence, floor": "crisp:alpha=1,route=divergence,tau=0.1",
    "mass, coverage": "crisp:coverage=true", "divergence, coverage": "crisp:coverage=true,route=divergence,tau=0.1",
    "always structured, floor": "crisp:alpha=1,route=slash",
}


@dataclass(slots=True)
class Score:
    """One policy at one length. kl: per position behind the document, nats; left_out: share of (query, head, block of 16) in sight.

    steps, attend: per document seconds of each step, whole and in attention; cpu: processor seconds, which a loaded machine moves less. mass:
    captured share of the soft-max behind the first tile, float64[layers, heads] or None; pooled: share of (tile, head) that block means decided.
    """

    policy: str
    length: int
    kl: list[float] = field(default_factory=list)
    agree: list[bool] = field(default_factory=list)
    left_out: list[float] = field(default_factory=list)
    steps: list[list[float]] = field(default_factory=list)
    attend: list[list[float]] = field(default_factory=list)
    cpu: list[list[float]] = field(default_factory=list)
    pooled: list[float] = field(default_factory=list)
    mass: np.ndarray | None = None


class PromptTrunk(Trunk):
    """A document computed chunk by chunk under a policy for prompts, or densely (None)."""

    def __init__(self, model: Any, length: int, policy: str | None) -> None:
        super().__init__(model, length)
        self.stats = np.zeros(4, np.int64)
        self.step = CHUNK                                           # tokens of a step
        self._follow(build("attend", policy).selection() if policy else None, model.config.heads // model.config.kv_heads)

    def _follow(self, spec: Any, group: int) -> None:
        from headwater.worker.branches import SCRATCH_BLOCKS
        from headwater.worker.pattern_pool import PatternPool

        assert self.full is not None
        if isinstance(spec, PatternSpec):
            shape = self.kv.groups[self.full]
            self.forward.pattern = PatternPool(replace(spec, group=group), self.full, shape, self.blocks + SCRATCH_BLOCKS)
            self.stats = self.forward.pattern.stats
            self.step = self.length if spec.whole else CHUNK
        else:
            self.choose(spec)
            if self.forward.index is not None:
                self.stats = self.forward.index.stats

    def chunk(self, tokens: np.ndarray, at: int) -> tuple[float, float, float]:
        """Compute tokens [at, at + step); -> seconds, seconds in attention, processor seconds."""
        self.forward.take_seconds()
        began, used = time.perf_counter(), time.process_time()
        self._hidden(tokens[at : at + self.step], at, reads=False)
        return time.perf_counter() - began, self.forward.take_seconds().get("attend", 0.0), time.process_time() - used

    def uncounted(self) -> int:
        """(query, head, block of 16) of a step that ends within the first tile: it is left to the dense kernel, which counts nothing."""
        pool, first = self.forward.pattern, min(self.step, self.length)
        if pool is None or first > pool.spec.tile:
            return 0
        layers, _, heads, _ = pool.samples.shape
        return int(layers * heads * (np.arange(first) // BLOCK_TOKENS + 1).sum())

    def captured(self, tokens: np.ndarray) -> np.ndarray | None:
        """Share of the soft-max that the pattern reads where the model itself runs densely: float64[layers, heads]; None for other policies."""
        pool = self.forward.pattern
        if pool is None:
            return None
        pool.measure()
        for at in range(0, len(tokens), self.step):
            self._hidden(tokens[at : at + self.step], at, reads=False)
        assert pool.mass is not None
        mass, pool.mass = pool.mass[pool.spec.dense_layers :], None
        return mass[..., 0] / np.maximum(mass[..., 1], 1)


class Bench:
    """Runs policies over documents. tell: progress, one line at a time."""

    def __init__(self, model: Any, tokenizer: Any, text: str, tell: Callable[[str], None] = lambda _: None) -> None:
        self.model, self.text, self.tell = model, text, tell
        self.encode: Callable[[str], list[int]] = lambda t: list(tokenizer.encode(t, add_special=False))

    def document(self, length: int, number: int) -> Document:
        return make_document(self.text, self.encode, length, seed=1000 * length + number)

    def run(self, length: int, documents: int, policies: tuple[str, ...], *, mass: bool = True, first: int = 0) -> list[Score]:
        """Scores of dense and of every policy at one length, over documents `first` and on; mass of the first document only."""
        scores = [Score(p, length) for p in ("dense", *policies)]
        for d in range(first, first + documents):
            document = self.document(length, d)
            trunks = [PromptTrunk(self.model, length, None if s.policy == "dense" else s.policy) for s in scores]
            self._prefill(document, trunks, scores)
            truth = np.zeros(0)
            for trunk, score in zip(trunks, scores, strict=True):   # dense comes first
                got = self._after(trunk, document)
                truth = got if score.policy == "dense" else truth
                score.kl += (np.exp(truth) * (truth - got)).sum(1).tolist()
                score.agree += (got.argmax(1) == truth.argmax(1)).tolist()
                seen, left, structured, pooled = trunk.stats.tolist()
                score.left_out.append(left / max(seen + trunk.uncounted(), 1))
                score.pooled.append(pooled / max(structured + pooled, 1))
            for trunk, score in zip(trunks, scores, strict=True):
                if mass and d == first:
                    self.tell(f"{length:,} tokens: captured mass of {score.policy}")
                    score.mass = trunk.captured(document.tokens)
                trunk.forward.close()
        return scores

    def _prefill(self, document: Document, trunks: list[PromptTrunk], scores: list[Score]) -> None:
        """All policies compute a chunk before anyone computes the next."""
        took: list[list[tuple[float, float, float]]] = [[] for _ in trunks]
        length = len(document.tokens)
        for turn, at in enumerate(range(0, length, CHUNK)):
            self.tell(f"{length:,} tokens: prefill, {at:,}")
            for i in range(len(trunks)):                            # another one begins each turn
                j = (i + turn) % len(trunks)
                if at % trunks[j].step == 0:
                    took[j].append(trunks[j].chunk(document.tokens, at))
        for score, times in zip(scores, took, strict=True):
            for kept, values in zip((score.steps, score.attend, score.cpu), zip(*times, strict=True), strict=True):
                kept.append(list(values))

    def _after(self, trunk: PromptTrunk, document: Document) -> np.ndarray:
        """Log-probabilities, read densely over the policy's keys and values: of the text that follows, and of questions with their answers."""
        asked = [np.array([*self.encode(q.text), *self.encode(q.answer)], np.int32) for q in document.questions]
        return np.concatenate([log_softmax(trunk.logits(t)) for t in (document.following, *asked)])


def faster(score: Score, dense: Score, of: str = "steps") -> float:
    """How many times sooner than dense the whole document is computed: median over documents of ratios of sums."""
    return statistics.median(sum(b) / max(sum(a), 1e-12) for a, b in zip(getattr(score, of), getattr(dense, of), strict=True))


def allowed(score: Score, dense: Score) -> float:
    """The speed-up if attention cost what is read and deciding were free: dense over dense less the left-out share of its attention."""
    left = float(np.mean(score.left_out))
    return statistics.median(sum(s) / (sum(s) - left * sum(a)) for s, a in zip(dense.steps, dense.attend, strict=True))


def crossover(score: Score, dense: Score) -> int | None:
    """The length from which on, to the end, the documents so far cost less than dense; None: never, or not known."""
    ours, theirs = (np.cumsum(np.mean(s.steps, axis=0)) for s in (score, dense))
    if len(ours) != len(theirs):                                    # computed in one step
        return None
    slower = np.flatnonzero(ours >= theirs)
    at = 0 if not len(slower) else int(slower[-1]) + 1
    return None if at == len(ours) else min((at + 1) * CHUNK, score.length)


def row(score: Score, dense: Score) -> dict[str, Any]:
    """What is printed and kept of a score."""
    kl = np.array(score.kl)
    own, bound = faster(score, dense), allowed(score, dense)
    return {
        "length": score.length, "policy": score.policy, "kl": float(kl.mean()), "kl_standard_error": float(kl.std() / np.sqrt(len(kl))),
        "agree": float(np.mean(score.agree)), "left_out": float(np.mean(score.left_out)), "pooled": float(np.mean(score.pooled)),
        "mass": None if score.mass is None else float(score.mass.mean()),
        "least_mass": None if score.mass is None else float(score.mass.min()),
        "seconds": [sum(s) for s in score.steps], "attend_seconds": [sum(s) for s in score.attend], "cpu_seconds": [sum(s) for s in score.cpu],
        "faster": own, "cpu_faster": faster(score, dense, "cpu"), "allowed": bound,
        "of_allowed": (own - 1) / (bound - 1) if bound > 1.005 else None, "attend_faster": faster(score, dense, "attend"),
        "crossover": crossover(score, dense), "within_bound": bool(kl.mean() <= MOST_KL), "steps": score.steps, "attend_steps": score.attend,
        "values": kl.tolist(),
    }


def verdict(rows: list[dict[str, Any]]) -> dict[int, str]:
    """Per length the fastest policy within the quality bound, or that there is none."""
    out = {}
    for length in sorted({r["length"] for r in rows}):
        good = [r for r in rows if r["length"] == length and r["policy"] != "dense" and r["within_bound"]]
        best = max(good, key=lambda r: r["faster"], default=None)
        none = f"no policy keeps a mean KL of {MOST_KL}: not reproduced at this scale"
        out[length] = none if best is None else f"{best['policy']}: {best['faster']:.2f} x dense at a mean KL of {best['kl']:.4f}"
    return out


def check(policies: list[str]) -> tuple[str, ...]:
    """The policies as given; raises UserInputError for those that are not for prompts."""
    for p in policies:
        spec = build("attend", p).selection()
        if spec is None or not (isinstance(spec, PatternSpec) or spec.everywhere):
            raise UserInputError(f"--policy {p}: reads prompts whole; such as {', '.join(QUICK[:2])} are for prompts", "policy")
    return tuple(policies)


def percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.1f} %"


def table_of(rows: list[dict[str, Any]], title: str) -> Any:
    """A rich table of rows."""
    from rich.table import Table

    table = Table("tokens", "policy", "left out", "mass", "KL", "±", "top-1", "seconds", "x dense", "by cpu", "allowed", "of it", "attention x",
                  "pays from", title=title)
    for r in rows:
        times = (f"{statistics.median(r['seconds']):.2f}", f"{r['faster']:.2f}", f"{r['cpu_faster']:.2f}", f"{r['allowed']:.2f}")
        pays = "never" if r["crossover"] is None else f"{r['crossover']:,}"
        table.add_row(f"{r['length']:,}", r["policy"], percent(r["left_out"]), percent(r["mass"]), f"{r['kl']:.5f}", f"{r['kl_standard_error']:.5f}",
                      f"{r['agree']:.3f}", *times, percent(r["of_allowed"]), f"{r['attend_faster']:.2f}", pays)
    return table


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """KL over what is left out, and cumulative seconds against dense over length. Needs matplotlib (headwater[plots])."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    lengths = sorted({r["length"] for r in rows})
    figure, axes = plt.subplots(2, len(lengths), figsize=(5.5 * len(lengths), 8), squeeze=False)
    for (above, below), length in zip(axes.T, lengths, strict=True):
        dense, *others = (r for r in rows if r["length"] == length)
        base = np.cumsum(np.mean(dense["steps"], axis=0))
        for r in others:
            above.plot(100 * r["left_out"], max(r["kl"], 1e-6), "o", label=r["policy"])
            if len(r["steps"][0]) == len(base):
                below.plot(np.minimum(CHUNK * np.arange(1, len(base) + 1), length), base / np.cumsum(np.mean(r["steps"], axis=0)))
        above.axhline(MOST_KL, color="grey", lw=0.8, ls=":")
        above.set(title=f"{length:,} tokens", xlabel="left out, %", ylabel="mean KL to dense, nats", yscale="log")
        above.legend(fontsize=6)
        below.axhline(1, color="grey", lw=0.8, ls=":")
        below.set(xlabel="tokens of the prompt so far", ylabel="times sooner than dense")
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)
