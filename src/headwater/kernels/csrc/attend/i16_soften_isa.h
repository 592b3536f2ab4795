// Soft-max of one chunk in format i16: scores of one row become codes of weights. Arithmetic: i16.h and ADR 011.
//
// With e the exponent of a position's value, u = score + e. The row's reference R is a whole number that puts the largest 2^(u - R) between 2^13 and
// 2^14; codes are these powers, rounded, and so hold weight and scale of the value at once. The sum takes 2^(u - R - e - 7): products of codes are in
// units of 128, so that outputs and sum are those of the reference R + 7.
#pragma once

#include "attend/i16_isa.h"
#include "attend/partial_isa.h"

namespace hw {
namespace HW_ISA {

constexpr int kWeightBits = 14, kWeightUnit = 7;
constexpr float kWidestReference = 4e6f;   // beyond, scores have no digits behind the point and the sums below would not be exact
constexpr float kMagic = 12582912.0f;      // 1.5 · 2^23: adding it rounds to a whole number, which the lowest bits then hold

// What the positions of a chunk bring along.
struct ChunkScales {
  float *key, *exponent, *inverse;  // [256] scale of the key, e, 2^-(e + 7)
  bool broken = false;              // one of them is NaN

  void fill(const char* const* keys, const char* const* values, int dim, int b0, int b1) {
    F32x16 poison = zero16();
    for (int b = b0; b < b1; ++b) {
      const F32x16 k = load(i16_scales(keys[b], dim)), e = load(i16_scales(values[b], dim));
      store(key + b * kLanes, k);
      store(exponent + b * kLanes, e);
      store(inverse + b * kLanes, power_of_two(to_int(splat(static_cast<float>(-kWeightUnit)) - e)));
      poison = fma(k, zero16(), fma(e, zero16(), poison));
    }
    broken = fold_sum(poison) != 0.0f;
  }
  bool broken_between(int lo, int hi) const {
    for (int j = lo; broken && j < hi; ++j)
      if (key[j] != key[j] || exponent[j] != exponent[j]) return true;
    return false;
  }
};

// 2^(u - R) for a whole R, base = kMagic - R, least = R - 100: a polynomial of degree 4 (minimax on |r| <= 1/2, value 1 at 0), relative error 3e-6.
HW_INLINE F32x16 code_power(F32x16 u, F32x16 base, F32x16 least) {
  const F32x16 x = max(u, least), n = x + base, r = x - (n - base);
  F32x16 p = splat(9.582818435e-03f);
  p = fma(p, r, splat(5.590637041e-02f));
  p = fma(p, r, splat(2.402409887e-01f));
  p = fma(p, r, splat(6.931241998e-01f));
  p = fma(p, r, splat(1.0f));
#if defined(HW_ISA_avx512)
  return {_mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(p.v), _mm512_slli_epi32(_mm512_castps_si512(n.v), 23)))};
#elif defined(HW_ISA_avx2)
  const auto shifted = [](__m256 y, __m256 m) {
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(y), _mm256_slli_epi32(_mm256_castps_si256(m), 23)));
  };
  return {shifted(p.a, n.a), shifted(p.b, n.b)};
#else
  for (int i = 0; i < kLanes; ++i) p.v[i] = bits_to_float(float_to_bits(p.v[i]) + (float_to_bits(n.v[i]) << 23));
  return p;
#endif
}

// Codes of 64 numbers in [0, 2^14): high = code / 128, low = the rest.
HW_INLINE void weight_codes(const I32x16 (&code)[4], int8_t* high, int8_t* low) {
#if defined(HW_ISA_avx512)
  const __m512i a = _mm512_packs_epi32(code[0].v, code[1].v), b = _mm512_packs_epi32(code[2].v, code[3].v), rest = _mm512_set1_epi16(127);
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);  // packing works in pieces of 128 bits
  const __m512i h = _mm512_packs_epi16(_mm512_srli_epi16(a, 7), _mm512_srli_epi16(b, 7));
  const __m512i l = _mm512_packs_epi16(_mm512_and_si512(a, rest), _mm512_and_si512(b, rest));
  _mm512_storeu_si512(high, _mm512_permutexvar_epi32(order, h));
  _mm512_storeu_si512(low, _mm512_permutexvar_epi32(order, l));
#elif defined(HW_ISA_avx2)
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7), rest = _mm256_set1_epi16(127);
  for (int i = 0; i < 2; ++i) {
    const __m256i a = _mm256_packs_epi32(code[2 * i].a, code[2 * i].b), b = _mm256_packs_epi32(code[2 * i + 1].a, code[2 * i + 1].b);
    const __m256i h = _mm256_packs_epi16(_mm256_srli_epi16(a, 7), _mm256_srli_epi16(b, 7));
    const __m256i l = _mm256_packs_epi16(_mm256_and_si256(a, rest), _mm256_and_si256(b, rest));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(high + 32 * i), _mm256_permutevar8x32_epi32(h, order));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(low + 32 * i), _mm256_permutevar8x32_epi32(l, order));
  }
#else
  for (int i = 0; i < 64; ++i) {
    const int32_t c = code[i / kLanes].v[i % kLanes];
    high[i] = static_cast<int8_t>(c >> 7);
    low[i] = static_cast<int8_t>(c & 127);
  }
#endif
}

// The largest u of the visible positions [lo, hi) of one row; u takes the place of score(block), -inf outside in the blocks that the row touches.
template <class Score>
HW_INLINE float lift_row(float* scores, int lo, int hi, float scale, float softcap, const ChunkScales& chunk, Score score) {
  const F32x16 factor = splat(softcap > 0 ? softcap * kLog2e : scale), inner = splat(scale), nothing = splat(-HUGE_VALF);
  const int first = lo / kLanes, last = (hi - 1) / kLanes;
  F32x16 peak = nothing;
  const auto lift = [&](int b) {
    const F32x16 s = score(b);
    return fma(softcap > 0 ? tanh16(s * inner) : s, factor, load(chunk.exponent + b * kLanes));
  };
  const auto edge = [&](int b) {
    const F32x16 u = select(mask_first(lo - b * kLanes), nothing, select(mask_first(hi - b * kLanes), lift(b), nothing));
    store(scores + b * kLanes, u);
    peak = max(u, peak);
  };
  edge(first);
  if (softcap > 0) {
    for (int b = first + 1; b < last; ++b) edge(b);
  } else {
    for (int b = first + 1; b < last; ++b) {
      const F32x16 u = fma(score(b), factor, load(chunk.exponent + b * kLanes));
      store(scores + b * kLanes, u);
      peak = max(u, peak);
    }
  }
  if (last > first) edge(last);
  return fold_max(peak);
}

// Codes of 2^(u - R), 0 outside [lo, hi), for positions [from, to), multiples of 64; returns the sum of their powers without the values' scales, in
// sixteen lanes, folded.
HW_INLINE float code_weights(const float* u, int lo, int hi, float reference, const ChunkScales& chunk, int8_t* codes, int from, int to) {
  const int first = lo / kLanes, last = (hi - 1) / kLanes;
  const F32x16 base = splat(kMagic - reference), least = splat(reference - 100.0f);
  F32x16 total = zero16();
  for (int j = from; j < to; j += 64) {
    const int b0 = j / kLanes;
    const bool inside = b0 > first && b0 + 3 < last;
    I32x16 code[4];
    HW_UNROLL(4)
    for (int i = 0; i < 4; ++i) {
      const int b = b0 + i;
      F32x16 y = code_power(load(u + b * kLanes), base, least);
      if (!inside) y = select(mask_first(lo - b * kLanes), zero16(), select(mask_first(hi - b * kLanes), y, zero16()));
      if (inside || (b >= first && b <= last)) total = fma(y, load(chunk.inverse + b * kLanes), total);
      code[i] = to_int(y);
    }
    weight_codes(code, codes + j, codes + kChunkTokens + j);
  }
  return fold_sum(total);
}

}  // namespace HW_ISA
}  // namespace hw
