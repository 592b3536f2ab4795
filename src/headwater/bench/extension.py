"""Going past the trained length: what the next tokens cost in nats, at positions inside and beyond it, for every way of extending a context."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from headwater.bench.longcontext import log_softmax
from headwater.core.errors import UserInputError
from headwater.core.kvspec import BLOCK_TOKENS
from headwater.core.registry import build
from headwater.kernels.program import Step

SCORED = 64                               # tokens that are scored at every position asked for
STEP = 512


def methods_for(trained: int, factor: int) -> list[str]:
    """`rope scaling` or `rope scaling + attend`, for a context `factor` times the trained one."""
    chunk = max(256, trained * 3 // 4 // 256 * 256)
    return [f"none:factor={factor}", f"linear:factor={factor}", f"ntk:factor={factor}", f"yarn:factor={factor}",
            f"none:factor={factor} + dualchunk:trained={trained},chunk={chunk}", f"none:factor={factor} + stream:window={trained // 4}"]


def extension(
    paths: Sequence[Path], tokens: np.ndarray, places: Sequence[int], methods: Sequence[str], tell: Callable[[str], None] = lambda _: None,
) -> list[dict[str, Any]]:
    """Per method and place: mean negative log-likelihood of the `SCORED` tokens from there on, and their mean KL to the first method.

    tokens: at least the last place + `SCORED`. The KL to the first method says what a method costs where it is not needed; beyond the trained
    length likelihoods are what counts. Raises UserInputError for methods and models that do not fit each other.
    """
    ends = sorted(places)
    if not ends or ends[0] < 1 or len(tokens) < ends[-1] + SCORED:
        raise UserInputError(f"--extend: the text has {len(tokens):,} tokens, {ends[-1] + SCORED if ends else 1:,} are needed", "text")
    plain: dict[int, np.ndarray] = {}
    rows: list[dict[str, Any]] = []
    for method in dict.fromkeys([methods[0], *methods]):
        tell(method)
        for end, got in _scored(paths, method, tokens, ends):
            truth = plain.setdefault(end, got)
            following = tokens[end + 1 : end + SCORED]
            rows.append({
                "method": method, "position": end, "nll": float(-got[np.arange(len(following)), following].mean()),
                "kl": float((np.exp(truth) * (truth - got)).sum(1).mean()),
            })
    return rows


def _scored(paths: Sequence[Path], method: str, tokens: np.ndarray, ends: Sequence[int]) -> list[tuple[int, np.ndarray]]:
    """(place, log-probabilities float64[SCORED, vocabulary] after the tokens from there on) of one method."""
    from headwater.model.load.loader import load_model
    from headwater.worker.model_forward import ModelForward

    scaling, _, attend = (part.strip() for part in method.partition("+"))
    model = load_model(paths, rope_scaling=scaling)
    length = ends[-1] + SCORED
    if length > model.config.context:
        raise UserInputError(f"--extend: {length:,} tokens are more than the {model.config.context:,} of {method}", "length")
    select = build("attend", attend).selection() if attend else None
    blocks = -(-length // BLOCK_TOKENS)
    forward = ModelForward(model.program, model.kvspec, (blocks,) * len(model.kvspec.groups), 0, context=length, identity=model.identity,
                           step_tokens=STEP, vocabulary=model.config.vocab, select=select, attend=attend)
    table = np.arange(blocks, dtype=np.int32)[None]
    out: list[tuple[int, np.ndarray]] = []
    steps = (at for at in range(STEP, length, STEP) if not any(e < at < e + SCORED for e in ends))
    cuts = sorted({*steps, *ends, *(e + SCORED for e in ends)})
    for start, stop in zip([0, *cuts], cuts, strict=False):
        reads = np.arange(stop - start if start in ends else 0, dtype=np.int32)
        tables = [np.ascontiguousarray(table[:, : -(-stop // BLOCK_TOKENS)]) for _ in model.kvspec.groups]
        positions, rows = np.arange(start, stop, dtype=np.int32), np.array([0, stop - start], np.int32)
        step = Step(np.asarray(tokens[start:stop], np.int32), positions, rows, reads, tables, border=np.array([0], np.int32))
        hidden = forward.hidden(step)
        if start in ends:
            out.append((start, log_softmax(forward.logits(hidden))))
    return out


def extension_table(rows: list[dict[str, Any]], title: str) -> Any:
    """A rich table of `extension`: one line per method, one pair of columns per place."""
    from rich.table import Table

    places = sorted({r["position"] for r in rows})
    table = Table("method", *(f"nats at {p:,}" for p in places), *(f"KL at {p:,}" for p in places), title=title)
    for method in dict.fromkeys(r["method"] for r in rows):
        mine = {r["position"]: r for r in rows if r["method"] == method}
        table.add_row(method, *(f"{mine[p]['nll']:.3f}" for p in places), *(f"{mine[p]['kl']:.4f}" for p in places))
    return table
