"""Contexts beyond the one that a model was made for: how `--rope-scaling METHOD:factor=F` changes its rotary embedding."""

from __future__ import annotations

import math
from dataclasses import replace

from headwater.core.errors import UserInputError
from headwater.model.config import LIMITS, ModelConfig
from headwater.model.rope import RopeConfig

METHODS = ("none", "linear", "ntk", "yarn")


def parse_scaling(spec: str) -> tuple[str, float]:
    """`yarn:factor=4` -> ('yarn', 4.0). Raises UserInputError naming what would be right."""
    method, _, rest = spec.partition(":")
    key, _, number = rest.partition("=")
    right = f"METHOD:factor=F with one of {', '.join(METHODS)} and a factor above 1 up to 64, such as yarn:factor=4"
    try:
        factor = float(number)
    except ValueError:
        factor = math.nan
    if method not in METHODS or key != "factor" or not 1 < factor <= 64:
        raise UserInputError(f"--rope-scaling {spec}: {right}", "rope_scaling")
    return method, factor


def stretch(rope: RopeConfig, method: str, factor: float, context: int) -> RopeConfig:
    """The rotary embedding for factor · context positions.

    none: as it is (for policies that move positions). linear: positions divided by `factor` (Chen et al., 2306.15595). ntk: the base times
    factor^(d / (d - 2)), so that the slowest pair turns `factor` times slower and the fastest as before. yarn: 2309.00071, with its temperature.
    """
    if method == "linear":
        return replace(rope, scaling="linear", factor=factor)
    if method == "ntk":
        if rope.dims <= 2:
            raise UserInputError("--rope-scaling ntk: wants heads of more than one turning pair", "rope_scaling")
        return replace(rope, theta=rope.theta * factor ** (rope.dims / (rope.dims - 2)))
    if method == "yarn":
        return replace(rope, scaling="yarn", factor=factor, original_context=context)
    return rope


def stretched(config: ModelConfig, spec: str) -> ModelConfig:
    """The model with a longer context; an empty spec changes nothing. Layers with a sliding window keep their embedding.

    Raises UserInputError for models without a rotary embedding, and where the model's own is stretched already.
    """
    if not spec:
        return config
    method, factor = parse_scaling(spec)
    if config.rope is None:
        raise UserInputError(f"--rope-scaling {spec}: the model has no rotary embedding", "rope_scaling")
    if method != "none" and (config.rope.scaling != "none" or config.rope.divisors):
        raise UserInputError(f"--rope-scaling {spec}: the model's own embedding is stretched already; none:factor=F goes with it", "rope_scaling")
    local = config.rope_local or (config.rope if any(config.windows) else None)
    context = min(int(config.context * factor), LIMITS["context"])
    return replace(config, rope=stretch(config.rope, method, factor, config.context), rope_local=local, context=context)
