"""Rotary frequencies and the ways in which models stretch them over longer contexts."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from headwater.kernels.ops import Rope

SCALINGS = ("none", "linear", "llama3", "yarn", "longrope")


@dataclass(frozen=True, slots=True)
class RopeConfig:
    """One rotary embedding. Angles are position · inv_freq[i], i < dims / 2.

    dims: leading channels of each head that turn. factor: context extension. original_context: positions seen in pre-training.
    divisors: what each frequency is divided by (longrope's factors; the `rope_freqs.weight` tensor of a GGUF); empty = none.
    attention_factor: multiplies cos and sin; None = what the method prescribes.
    """

    theta: float
    dims: int
    scaling: str = "none"
    factor: float = 1.0
    original_context: int = 0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    truncate: bool = True
    attention_factor: float | None = None
    divisors: tuple[float, ...] = ()

    def inv_freq(self) -> np.ndarray:
        """float32[dims / 2], computed in float64."""
        base = self.theta ** -(np.arange(0, self.dims, 2) / self.dims)
        if self.divisors:
            base = base / np.asarray(self.divisors, np.float64)
        if self.scaling == "linear":
            base = base / self.factor
        elif self.scaling == "llama3":
            base = self._llama3(base)
        elif self.scaling == "yarn":
            base = self._yarn(base)
        return base.astype(np.float32)

    def mscale(self) -> float:
        """What cos and sin are multiplied by."""
        if self.attention_factor is not None:
            return self.attention_factor
        if self.factor <= 1.0:
            return 1.0
        if self.scaling == "yarn":
            return 0.1 * math.log(self.factor) + 1.0
        if self.scaling == "longrope":
            return math.sqrt(1.0 + math.log(self.factor) / math.log(self.original_context))
        return 1.0

    def build(self, *, interleaved: bool = False) -> Rope:
        return Rope(self.inv_freq(), interleaved=interleaved, mscale=self.mscale())

    def _llama3(self, base: np.ndarray) -> np.ndarray:
        """Llama 3.1: long wavelengths are divided by `factor`, short ones kept, those between blended linearly in turns per context."""
        turns = self.original_context * base / (2 * math.pi)
        keep = np.clip((turns - self.low_freq_factor) / (self.high_freq_factor - self.low_freq_factor), 0.0, 1.0)
        return (1.0 - keep) * base / self.factor + keep * base

    def _yarn(self, base: np.ndarray) -> np.ndarray:
        """YaRN (2309.00071, section 3.2): a ramp over channels between interpolation and extrapolation."""

        def channel(rotations: float) -> float:
            return self.dims * math.log(self.original_context / (rotations * 2 * math.pi)) / (2 * math.log(self.theta))

        low, high = channel(self.beta_fast), channel(self.beta_slow)
        if self.truncate:
            low, high = math.floor(low), math.ceil(high)
        low, high = max(low, 0), min(high, self.dims - 1)
        ramp = np.clip((np.arange(self.dims // 2) - low) / ((high - low) or 0.001), 0.0, 1.0)
        return ramp * base / self.factor + (1.0 - ramp) * base
