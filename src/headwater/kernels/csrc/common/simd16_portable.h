// The sixteen lanes as sixteen floats: baseline instructions only, the same bits, slowly. See simd16.h for what each operation means.
#pragma once

#include <cmath>

namespace hw {
namespace HW_ISA {

struct F32x16 {
  float v[16];
};
struct I32x16 {
  int32_t v[16];
};
struct U8x64 {
  uint8_t v[64];
};
struct Mask16 {
  uint32_t m;
};

#define HW_LANES for (int i = 0; i < 16; ++i)

HW_INLINE F32x16 load(const float* p) {
  F32x16 r;
  std::memcpy(r.v, p, 64);
  return r;
}
HW_INLINE F32x16 load_first(const float* p, int n) {
  F32x16 r;
  HW_LANES r.v[i] = i < n ? p[i] : 0.0f;
  return r;
}
HW_INLINE void store(float* p, F32x16 a) { std::memcpy(p, a.v, 64); }
HW_INLINE void store_first(float* p, F32x16 a, int n) {
  for (int i = 0; i < n; ++i) p[i] = a.v[i];
}
HW_INLINE F32x16 splat(float x) {
  F32x16 r;
  HW_LANES r.v[i] = x;
  return r;
}
#define HW_BINARY(name, expression)             \
  HW_INLINE F32x16 name(F32x16 a, F32x16 b) {   \
    F32x16 r;                                   \
    HW_LANES r.v[i] = expression;               \
    return r;                                   \
  }
HW_BINARY(add, a.v[i] + b.v[i])
HW_BINARY(sub, a.v[i] - b.v[i])
HW_BINARY(mul, a.v[i] * b.v[i])
HW_BINARY(div, a.v[i] / b.v[i])
HW_BINARY(max, a.v[i] > b.v[i] ? a.v[i] : b.v[i])
HW_BINARY(min, a.v[i] < b.v[i] ? a.v[i] : b.v[i])
HW_BINARY(copy_sign, std::copysign(a.v[i], b.v[i]))
#undef HW_BINARY
HW_INLINE F32x16 fma(F32x16 a, F32x16 b, F32x16 c) {
  F32x16 r;
  HW_LANES r.v[i] = std::fma(a.v[i], b.v[i], c.v[i]);
  return r;
}
HW_INLINE F32x16 sqrt(F32x16 a) {
  HW_LANES a.v[i] = std::sqrt(a.v[i]);
  return a;
}
HW_INLINE F32x16 abs(F32x16 a) {
  HW_LANES a.v[i] = std::fabs(a.v[i]);
  return a;
}

HW_INLINE Mask16 less(F32x16 a, F32x16 b) {
  uint32_t m = 0;
  HW_LANES m |= static_cast<uint32_t>(a.v[i] < b.v[i]) << i;
  return {m};
}
HW_INLINE Mask16 mask_first(int n) { return {n >= 16 ? 0xffffu : n <= 0 ? 0u : (1u << n) - 1u}; }
HW_INLINE Mask16 mask_and(Mask16 a, Mask16 b) { return {a.m & b.m}; }
HW_INLINE bool any(Mask16 a) { return a.m != 0; }
HW_INLINE uint32_t mask_bits(Mask16 a) { return a.m; }
HW_INLINE Mask16 mask_from_bits(uint32_t bits) { return {bits & 0xffffu}; }
HW_INLINE F32x16 select(Mask16 m, F32x16 yes, F32x16 no) {
  HW_LANES no.v[i] = (m.m >> i & 1u) ? yes.v[i] : no.v[i];
  return no;
}

HW_INLINE float bits_to_float(uint32_t bits) {
  float f;
  std::memcpy(&f, &bits, 4);
  return f;
}
HW_INLINE uint32_t float_to_bits(float f) {
  uint32_t bits;
  std::memcpy(&bits, &f, 4);
  return bits;
}
HW_INLINE float f16_to_float(uint16_t h) {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16, exponent = h >> 10 & 31u, fraction = h & 0x3ffu;
  if (exponent == 31) return bits_to_float(sign | 0x7f800000u | fraction << 13 | (fraction ? 0x400000u : 0u));
  if (exponent) return bits_to_float(sign | (exponent + 112) << 23 | fraction << 13);
  const float tiny = static_cast<float>(fraction) * 5.9604644775390625e-8f;  // 2^-24, exact
  return sign ? -tiny : tiny;
}
HW_INLINE uint16_t float_to_f16(float f) {  // round to nearest even
  const uint32_t bits = float_to_bits(f), sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u | (magnitude >> 13 & 0x3ffu));
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);
  if (magnitude < 0x38800000u) {  // subnormal: adding 0.5 leaves the rounded fraction in the low bits
    const float shifted = bits_to_float(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (float_to_bits(shifted) - 0x3f000000u));
  }
  const uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u);
  return static_cast<uint16_t>(sign | (rounded - 0x38000000u) >> 13);
}
HW_INLINE F32x16 load_f16(const uint16_t* p) {
  F32x16 r;
  HW_LANES r.v[i] = f16_to_float(p[i]);
  return r;
}
HW_INLINE void store_f16(uint16_t* p, F32x16 a) { HW_LANES p[i] = float_to_f16(a.v[i]); }
HW_INLINE F32x16 load_bf16(const uint16_t* p) {
  F32x16 r;
  HW_LANES r.v[i] = bits_to_float(static_cast<uint32_t>(p[i]) << 16);
  return r;
}
HW_INLINE F32x16 load_i8(const int8_t* p) {
  F32x16 r;
  HW_LANES r.v[i] = static_cast<float>(p[i]);
  return r;
}
HW_INLINE F32x16 load_u8(const uint8_t* p) {
  F32x16 r;
  HW_LANES r.v[i] = static_cast<float>(p[i]);
  return r;
}

HW_INLINE I32x16 splat_int(int32_t x) {
  I32x16 r;
  HW_LANES r.v[i] = x;
  return r;
}
HW_INLINE I32x16 load_int(const int32_t* p) {
  I32x16 r;
  std::memcpy(r.v, p, 64);
  return r;
}
HW_INLINE void store_int(int32_t* p, I32x16 a) { std::memcpy(p, a.v, 64); }
HW_INLINE I32x16 add(I32x16 a, I32x16 b) {
  HW_LANES a.v[i] = static_cast<int32_t>(static_cast<uint32_t>(a.v[i]) + static_cast<uint32_t>(b.v[i]));
  return a;
}
HW_INLINE I32x16 to_int(F32x16 a) {  // round to nearest even; out of range and NaN give INT32_MIN, as the vector instructions do
  I32x16 r;
  HW_LANES r.v[i] = std::fabs(a.v[i]) < 2147483648.0f ? static_cast<int32_t>(std::nearbyintf(a.v[i])) : INT32_MIN;
  return r;
}
HW_INLINE F32x16 to_float(I32x16 a) {
  F32x16 r;
  HW_LANES r.v[i] = static_cast<float>(a.v[i]);
  return r;
}
HW_INLINE F32x16 power_of_two(I32x16 n) {
  F32x16 r;
  HW_LANES r.v[i] = bits_to_float((static_cast<uint32_t>(n.v[i]) + 127u) << 23);
  return r;
}
HW_INLINE I32x16 max(I32x16 a, I32x16 b) {
  HW_LANES a.v[i] = a.v[i] > b.v[i] ? a.v[i] : b.v[i];
  return a;
}
HW_INLINE I32x16 bits_of(F32x16 a) {
  I32x16 r;
  std::memcpy(r.v, a.v, 64);
  return r;
}
HW_INLINE int32_t sum_lanes(I32x16 a) {
  int32_t sum = 0;
  HW_LANES sum += a.v[i];
  return sum;
}
HW_INLINE int32_t max_lanes(I32x16 a) {
  int32_t best = a.v[0];
  HW_LANES best = a.v[i] > best ? a.v[i] : best;
  return best;
}
HW_INLINE void store_i8(int8_t* p, I32x16 a) {  // saturating
  HW_LANES p[i] = static_cast<int8_t>(a.v[i] < -128 ? -128 : a.v[i] > 127 ? 127 : a.v[i]);
}

HW_INLINE U8x64 load_bytes(const uint8_t* p) {
  U8x64 r;
  std::memcpy(r.v, p, 64);
  return r;
}
HW_INLINE void store_bytes(uint8_t* p, U8x64 a) { std::memcpy(p, a.v, 64); }
HW_INLINE U8x64 bits_and(U8x64 a, uint8_t mask) {
  for (uint8_t& byte : a.v) byte &= mask;
  return a;
}
HW_INLINE U8x64 bits_or(U8x64 a, U8x64 b) {
  for (int i = 0; i < 64; ++i) a.v[i] |= b.v[i];
  return a;
}
template <int N>
HW_INLINE U8x64 shift_right(U8x64 a) {  // the vector forms shift 16-bit units; the bits that differ are masked away by every caller
  for (uint8_t& byte : a.v) byte = static_cast<uint8_t>(byte >> N);
  return a;
}
template <int N>
HW_INLINE U8x64 shift_left(U8x64 a) {
  for (uint8_t& byte : a.v) byte = static_cast<uint8_t>(byte << N);
  return a;
}

// The dot product of one block of BITS-bit codes: init, then quads in any order (integers: exact), then finish. `negative_sum` is minus the
// sum of the activation codes of the block, which takes the stored offset 2^OFFSET_LOG2 (-1 = none) back out.
template <int BITS, int OFFSET_LOG2>
struct BlockDot {
  static constexpr bool kPaired = false;
  I32x16 acc;
  HW_INLINE_MEMBER void init(int32_t negative_sum) { acc = splat_int(OFFSET_LOG2 < 0 ? 0 : negative_sum * (1 << (OFFSET_LOG2 < 0 ? 0 : OFFSET_LOG2))); }
  HW_INLINE_MEMBER void step(const U8x64& w, int32_t four_s8) {
    int8_t a[4];
    std::memcpy(a, &four_s8, 4);
    HW_LANES acc.v[i] += w.v[4 * i] * a[0] + w.v[4 * i + 1] * a[1] + w.v[4 * i + 2] * a[2] + w.v[4 * i + 3] * a[3];
  }
  HW_INLINE_MEMBER void step_pair(const U8x64& w0, const U8x64& w1, int32_t a0, int32_t a1) {
    step(w0, a0);
    step(w1, a1);
  }
  HW_INLINE_MEMBER I32x16 finish(int32_t) const { return acc; }
};

#undef HW_LANES

}  // namespace HW_ISA
}  // namespace hw
