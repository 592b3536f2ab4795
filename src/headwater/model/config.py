"""The facts of one model, checked: whatever file they came from, a `ModelConfig` that exists is consistent."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from headwater.core.errors import FormatError, UserInputError
from headwater.core.kvspec import CacheGroup, KVSpec, StateSpec
from headwater.model.rope import SCALINGS, RopeConfig

Pooling = Literal["none", "mean", "cls", "last"]
POOLINGS: tuple[Pooling, ...] = ("none", "mean", "cls", "last")           # in the order of GGUF's pooling_type
LIMITS = {"vocab": 1 << 22, "dim": 1 << 18, "layers": 1 << 11, "ffn": 1 << 20, "heads": 1 << 12, "head_dim": 1 << 12, "context": 1 << 28}


@dataclass(frozen=True, slots=True)
class DeltaConfig:
    """Gated-delta layers: key_heads divides value_heads; conv_width: taps of the short convolution over q, k and v."""

    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    conv_width: int

    @property
    def conv_dim(self) -> int:
        """Channels that pass the convolution: q, k and v side by side."""
        return 2 * self.key_heads * self.key_dim + self.value_heads * self.value_dim


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """Facts of a model. Counts are numbers of things, sizes are numbers of float32 channels.

    family: name of the page in `families`. source: who wrote the file; decides rope order and what norms look like on disk.
    context: positions that the model was made for. windows: per layer, newest positions that a query sees (0 = all).
    kinds: per layer, 'attention' or 'delta' (gated-delta recurrence).
    rope_local: for layers with a window, where it differs. interleaved: rope pairs (2i, 2i + 1), the order of GGUF llama files.
    tied: the output matrix is the embedding; None = decided by whether the file has one. embed_scale multiplies embeddings.
    attn_scale multiplies q · k. softcaps: 0 = none.
    pooling: how hidden rows become a text embedding ('none' for generators); normalise: it has length one.
    label: what error messages call the file.
    """

    family: str
    label: str
    vocab: int
    dim: int
    layers: int
    ffn: int
    heads: int
    kv_heads: int
    head_dim: int
    context: int
    eps: float
    rope: RopeConfig | None
    rope_local: RopeConfig | None = None
    source: Literal["gguf", "hub"] = "gguf"
    name: str = ""
    interleaved: bool = False
    windows: tuple[int, ...] = ()
    kinds: tuple[str, ...] = ()
    delta: DeltaConfig | None = None
    tied: bool | None = None
    embed_scale: float = 1.0
    attn_scale: float = 0.0
    attn_softcap: float = 0.0
    logit_softcap: float = 0.0
    logit_scale: float = 1.0
    causal: bool = True
    token_types: int = 0
    pooling: Pooling = "none"
    normalise: bool = False

    def __post_init__(self) -> None:
        self._check_sizes()
        if not self.attn_scale:
            object.__setattr__(self, "attn_scale", self.head_dim**-0.5)
        for field, fill in (("windows", 0), ("kinds", "attention")):
            per_layer = getattr(self, field) or (fill,) * self.layers
            if len(per_layer) != self.layers:
                raise self.wrong(field, f"has {len(per_layer)} entries for {self.layers} layers")
            object.__setattr__(self, field, per_layer)
        for w in self.windows:
            if not 0 <= w <= LIMITS["context"]:
                raise self.wrong("sliding window", f"is {w}; from 0 (none) to {LIMITS['context']:,} positions are possible")
        for rope in filter(None, (self.rope, self.rope_local)):
            self._check_rope(rope)
        self._check_floats()
        if "delta" in self.kinds:
            self._check_delta()

    @property
    def q_dim(self) -> int:
        return self.heads * self.head_dim

    @property
    def kv_dim(self) -> int:
        return self.kv_heads * self.head_dim

    def wrong(self, field: str, what: str) -> FormatError:
        return FormatError(f"{self.label}: {field} {what}", field=field)

    def kvspec(self, kv_format: str = "f16") -> KVSpec:
        """What this model must remember. Groups: layers that see everything first, then one group per window width.

        Under formats of four bits, window layers stay at eight: they are small, and the newest tokens weigh most.
        """
        four_bits = kv_format.startswith(("fp4", "int4", "k8v4"))
        if (four_bits or kv_format == "i16") and self.head_dim % 32:
            raise UserInputError(f"--kv-format {kv_format}: wants heads of a multiple of 32 channels, the model's have {self.head_dim}", "kv_format")
        if kv_format.endswith("r") and self.head_dim % 16:
            raise UserInputError(f"--kv-format {kv_format}: wants heads of a multiple of 16 channels, the model's have {self.head_dim}", "kv_format")
        windowed = ("q8r" if kv_format.endswith("r") else "q8") if four_bits else kv_format
        groups = tuple(
            CacheGroup("window" if w else "full", n, self.kv_heads, self.head_dim, w, windowed if w else kv_format)
            for w, n in self._group_sizes().items()
        )
        n, d = self.kinds.count("delta"), self.delta
        if not n or d is None:
            return KVSpec(groups)
        conv = StateSpec("conv", n, (d.conv_dim, d.conv_width - 1))
        return KVSpec(groups, (conv, StateSpec("delta", n, (d.value_heads, d.value_dim, d.key_dim))))

    def place(self, layer: int) -> tuple[int, int]:
        """(cache group, index inside it) of an attention layer, or (0, index among delta layers)."""
        if self.kinds[layer] == "delta":
            return 0, self.kinds[:layer].count("delta")
        mine = self.windows[layer]
        before = sum(1 for w, k in zip(self.windows[:layer], self.kinds, strict=False) if w == mine and k == "attention")
        return list(self._group_sizes()).index(mine), before

    def _group_sizes(self) -> dict[int, int]:
        """Window width -> number of attention layers, full layers first."""
        sizes: dict[int, int] = {}
        for w in sorted({w for w, k in zip(self.windows, self.kinds, strict=True) if k == "attention"}):
            sizes[w] = sum(1 for v, k in zip(self.windows, self.kinds, strict=True) if v == w and k == "attention")
        return sizes

    def _check_sizes(self) -> None:
        for field in ("vocab", "dim", "layers", "ffn", "heads", "kv_heads", "head_dim", "context"):
            value, high = getattr(self, field), LIMITS["heads" if field == "kv_heads" else field]
            if not 1 <= value <= high:
                raise self.wrong(FIELD_NAMES[field], f"is {value:,}; from 1 to {high:,} is possible")
        if self.heads % self.kv_heads:
            raise self.wrong("head count", f"{self.heads} is not a multiple of the KV head count {self.kv_heads}")
        if self.dim % 32 or self.ffn % 32 or self.q_dim % 32:
            raise self.wrong("sizes", f"(embedding {self.dim}, feed-forward {self.ffn}, heads {self.q_dim}) must be multiples of 32")

    def _check_rope(self, rope: RopeConfig) -> None:
        if rope.scaling not in SCALINGS:
            raise self.wrong("rope scaling", f"'{rope.scaling}' is not supported; supported: {', '.join(SCALINGS)}")
        if not 2 <= rope.dims <= self.head_dim or rope.dims % 2:
            raise self.wrong("rope dimension count", f"is {rope.dims}; an even number up to the head size {self.head_dim} is possible")
        if not 1.0 < rope.theta < 1e15:
            raise self.wrong("rope base", f"is {rope.theta}; it must be larger than 1 and below 1e15")
        if not 0.0 < rope.factor <= 1e6:
            raise self.wrong("rope scaling factor", f"is {rope.factor}; it must be positive and at most 1e6")
        if rope.scaling in ("llama3", "yarn", "longrope") and not 2 <= rope.original_context <= LIMITS["context"]:
            raise self.wrong("rope original context length", f"is {rope.original_context}; '{rope.scaling}' scaling needs one of 2 or more")
        if rope.scaling == "llama3" and not 0 < rope.low_freq_factor < rope.high_freq_factor < 1e6:
            raise self.wrong("rope frequency factors", f"{rope.low_freq_factor} and {rope.high_freq_factor} must be positive and ascending")
        if rope.scaling == "yarn" and not 0 < rope.beta_slow <= rope.beta_fast < 1e6:
            raise self.wrong("rope betas", f"slow {rope.beta_slow} and fast {rope.beta_fast} must be positive, slow not above fast")
        if rope.attention_factor is not None and not 0 < rope.attention_factor < 1e3:
            raise self.wrong("rope attention factor", f"is {rope.attention_factor}; it must be positive and below 1,000")
        if rope.divisors and len(rope.divisors) != rope.dims // 2:
            raise self.wrong("rope factors", f"are {len(rope.divisors)}; {rope.dims // 2} are needed, one per pair of turning channels")
        if not all(0 < d < 1e9 for d in rope.divisors):
            raise self.wrong("rope factors", "must be positive and below 1e9")

    def _check_floats(self) -> None:
        if not 0 < self.eps < 1:
            raise self.wrong("norm epsilon", f"is {self.eps}; it must lie between 0 and 1")
        for field in ("embed_scale", "attn_scale", "logit_scale"):
            value = getattr(self, field)
            if not math.isfinite(value) or not 0 < abs(value) < 1e6:
                raise self.wrong(field.replace("_", " "), f"is {value}; it must be finite, not zero and below 1e6")
        for field in ("attn_softcap", "logit_softcap"):
            if not 0 <= getattr(self, field) < 1e6:
                raise self.wrong(field.replace("_", " "), f"is {getattr(self, field)}; from 0 (none) to 1e6 is possible")

    def _check_delta(self) -> None:
        d = self.delta
        if d is None:
            raise self.wrong("linear attention", "layers are named but their sizes are not")
        for field in ("key_heads", "value_heads", "key_dim", "value_dim"):
            if not 1 <= getattr(d, field) <= 4096:
                raise self.wrong(f"linear attention {field.replace('_', ' ')}", f"is {getattr(d, field)}; from 1 to 4,096 is possible")
        if d.value_heads % d.key_heads:
            raise self.wrong("linear attention value heads", f"{d.value_heads} are not a multiple of the key heads {d.key_heads}")
        if (d.value_heads * d.value_dim) % 32:
            raise self.wrong("linear attention value size", f"{d.value_heads} x {d.value_dim} is not a multiple of 32")
        if not 2 <= d.conv_width <= 64:
            raise self.wrong("linear attention convolution width", f"is {d.conv_width}; from 2 to 64 is possible")


FIELD_NAMES = {
    "vocab": "vocabulary size", "dim": "embedding length", "layers": "layer count", "ffn": "feed-forward length", "heads": "head count",
    "kv_heads": "KV head count", "head_dim": "head size", "context": "context length",
}
