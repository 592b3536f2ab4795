// Kernels of cache format i16 on vectors: rounding to codes, products of codes, weights of one chunk. Layout and arithmetic: i16.h.
#pragma once

#include <cmath>
#include <cstring>
#include <type_traits>

#include "attend/i16.h"
#include "attend/tiles_isa.h"
#include "common/simd16.h"

namespace hw {
namespace HW_ISA {

constexpr int kWeightStride = 2 * kChunkTokens + 64;  // bytes between rows of weight codes: high [256], low [256]

#if defined(HW_ISA_avx512)
constexpr int kCodeRows = 4;  // two sums each and vector: more would not stay in registers
constexpr int code_vectors(int rows) { return rows <= 2 ? 4 : 2; }
#elif defined(HW_ISA_avx2)
constexpr int kCodeRows = 2;
constexpr int code_vectors(int) { return 1; }
#else
constexpr int kCodeRows = 1;
constexpr int code_vectors(int) { return 1; }
#endif

// code = 128 · high + low with low in [-64, 63].
HW_INLINE void split_code(I32x16 code, I32x16& high, I32x16& low) {
#if defined(HW_ISA_avx512)
  high.v = _mm512_srai_epi32(_mm512_add_epi32(code.v, _mm512_set1_epi32(64)), 7);
  low.v = _mm512_sub_epi32(code.v, _mm512_slli_epi32(high.v, 7));
#elif defined(HW_ISA_avx2)
  const __m256i half = _mm256_set1_epi32(64);
  high = {_mm256_srai_epi32(_mm256_add_epi32(code.a, half), 7), _mm256_srai_epi32(_mm256_add_epi32(code.b, half), 7)};
  low = {_mm256_sub_epi32(code.a, _mm256_slli_epi32(high.a, 7)), _mm256_sub_epi32(code.b, _mm256_slli_epi32(high.b, 7))};
#else
  for (int i = 0; i < kLanes; ++i) {
    high.v[i] = (code.v[i] + 64) >> 7;
    low.v[i] = code.v[i] - high.v[i] * 128;
  }
#endif
}

// The largest magnitude of n numbers, a multiple of 16; NaN if one of them is no finite number.
HW_INLINE float largest_of(const float* x, int n) {
  F32x16 most = zero16(), poison = zero16();
  for (int i = 0; i < n; i += kLanes) {
    const F32x16 v = load(x + i);
    most = max(abs(v), most);
    poison = fma(v, zero16(), poison);
  }
  return fold_max(most) + fold_sum(poison);
}

// The lowest byte of every lane.
HW_INLINE void store_bytes(void* p, I32x16 a) {
#if defined(HW_ISA_avx512)
  _mm_storeu_si128(static_cast<__m128i*>(p), _mm512_cvtepi32_epi8(a.v));
#elif defined(HW_ISA_avx2)
  const __m256i byte = _mm256_set1_epi32(255);
  const __m256i words = _mm256_permute4x64_epi64(_mm256_packus_epi32(_mm256_and_si256(a.a, byte), _mm256_and_si256(a.b, byte)), 0xd8);
  _mm_storeu_si128(static_cast<__m128i*>(p), _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)));
#else
  for (int i = 0; i < kLanes; ++i) static_cast<uint8_t*>(p)[i] = static_cast<uint8_t>(a.v[i]);
#endif
}

// offset: what is added to high (its first) and to low before they are stored as bytes.
struct CodeOffset {
  int high = 0, low = 0;
};

struct CodeSums {
  I32x16 high, low;
};

HW_INLINE CodeSums write_codes(const float* x, int n, float inverse, CodeOffset offset, void* high, void* low) {
  CodeSums sums{splat_int(0), splat_int(0)};
  const F32x16 factor = splat(inverse), upper = splat(static_cast<float>(kI16Most)), lower = splat(static_cast<float>(-kI16Most));
  for (int i = 0; i < n; i += kLanes) {
    I32x16 h, l;
    split_code(to_int(max(min(load(x + i) * factor, upper), lower)), h, l);  // what is no number becomes 16,319
    store_bytes(static_cast<char*>(high) + i, add(h, splat_int(offset.high)));
    store_bytes(static_cast<char*>(low) + i, add(l, splat_int(offset.low)));
    sums = {add(sums.high, h), add(sums.low, l)};
  }
  return sums;
}

// Codes of a query or a key, and sums of the parts of the codes; returns their scale: amax / 16,319, 0 for a vector of zeros, NaN for one with
// something that is no finite number.
HW_INLINE float scaled_codes(const float* x, int n, CodeOffset offset, void* high, void* low, CodeSums& sums) {
  const float amax = largest_of(x, n);
  const bool some = amax >= kI16Least;
  sums = write_codes(x, n, some ? static_cast<float>(kI16Most) / amax : 0.0f, offset, high, low);
  return amax < kI16Least ? 0.0f : amax / static_cast<float>(kI16Most);
}

// Codes of a value; returns the least exponent e with amax <= 16,319 · 2^e. So weights can take it in before they are rounded.
inline float exponent_codes(const float* x, int n, void* high, void* low) {
  const float amax = largest_of(x, n), step = amax / static_cast<float>(kI16Most);
  uint32_t bits;
  std::memcpy(&bits, &step, 4);
  const bool some = amax >= kI16Least;
  const int exponent = some ? static_cast<int>(bits >> 23) - 127 + ((bits & 0x7fffffu) != 0) : kI16LeastExponent;
  const uint32_t inverse_bits = static_cast<uint32_t>(127 - exponent) << 23;
  float inverse;
  std::memcpy(&inverse, &inverse_bits, 4);
  write_codes(x, n, some ? inverse : 0.0f, {}, high, low);
  return amax == amax ? static_cast<float>(exponent) : std::nanf("");
}

HW_INLINE U8x64 codes_at(const char* p) { return load_bytes(reinterpret_cast<const uint8_t*>(p)); }

// Sixteen sums over fours of codes: a query's against keys, or weights against values. Sums are exact: nothing here has an order.
#if defined(HW_ISA_avx512)
struct CodeDot {
  __m512i high, mixed;
  HW_INLINE_MEMBER I32x16 sum() const { return {_mm512_add_epi32(_mm512_slli_epi32(high, 7), mixed)}; }
};
struct KeyDot : CodeDot {
  HW_INLINE_MEMBER void init(const QueryMeta& m) {
    high = _mm512_slli_epi32(_mm512_set1_epi32(m.minus_high), 7);
    mixed = _mm512_set1_epi32(m.minus_high * 64 + m.minus_low * 128);
  }
  HW_INLINE_MEMBER void step(U8x64 h, U8x64 l, int32_t four_high, int32_t four_low) {
    const __m512i a = _mm512_set1_epi32(four_high), b = _mm512_set1_epi32(four_low);
    high = _mm512_dpbusd_epi32(high, h.v, a);
    mixed = _mm512_dpbusd_epi32(mixed, l.v, a);
    mixed = _mm512_dpbusd_epi32(mixed, h.v, b);
  }
};
struct ValueDot : CodeDot {
  HW_INLINE_MEMBER void init() { high = mixed = _mm512_setzero_si512(); }
  HW_INLINE_MEMBER void step(U8x64 h, U8x64 l, int32_t four_high, int32_t four_low) {
    const __m512i a = _mm512_set1_epi32(four_high), b = _mm512_set1_epi32(four_low);
    high = _mm512_dpbusd_epi32(high, a, h.v);
    mixed = _mm512_dpbusd_epi32(mixed, a, l.v);
    mixed = _mm512_dpbusd_epi32(mixed, b, h.v);
  }
};
#elif defined(HW_ISA_avx2)
// Bytes below 128 times signed bytes: no pair of products leaves 16 bits.
HW_INLINE __m256i add_products(__m256i sum, __m256i small, __m256i any) {
  return _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_maddubs_epi16(small, any), _mm256_set1_epi16(1)));
}
struct CodeDot {
  __m256i high_a, high_b, mixed_a, mixed_b;
  HW_INLINE_MEMBER I32x16 sum() const {
    return {_mm256_add_epi32(_mm256_slli_epi32(high_a, 7), mixed_a), _mm256_add_epi32(_mm256_slli_epi32(high_b, 7), mixed_b)};
  }
};
struct KeyDot : CodeDot {
  HW_INLINE_MEMBER void init(const QueryMeta& m) {
    high_a = high_b = _mm256_setzero_si256();
    mixed_a = mixed_b = _mm256_set1_epi32(m.minus_high * 64);
  }
  HW_INLINE_MEMBER void step(U8x64 h, U8x64 l, int32_t four_high, int32_t four_low) {
    const __m256i a = _mm256_set1_epi32(four_high), b = _mm256_set1_epi32(four_low), top = _mm256_set1_epi8(static_cast<char>(0x80));
    const __m256i ha = _mm256_xor_si256(h.a, top), hb = _mm256_xor_si256(h.b, top), size_a = _mm256_abs_epi8(ha), size_b = _mm256_abs_epi8(hb);
    high_a = add_products(high_a, size_a, _mm256_sign_epi8(a, ha));
    high_b = add_products(high_b, size_b, _mm256_sign_epi8(a, hb));
    mixed_a = add_products(add_products(mixed_a, l.a, a), size_a, _mm256_sign_epi8(b, ha));
    mixed_b = add_products(add_products(mixed_b, l.b, a), size_b, _mm256_sign_epi8(b, hb));
  }
};
struct ValueDot : CodeDot {
  HW_INLINE_MEMBER void init() { high_a = high_b = mixed_a = mixed_b = _mm256_setzero_si256(); }
  HW_INLINE_MEMBER void step(U8x64 h, U8x64 l, int32_t four_high, int32_t four_low) {
    const __m256i a = _mm256_set1_epi32(four_high), b = _mm256_set1_epi32(four_low);
    high_a = add_products(high_a, a, h.a);
    high_b = add_products(high_b, a, h.b);
    mixed_a = add_products(add_products(mixed_a, a, l.a), b, h.a);
    mixed_b = add_products(add_products(mixed_b, a, l.b), b, h.b);
  }
};
#else
struct CodeDot {
  int32_t total[kLanes];
  HW_INLINE_MEMBER I32x16 sum() const { return load_int(total); }
  HW_INLINE_MEMBER void add(const U8x64& h, const U8x64& l, int high_offset, int low_offset, int32_t four_high, int32_t four_low) {
    int8_t a[4], b[4];
    std::memcpy(a, &four_high, 4);
    std::memcpy(b, &four_low, 4);
    for (int i = 0; i < kLanes; ++i)
      for (int j = 0; j < 4; ++j) {
        const int high = static_cast<int8_t>(h.v[4 * i + j] - high_offset), low = static_cast<int8_t>(l.v[4 * i + j] - low_offset);
        total[i] += a[j] * (128 * high + low) + b[j] * high;
      }
  }
};
struct KeyDot : CodeDot {
  HW_INLINE_MEMBER void init(const QueryMeta&) { std::memset(total, 0, sizeof total); }
  HW_INLINE_MEMBER void step(const U8x64& h, const U8x64& l, int32_t four_high, int32_t four_low) { add(h, l, 128, 64, four_high, four_low); }
};
struct ValueDot : CodeDot {
  HW_INLINE_MEMBER void init() { std::memset(total, 0, sizeof total); }
  HW_INLINE_MEMBER void step(const U8x64& h, const U8x64& l, int32_t four_high, int32_t four_low) { add(h, l, 0, 0, four_high, four_low); }
};
#endif

// scores[row][block * 16 + lane] = (product of codes) · (scale of the key), for rows [r, r + NQ) and blocks [0, NB) from `blocks` on.
template <int NQ, int NB>
HW_INLINE void code_scores(const QueryCodes& q, int r, const char* const* blocks, float* scores) {
  KeyDot dot[NQ][NB];
  const int8_t *high[NQ], *low[NQ];
  HW_UNROLL(8)
  for (int i = 0; i < NQ; ++i) {
    high[i] = q.high(r + i);
    low[i] = q.low(r + i);
    HW_UNROLL(8)
    for (int b = 0; b < NB; ++b) dot[i][b].init(q.meta(r + i));
  }
  const int64_t plane = i16_plane(q.n);
  for (int d = 0; d < q.n; d += 4) {
    U8x64 h[NB], l[NB];
    HW_UNROLL(8)
    for (int b = 0; b < NB; ++b) {
      prefetch(blocks[b + kAhead] + d * kLanes);
      prefetch(blocks[b + kAhead] + plane + d * kLanes);
      h[b] = codes_at(blocks[b] + d * kLanes);
      l[b] = codes_at(blocks[b] + plane + d * kLanes);
    }
    HW_UNROLL(8)
    for (int i = 0; i < NQ; ++i) {
      const int32_t a = load_i32(high[i] + d), c = load_i32(low[i] + d);
      HW_UNROLL(8)
      for (int b = 0; b < NB; ++b) dot[i][b].step(h[b], l[b], a, c);
    }
  }
  HW_UNROLL(8)
  for (int b = 0; b < NB; ++b) {
    const F32x16 scale = load(i16_scales(blocks[b], q.n));
    HW_UNROLL(8)
    for (int i = 0; i < NQ; ++i) store(scores + i * kScoreStride + b * kLanes, to_float(dot[i][b].sum()) * scale);
  }
}

template <int NQ>
HW_INLINE void code_scores_of(const QueryCodes& q, int r, const char* const* blocks, int n, float* scores) {
  constexpr int NB = code_vectors(NQ);
  int b = 0;
  for (; b + NB <= n; b += NB) code_scores<NQ, NB>(q, r, blocks + b, scores + b * kLanes);
  for (; b < n; ++b) code_scores<NQ, 1>(q, r, blocks + b, scores + b * kLanes);
}

// out[row][c..] = product of the codes of weights and values over blocks [b0, b1).
template <int NQ, int NV>
HW_INLINE void code_values(const int8_t* weights, const char* const* blocks, int b0, int b1, int dim, int c, float* out) {
  ValueDot dot[NQ][NV];
  HW_UNROLL(8)
  for (int i = 0; i < NQ; ++i) {
    HW_UNROLL(8)
    for (int v = 0; v < NV; ++v) dot[i][v].init();
  }
  const int64_t plane = i16_plane(dim);
  for (int b = b0; b < b1; ++b) {
    HW_UNROLL(4)
    for (int four = 0; four < 4; ++four) {
      U8x64 h[NV], l[NV];
      const int64_t at = (four * int64_t{dim} + c) * 4;
      HW_UNROLL(8)
      for (int v = 0; v < NV; ++v) {
        prefetch(blocks[b + kAhead] + at + v * 64);
        prefetch(blocks[b + kAhead] + plane + at + v * 64);
        h[v] = codes_at(blocks[b] + at + v * 64);
        l[v] = codes_at(blocks[b] + plane + at + v * 64);
      }
      HW_UNROLL(8)
      for (int i = 0; i < NQ; ++i) {
        const int8_t* w = weights + i * kWeightStride + b * kLanes + 4 * four;
        const int32_t x = load_i32(w), y = load_i32(w + kChunkTokens);
        HW_UNROLL(8)
        for (int v = 0; v < NV; ++v) dot[i][v].step(h[v], l[v], x, y);
      }
    }
  }
  HW_UNROLL(8)
  for (int i = 0; i < NQ; ++i) {
    HW_UNROLL(8)
    for (int v = 0; v < NV; ++v) store(out + i * int64_t{dim} + c + v * kLanes, to_float(dot[i][v].sum()));
  }
}

template <int NQ>
HW_INLINE void code_values_of(const int8_t* weights, const char* const* blocks, int b0, int b1, int dim, float* out) {
  constexpr int NV = code_vectors(NQ);
  int c = 0;
  for (; c + NV * kLanes <= dim; c += NV * kLanes) code_values<NQ, NV>(weights, blocks, b0, b1, dim, c, out);
  for (; c < dim; c += kLanes) code_values<NQ, 1>(weights, blocks, b0, b1, dim, c, out);
}

// f(std::integral_constant of rows) for rows <= kCodeRows.
template <class F>
HW_INLINE void with_rows(int rows, F&& f) {
  switch (rows) {
    case 1: return f(std::integral_constant<int, 1>{});
#if !defined(HW_ISA_portable)
    case 2: return f(std::integral_constant<int, 2>{});
#endif
#if defined(HW_ISA_avx512)
    case 3: return f(std::integral_constant<int, 3>{});
    case 4: return f(std::integral_constant<int, 4>{});
#endif
  }
}

}  // namespace HW_ISA
}  // namespace hw
