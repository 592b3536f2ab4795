// Sixteen logical lanes: one zmm, two ymm or sixteen floats, with the same bits from each (ADR 001, 8). Include only from *_isa.cpp files
// and headers that only those include: everything lives in the instruction set's own namespace and is always inlined.
//
// F32x16: floats. I32x16: 32-bit integers. U8x64: sixteen groups of four bytes. Mask16: one truth value a lane.
// max(a, b) is a > b ? a : b and min(a, b) is a < b ? a : b, so a NaN in either operand yields b.
#pragma once

#include <cstdint>
#include <cstring>

#ifndef HW_ISA
#error "simd16.h belongs to files that are compiled once per instruction set (*_isa.cpp)"
#endif
#define HW_INLINE static inline __attribute__((always_inline))
#define HW_INLINE_MEMBER inline __attribute__((always_inline))
#if defined(HW_ISA_portable)
#define HW_UNROLL(n)  // sixteen scalar lanes are long enough
#else
#define HW_PRAGMA(text) _Pragma(#text)
#define HW_UNROLL(n) HW_PRAGMA(GCC unroll n)
#endif

namespace hw {
namespace HW_ISA {

constexpr int kLanes = 16;

}  // namespace HW_ISA
}  // namespace hw

#if defined(HW_ISA_avx512)
#include "common/simd16_avx512.h"
#elif defined(HW_ISA_avx2)
#include "common/simd16_avx2.h"
#else
#include "common/simd16_portable.h"
#endif

namespace hw {
namespace HW_ISA {

HW_INLINE int32_t load_i32(const void* p) {
  int32_t v;
  std::memcpy(&v, p, 4);
  return v;
}
HW_INLINE F32x16 operator+(F32x16 a, F32x16 b) { return add(a, b); }
HW_INLINE F32x16 operator-(F32x16 a, F32x16 b) { return sub(a, b); }
HW_INLINE F32x16 operator*(F32x16 a, F32x16 b) { return mul(a, b); }
HW_INLINE F32x16 operator/(F32x16 a, F32x16 b) { return div(a, b); }
HW_INLINE F32x16 zero16() { return splat(0.0f); }

// Loads n <= 16 floats; the other lanes are zero. Stores n lanes.
HW_INLINE F32x16 load_n(const float* p, int n) { return n >= kLanes ? load(p) : load_first(p, n); }
HW_INLINE void store_n(float* p, F32x16 v, int n) {
  if (n >= kLanes) {
    store(p, v);
  } else {
    store_first(p, v, n);
  }
}

// exp(x) with a relative error below 2 ulp: x = n ln 2 + r, a degree-6 polynomial in r (minimax on |r| <= ln 2 / 2, as in Cephes expf),
// times 2^n. Below -87.3 the result is 0 (so exp(-inf) = 0), above 88.3 it saturates; NaN stays NaN.
HW_INLINE F32x16 exp16(F32x16 x) {
  const F32x16 lo = splat(-87.3f), hi = splat(88.3f);
  const Mask16 underflow = less(x, lo);
  const F32x16 clamped = min(hi, max(lo, x));
  const I32x16 n = to_int(clamped * splat(1.44269504088896341f));
  const F32x16 nf = to_float(n);
  F32x16 r = fma(nf, splat(-0.693359375f), clamped);
  r = fma(nf, splat(2.12194440e-4f), r);
  F32x16 p = splat(1.9875691500e-4f);
  p = fma(p, r, splat(1.3981999507e-3f));
  p = fma(p, r, splat(8.3334519073e-3f));
  p = fma(p, r, splat(4.1665795894e-2f));
  p = fma(p, r, splat(1.6666665459e-1f));
  p = fma(p, r, splat(5.0000001201e-1f));
  p = fma(p, r * r, r) + splat(1.0f);
  return select(underflow, zero16(), p * power_of_two(n));
}

// tanh(x): odd polynomial below 0.625 (Cephes tanhf), 1 - 2 / (exp(2|x|) + 1) with the sign of x above.
HW_INLINE F32x16 tanh16(F32x16 x) {
  const F32x16 a = abs(x), z = x * x;
  F32x16 p = splat(-5.70498872745e-3f);
  p = fma(p, z, splat(2.06390887954e-2f));
  p = fma(p, z, splat(-5.37397155531e-2f));
  p = fma(p, z, splat(1.33314422036e-1f));
  p = fma(p, z, splat(-3.33332819422e-1f));
  const F32x16 small = fma(p * z, x, x);
  const F32x16 big = splat(1.0f) - splat(2.0f) / (exp16(a + a) + splat(1.0f));
  return select(less(a, splat(0.625f)), small, copy_sign(big, x));
}

// x * sigmoid(x)
HW_INLINE F32x16 silu16(F32x16 x) { return x / (splat(1.0f) + exp16(sub(zero16(), x))); }

// GELU, tanh form: 0.5 x (1 + tanh(u)) = x sigmoid(2u), u = sqrt(2 / pi) (x + 0.044715 x^3)
HW_INLINE F32x16 gelu_tanh16(F32x16 x) {
  const F32x16 cubic = fma(x * x * splat(0.044715f), x, x);
  return x / (splat(1.0f) + exp16(cubic * splat(-1.5957691216057308f)));
}

// Folding trees: lanes i and i + 8, then + 4, + 2, + 1.
HW_INLINE float sum_lanes(F32x16 v) {
  float a[16];
  store(a, v);
  for (int step = 8; step; step /= 2)
    for (int i = 0; i < step; ++i) a[i] = a[i] + a[i + step];
  return a[0];
}
HW_INLINE float max_lanes(F32x16 v) {
  float a[16];
  store(a, v);
  for (int step = 8; step; step /= 2)
    for (int i = 0; i < step; ++i) a[i] = a[i] > a[i + step] ? a[i] : a[i + step];
  return a[0];
}

}  // namespace HW_ISA
}  // namespace hw
