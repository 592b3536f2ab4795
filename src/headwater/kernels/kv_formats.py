"""Coded cache formats in numpy: what `csrc/attend/store_isa.cpp` writes and `tiles_isa.h` reads.

'q8': int8 and a float16 scale per 32 channels of a token. 'fp4': E2M1 codes and an E4M3 scale per 16 channels, the element format of
DeepSeek-V4.1's main KV (2609.19969, section 4), here without its training: without a second scale it
holds 0.006 to 2,688 as a group's largest magnitude. 'int4': codes 0..15 with float16 scale and minimum per 32 channels.
'k8v4': keys as in 'q8' and values as in 'int4': roundings of keys are blown up by the exponential, those of values averaged.
'i16': whole numbers of 15 bits under one scale per head and token, of values a power of two (ADR 011). Queries and soft-max weights are rounded
to whole numbers as well: products are exact integers, which matrix tiles multiply.
A name with an 'r' behind it ('q8r', 'int4r') is the same format behind an orthonormal Hadamard matrix per head, as in QuaRot (2404.00456):
channels that stand out are spread over all. Queries pass the same matrix, answers pass it again on the way out, so nothing else changes.
All are applied after the rotary embedding. In formats of four bits, byte i of each run of sixteen numbers holds number i (low half) and i + 8.
"""

from __future__ import annotations

import numpy as np

from headwater.kernels.program import BLOCK_TOKENS

# numbers of csrc/attend/attend.h; 16 = rotated
NUMBERS = {"f16": 0, "q8": 1, "fp4": 2, "int4": 3, "k8v4": 4, "i16": 8, "q8r": 17, "fp4r": 18, "int4r": 19, "k8v4r": 20}
Q8_CHANNELS = 32                  # channels of a token that share one scale in format 'q8'
I16_MOST, I16_LEAST, I16_WIDEST, I16_OFFSETS = 16319, np.float32(2.0**-60), 1024, (128, 64)
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6])
_LIMITS = np.array([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0], np.float32)
_TIES_UP = np.array([False, True, False, True, False, True, False])          # halves go to the even mantissa


def rotated(format: str) -> bool:
    """Whether keys and values pass a Hadamard matrix before they are stored."""
    return format.endswith("r")


def hadamard(x: np.ndarray) -> np.ndarray:
    """x [..., head_dim] times the orthonormal Hadamard matrix of its largest power of two, in its own precision; the matrix is its own inverse."""
    dim = x.shape[-1]
    run = dim & -dim
    y = x.copy()
    for h in (1 << i for i in range(run.bit_length() - 1)):
        pairs = y.reshape(*x.shape[:-1], dim // (2 * h), 2, h)
        y = np.stack([pairs[..., 0, :] + pairs[..., 1, :], pairs[..., 0, :] - pairs[..., 1, :]], axis=-2).reshape(x.shape)
    return y * y.dtype.type(1 / np.sqrt(run))


def part_format(format: str, key: bool) -> str:
    """The format of keys, or of values, before rotation: 'k8v4r' -> 'q8' or 'int4'."""
    plain = format.removesuffix("r")
    return plain if plain != "k8v4" else "q8" if key else "int4"


def block_bytes(format: str, head_dim: int, *, key: bool = True) -> int:
    """Bytes of one kv head of one block of keys, or of values. ValueError: unknown format, or heads that it cannot hold."""
    if format not in NUMBERS:
        raise ValueError(f"KV format: '{format}' is unknown ({', '.join(NUMBERS)})")
    if rotated(format) and head_dim % 16:
        raise ValueError(f"KV format: {format} wants heads whose width is a multiple of 16, not {head_dim}")
    if format not in ("f16", "q8", "q8r") and head_dim % 32:
        raise ValueError(f"KV format: {format} wants heads whose width is a multiple of 32, not {head_dim}")
    part = part_format(format, key)
    if part == "i16":
        if head_dim > I16_WIDEST:
            raise ValueError(f"KV format: i16 wants heads of at most {I16_WIDEST} channels, not {head_dim}")
        return BLOCK_TOKENS * (2 * head_dim + 4)
    if part == "f16":
        return 2 * BLOCK_TOKENS * head_dim
    if part == "q8":
        return BLOCK_TOKENS * (head_dim + 2 * q8_groups(head_dim))
    return BLOCK_TOKENS * (head_dim // 2 + head_dim // (16 if part == "fp4" else 8))


def q8_groups(head_dim: int) -> int:
    """How many scales a token's head has in format 'q8'."""
    return -(-head_dim // Q8_CHANNELS)


def quantise_q8(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """x f32[..., head_dim] -> int8[..., head_dim], float16 scales [..., groups].

    scale = float16(amax / 127), at most 65504 and at least float16(amax / 127) rounded up to keep |value| ≤ 127 by clipping;
    value = round to nearest even of x / scale.
    """
    head_dim = x.shape[-1]
    values = np.zeros(x.shape, np.int8)
    scales = np.zeros((*x.shape[:-1], q8_groups(head_dim)), np.float16)
    for g in range(q8_groups(head_dim)):
        part = x[..., g * Q8_CHANNELS:(g + 1) * Q8_CHANNELS].astype(np.float32)
        scale = np.minimum(np.abs(part).max(-1) / np.float32(127), np.float32(65504)).astype(np.float16)
        scales[..., g] = scale
        wide = scale.astype(np.float32)[..., None]
        inverse = np.divide(np.float32(1), wide, out=np.zeros_like(wide), where=wide > 0)
        values[..., g * Q8_CHANNELS:(g + 1) * Q8_CHANNELS] = np.clip(np.rint(part * inverse), -127, 127)
    return values, scales


def quantise_i16(x: np.ndarray, *, key: bool) -> tuple[np.ndarray, np.ndarray]:
    """x f32[..., head_dim] -> codes int16[..., head_dim] in [-16319, 16319], float32[...].

    The second is the scale amax / 16319 of keys and queries; of values e, the least whole number with amax <= 16319 · 2^e. Vectors below 2^-60 are
    zero (scale 0, e -74); a number that is not finite makes the scale NaN.
    """
    x = x.astype(np.float32)
    amax = np.abs(x).max(-1)
    finite = np.isfinite(x).all(-1)
    some = finite & (amax >= I16_LEAST)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        step = np.where(finite, amax, 0) / np.float32(I16_MOST)
        mantissa, exponent = np.frexp(step)                         # step = mantissa · 2^exponent, mantissa in [1/2, 1)
        exponent = np.where(some, exponent - (mantissa == 0.5), -74)
        inverse = np.float32(I16_MOST) / amax if key else np.ldexp(np.float32(1), -exponent)
        y = np.where(some, inverse, np.float32(0))[..., None] * x
        codes = np.rint(np.clip(np.where(np.isnan(y), I16_MOST, y), -I16_MOST, I16_MOST)).astype(np.int16)
    scales = np.where(some, step, 0) if key else exponent.astype(np.float32)
    return codes, np.where(finite, scales, np.nan).astype(np.float32)


def split_i16(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Codes as 128 · high + low, low in [-64, 63]."""
    high = (codes.astype(np.int32) + 64) >> 7
    return high.astype(np.int8), (codes - high * 128).astype(np.int8)


def e4m3(scales: np.ndarray) -> np.ndarray:
    """uint8, positive E4M3 -> float32."""
    return np.where(scales == 0x7F, np.nan, (scales.astype(np.uint16) << 7).view(np.float16).astype(np.float32) * 256).astype(np.float32)


def quantise_fp4(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """x f32[..., head_dim] -> codes uint8[..., head_dim] below 16, E4M3 scales uint8[..., head_dim / 16]; scale = amax / 6, rounded to even."""
    parts = x.astype(np.float32).reshape(*x.shape[:-1], -1, 16)
    half = (np.abs(parts).max(-1) / np.float32(6) / np.float32(256)).astype(np.float16).view(np.uint16).astype(np.int32)
    scales = np.minimum((half + 0x3F + (half >> 7 & 1)) >> 7, 0x7E).astype(np.uint8)
    wide = e4m3(scales)[..., None]
    y = np.abs(parts) * np.divide(np.float32(1), wide, out=np.zeros_like(wide), where=wide > 0)
    codes = np.where(_TIES_UP, y[..., None] >= _LIMITS, y[..., None] > _LIMITS).sum(-1).astype(np.uint8) | np.where(parts < 0, 8, 0).astype(np.uint8)
    return codes.reshape(x.shape), scales


def quantise_int4(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """x f32[..., head_dim] -> codes uint8[..., head_dim] below 16, float16 (scale, minimum) [..., head_dim / 32, 2]."""
    parts = x.astype(np.float32).reshape(*x.shape[:-1], -1, 32)
    low, high = parts.min(-1), parts.max(-1)
    scale, least = np.minimum((high - low) / np.float32(15), np.float32(65504)).astype(np.float16), low.astype(np.float16)
    wide = scale.astype(np.float32)[..., None]
    inverse = np.divide(np.float32(1), wide, out=np.zeros_like(wide), where=wide > 0)
    codes = np.clip(np.rint((parts - least.astype(np.float32)[..., None]) * inverse), 0, 15).astype(np.uint8)
    return codes.reshape(x.shape), np.stack([scale, least], axis=-1)


def put(block: np.ndarray, format: str, slot: int, x: np.ndarray, *, key: bool) -> None:
    """Store x f32[kv_heads, head_dim] as position `slot` of a coded block uint8[kv_heads, bytes]."""
    if rotated(format):
        x = hadamard(x.astype(np.float32))
    format = part_format(format, key)
    if format == "i16":
        halves, scale = slot_i16(block, x.shape[1], slot, key=key)
        codes, scale[:] = quantise_i16(x, key=key)
        for i, part in enumerate(split_i16(codes)):
            halves[:, i] = (part.view(np.uint8) + np.uint8(I16_OFFSETS[i] if key else 0)).reshape(halves[:, i].shape)
        return
    values, scales = take_apart(block, format, x.shape[1], key=key)
    if format == "q8":
        values[:, slot], scales[:, slot] = quantise_q8(x)
        return
    codes, scales[:, slot] = (quantise_fp4 if format == "fp4" else quantise_int4)(x)
    if key:                                                         # [head_dim][8]: the positions of a channel are one run
        half = values[:, :, slot % 8]
        values[:, :, slot % 8] = half & 15 | codes << 4 if slot >= 8 else half & 0xF0 | codes
    else:                                                           # [16][head_dim / 16][8]: sixteen channels are one run
        runs = codes.reshape(len(x), -1, 16)
        values[:, slot] = runs[..., :8] | runs[..., 8:] << 4


def get(block: np.ndarray, format: str, slot: int, head_dim: int, *, key: bool) -> np.ndarray:
    """Position `slot` of a coded block -> float64[kv_heads, head_dim]."""
    if rotated(format):
        return hadamard(get(block, format[:-1], slot, head_dim, key=key))
    format = part_format(format, key)
    if format == "i16":
        codes, steps = codes_i16(block, head_dim, slot, key=key)
        return codes * (steps.astype(np.float64) if key else np.exp2(steps.astype(np.float64)))[:, None]
    values, scales = take_apart(block, format, head_dim, key=key)
    if format == "q8":
        return values[:, slot].astype(np.float64) * np.repeat(scales[:, slot].astype(np.float64), Q8_CHANNELS, axis=-1)[:, :head_dim]
    if key:
        codes = values[:, :, slot % 8] >> (4 if slot >= 8 else 0) & 15
    else:
        codes = np.concatenate([values[:, slot] & 15, values[:, slot] >> 4], axis=-1).reshape(len(block), head_dim)
    if format == "fp4":
        return E2M1[codes] * np.repeat(e4m3(scales[:, slot]).astype(np.float64), 16, axis=-1)
    scale, least = (np.repeat(scales[:, slot, :, i].astype(np.float64), 32, axis=-1) for i in (0, 1))
    return codes * scale + least


def slot_i16(block: np.ndarray, head_dim: int, slot: int, *, key: bool) -> tuple[np.ndarray, np.ndarray]:
    """Views of position `slot` of a block uint8[kv_heads, bytes] in format 'i16': bytes [kv_heads, (high, low), head_dim / 4, 4] of keys and
    [kv_heads, (high, low), head_dim] of values, scales float32[kv_heads]."""
    n, split = len(block), 2 * BLOCK_TOKENS * head_dim
    codes, scales = block[:, :split], block[:, split:].view(np.float32)[:, slot]
    if key:                                                         # fours of channels lie together
        return codes.reshape(n, 2, head_dim // 4, BLOCK_TOKENS, 4)[:, :, :, slot], scales
    return codes.reshape(n, 2, 4, head_dim, 4)[:, :, slot // 4, :, slot % 4], scales


def codes_i16(block: np.ndarray, head_dim: int, slot: int, *, key: bool) -> tuple[np.ndarray, np.ndarray]:
    """Position `slot` of a block uint8[kv_heads, bytes] in format 'i16': codes int32[kv_heads, head_dim], scales or exponents float32[kv_heads]."""
    halves, scales = slot_i16(block, head_dim, slot, key=key)
    high, low = ((halves[:, i] - np.uint8(I16_OFFSETS[i] if key else 0)).view(np.int8).reshape(-1, head_dim).astype(np.int32) for i in range(2))
    return 128 * high + low, scales


def take_apart(block: np.ndarray, format: str, head_dim: int, *, key: bool) -> tuple[np.ndarray, np.ndarray]:
    """Views of a coded block uint8[kv_heads, bytes]: codes, and scales with positions as their second axis.

    'q8': int8[kv_heads, 16, head_dim]. Four bits: keys uint8[kv_heads, head_dim, 8], values uint8[kv_heads, 16, head_dim / 16, 8].
    """
    n = len(block)
    split = BLOCK_TOKENS * head_dim // (1 if format == "q8" else 2)
    codes, scales = block[:, :split], block[:, split:]
    if format == "q8":
        codes, halves = codes.view(np.int8), scales.view(np.float16)
        if key:
            return codes.reshape(n, head_dim, BLOCK_TOKENS).transpose(0, 2, 1), halves.reshape(n, -1, BLOCK_TOKENS).transpose(0, 2, 1)
        return codes.reshape(n, BLOCK_TOKENS, head_dim), halves.reshape(n, BLOCK_TOKENS, -1)
    codes = codes.reshape(n, head_dim, 8) if key else codes.reshape(n, BLOCK_TOKENS, head_dim // 16, 8)
    if format == "fp4":
        return codes, scales.reshape(n, -1, BLOCK_TOKENS).transpose(0, 2, 1) if key else scales.reshape(n, BLOCK_TOKENS, -1)
    halves = scales.view(np.float16)
    if key:
        return codes, halves.reshape(n, -1, 2, BLOCK_TOKENS).transpose(0, 3, 1, 2)
    return codes, halves.reshape(n, BLOCK_TOKENS, -1, 2)
