// Micro-kernels of attention: a few query rows against a few key or value vectors, accumulators in registers.
// Every score is one fused multiply-add chain over channels ascending, every output channel one chain over positions ascending; how many
// rows and vectors a kernel holds changes nothing but speed.
#pragma once

#include "attend/attend.h"
#include "attend/exp2_isa.h"
#include "common/simd16.h"

namespace hw {
namespace HW_ISA {

#if defined(HW_ISA_avx512)
constexpr int kRegisterRows = 6;
constexpr int vectors_for(int) { return 4; }
#elif defined(HW_ISA_avx2)
constexpr int kRegisterRows = 6;
constexpr int vectors_for(int rows) { return rows == 1 ? 4 : rows == 2 ? 2 : 1; }
#else
constexpr int kRegisterRows = 1;  // sixteen floats are no register: more would only be more code
constexpr int vectors_for(int) { return 1; }
#endif
constexpr int kAhead = 4;                           // blocks between reading and prefetching
constexpr int kScoreStride = kChunkTokens + kLanes;  // floats between score rows: not a power of two, or they fight for cache sets

HW_INLINE float half_to_float(uint16_t h) {
#if defined(HW_ISA_avx512) || defined(HW_ISA_avx2)
  return _cvtsh_ss(h);
#else
  return f16_to_float(h);
#endif
}

// The folding trees of simd16.h in registers: lanes i and i + 8, then + 4, + 2, + 1.
#if defined(HW_ISA_avx512) || defined(HW_ISA_avx2)
HW_INLINE void halves(F32x16 v, __m256& low, __m256& high) {
#if defined(HW_ISA_avx512)
  low = _mm512_castps512_ps256(v.v);
  high = _mm256_castpd_ps(_mm512_maskz_extractf64x4_pd(0xff, _mm512_castps_pd(v.v), 1));
#else
  low = v.a;
  high = v.b;
#endif
}
HW_INLINE float fold_sum(F32x16 v) {
  __m256 low, high;
  halves(v, low, high);
  const __m256 eight = _mm256_add_ps(low, high);
  __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  four = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(four, _mm_movehdup_ps(four)));
}
HW_INLINE float fold_max(F32x16 v) {
  __m256 low, high;
  halves(v, low, high);
  const __m256 eight = _mm256_max_ps(low, high);
  __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  four = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(four, _mm_movehdup_ps(four)));
}
#else
HW_INLINE float fold_sum(F32x16 v) { return sum_lanes(v); }
HW_INLINE float fold_max(F32x16 v) { return max_lanes(v); }
#endif

// Where keys and values come from. `Scale` is what 32 channels share (nothing but in q8). A block is that of one kv head.
struct F32Source {  // scratch: keys [head_dim][16], values [16][value_stride(padded)]
  struct Scale {};
  static constexpr bool kScratch = true;
  static constexpr int kKeyBits = 0, kValueBits = 0;  // of a stored number; 0: nothing to prefetch
  using Keys = F32Source;                             // what reads keys that lie in the layout of value blocks
  HW_INLINE Scale key_scale(const char*, int, int) { return {}; }
  HW_INLINE F32x16 key(const char* block, int d, Scale) { return load(reinterpret_cast<const float*>(block) + d * kLanes); }
  HW_INLINE Scale value_scale(const char*, int, int, int) { return {}; }
  HW_INLINE F32x16 value(const char* block, int stride, int slot, int c, Scale) {
    return load(reinterpret_cast<const float*>(block) + slot * stride + c);
  }
};

struct F16Source {
  struct Scale {};
  static constexpr bool kScratch = false;
  static constexpr int kKeyBits = 16, kValueBits = 16;
  using Keys = F16Source;
  HW_INLINE Scale key_scale(const char*, int, int) { return {}; }
  HW_INLINE F32x16 key(const char* block, int d, Scale) { return load_f16(reinterpret_cast<const uint16_t*>(block) + d * kLanes); }
  HW_INLINE Scale value_scale(const char*, int, int, int) { return {}; }
  HW_INLINE F32x16 value(const char* block, int stride, int slot, int c, Scale) {
    return load_f16(reinterpret_cast<const uint16_t*>(block) + slot * stride + c);
  }
};

struct Q8Source {
  struct Scale {
    F32x16 v;
  };
  static constexpr bool kScratch = false;
  static constexpr int kKeyBits = 8, kValueBits = 8;
  using Keys = Q8Source;
  HW_INLINE Scale key_scale(const char* block, int head_dim, int d) {
    return {load_f16(reinterpret_cast<const uint16_t*>(block + kBlockTokens * head_dim) + d / kQ8Channels * kBlockTokens)};
  }
  HW_INLINE F32x16 key(const char* block, int d, Scale s) { return load_i8(reinterpret_cast<const int8_t*>(block) + d * kLanes) * s.v; }
  HW_INLINE Scale value_scale(const char* block, int stride, int slot, int c) {
    const auto* scales = reinterpret_cast<const uint16_t*>(block + kBlockTokens * stride);
    return {splat(half_to_float(scales[slot * ((stride + kQ8Channels - 1) / kQ8Channels) + c / kQ8Channels]))};
  }
  HW_INLINE F32x16 value(const char* block, int stride, int slot, int c, Scale s) {
    return load_i8(reinterpret_cast<const int8_t*>(block) + slot * stride + c) * s.v;
  }
};

// Sixteen codes of four bits.
#if defined(HW_ISA_avx512) || defined(HW_ISA_avx2)
HW_INLINE __m128i nibbles(const char* p) {
  const __m128i x = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
  return _mm_and_si128(_mm_unpacklo_epi64(x, _mm_srli_epi16(x, 4)), _mm_set1_epi8(15));
}
HW_INLINE F32x16 widen(__m128i bytes) {
#if defined(HW_ISA_avx512)
  return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes))};
#else
  return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)), _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8)))};
#endif
}
HW_INLINE F32x16 load_u4(const char* p) { return widen(nibbles(p)); }
HW_INLINE F32x16 load_e2m1(const char* p) {  // twice the value, a whole number
  return widen(_mm_shuffle_epi8(_mm_setr_epi8(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12), nibbles(p)));
}
#else
template <class Table>
HW_INLINE F32x16 load_codes(const char* p, Table value) {
  float lanes[kLanes];
  for (int i = 0; i < 8; ++i) {
    const auto byte = static_cast<uint8_t>(p[i]);
    lanes[i] = value(byte & 15);
    lanes[i + 8] = value(byte >> 4);
  }
  return load(lanes);
}
HW_INLINE F32x16 load_u4(const char* p) {
  return load_codes(p, [](int code) { return static_cast<float>(code); });
}
HW_INLINE F32x16 load_e2m1(const char* p) {
  return load_codes(p, [](int code) {
    constexpr float kTwice[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
    return kTwice[code];
  });
}
#endif

// Half of a positive E4M3 number as half-precision bits, less a factor of 2^8: the exponents differ by 8, and codes are twice the value.
HW_INLINE uint16_t e4m3_bits(uint8_t scale) { return scale == 0x7f ? uint16_t{0x7e00} : static_cast<uint16_t>(scale << 7); }
constexpr float kE4m3Factor = 128.0f;

struct Fp4Source {
  struct Scale {
    F32x16 first, second;  // of channels d to d + 15 and d + 16 to d + 31; of a value: first
  };
  static constexpr bool kScratch = false;
  static constexpr int kKeyBits = 4, kValueBits = 4;
  using Keys = Fp4Source;
  HW_INLINE F32x16 sixteen(const char* scales) {
    uint16_t half[kLanes];
    for (int i = 0; i < kLanes; ++i) half[i] = e4m3_bits(static_cast<uint8_t>(scales[i]));
    return load_f16(half) * splat(kE4m3Factor);
  }
  HW_INLINE Scale key_scale(const char* block, int head_dim, int d) {
    const char* scales = block + kBlockTokens * head_dim / 2 + d / 16 * kBlockTokens;
    return {sixteen(scales), sixteen(scales + kBlockTokens)};
  }
  HW_INLINE F32x16 key(const char* block, int d, const Scale& s) { return load_e2m1(block + d * kLanes / 2) * (d & 16 ? s.second : s.first); }
  HW_INLINE Scale value_scale(const char* block, int stride, int slot, int c) {
    const char* scales = block + kBlockTokens * stride / 2 + slot * (stride / 16) + c / 16;
    const F32x16 scale = splat(half_to_float(e4m3_bits(static_cast<uint8_t>(*scales))) * kE4m3Factor);
    return {scale, scale};
  }
  HW_INLINE F32x16 value(const char* block, int stride, int slot, int c, const Scale& s) {
    return load_e2m1(block + (slot * stride + c) / 2) * s.first;
  }
};

struct Int4Source {
  struct Scale {
    F32x16 scale, least;
  };
  static constexpr bool kScratch = false;
  static constexpr int kKeyBits = 4, kValueBits = 4;
  using Keys = Int4Source;
  HW_INLINE Scale key_scale(const char* block, int head_dim, int d) {
    const auto* halves = reinterpret_cast<const uint16_t*>(block + kBlockTokens * head_dim / 2) + d / 32 * 2 * kBlockTokens;
    return {load_f16(halves), load_f16(halves + kBlockTokens)};
  }
  HW_INLINE F32x16 key(const char* block, int d, const Scale& s) { return fma(load_u4(block + d * kLanes / 2), s.scale, s.least); }
  HW_INLINE Scale value_scale(const char* block, int stride, int slot, int c) {
    const auto* halves = reinterpret_cast<const uint16_t*>(block + kBlockTokens * stride / 2) + 2 * (slot * (stride / 32) + c / 32);
    return {splat(half_to_float(halves[0])), splat(half_to_float(halves[1]))};
  }
  HW_INLINE F32x16 value(const char* block, int stride, int slot, int c, const Scale& s) {
    return fma(load_u4(block + (slot * stride + c) / 2), s.scale, s.least);
  }
};

struct K8V4Source {
  using Scale = Q8Source::Scale;
  static constexpr bool kScratch = false;
  static constexpr int kKeyBits = 8, kValueBits = 4;
  using Keys = Q8Source;
  HW_INLINE Scale key_scale(const char* block, int head_dim, int d) { return Q8Source::key_scale(block, head_dim, d); }
  HW_INLINE F32x16 key(const char* block, int d, Scale s) { return Q8Source::key(block, d, s); }
  HW_INLINE Int4Source::Scale value_scale(const char* block, int stride, int slot, int c) { return Int4Source::value_scale(block, stride, slot, c); }
  HW_INLINE F32x16 value(const char* block, int stride, int slot, int c, const Int4Source::Scale& s) {
    return Int4Source::value(block, stride, slot, c, s);
  }
};

// f(source) with the source of a cache format.
template <class F>
HW_INLINE void with_source(int format, F&& f) {
  switch (format) {
    case kQ8: return f(Q8Source{});
    case kFp4: return f(Fp4Source{});
    case kInt4: return f(Int4Source{});
    case kK8V4: return f(K8V4Source{});
    default: return f(F16Source{});
  }
}

// Asks for what will be read a few blocks later; the cache's blocks are too short and too far apart for the hardware to guess.
HW_INLINE void prefetch(const char* p) { __builtin_prefetch(p, 0, 2); }

// scores[row][block * 16 + lane] = q[row] . key; q rows are head_dim apart, score rows kScoreStride. blocks[kAhead] and on are those read next.
template <class Source, int NQ, int NB>
HW_INLINE void score_kernel(const float* q, int head_dim, const char* const* blocks, float* scores) {
  F32x16 acc[NQ][NB];
#pragma GCC unroll 8
  for (int r = 0; r < NQ; ++r)
#pragma GCC unroll 8
    for (int b = 0; b < NB; ++b) acc[r][b] = zero16();
  for (int d0 = 0; d0 < head_dim; d0 += kQ8Channels) {
    typename Source::Scale scale[NB];
#pragma GCC unroll 8
    for (int b = 0; b < NB; ++b) scale[b] = Source::key_scale(blocks[b], head_dim, d0);
    const int d1 = d0 + kQ8Channels < head_dim ? d0 + kQ8Channels : head_dim;
    for (int d = d0; d < d1; ++d) {
      F32x16 key[NB];
      if (Source::kKeyBits) {
#pragma GCC unroll 8
        for (int b = 0; b < NB; ++b) prefetch(blocks[b + kAhead] + d * kLanes * Source::kKeyBits / 8);
      }
#pragma GCC unroll 8
      for (int b = 0; b < NB; ++b) key[b] = Source::key(blocks[b], d, scale[b]);
#pragma GCC unroll 8
      for (int r = 0; r < NQ; ++r) {
        const F32x16 x = splat(q[r * head_dim + d]);
#pragma GCC unroll 8
        for (int b = 0; b < NB; ++b) acc[r][b] = fma(x, key[b], acc[r][b]);
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < NQ; ++r)
#pragma GCC unroll 8
    for (int b = 0; b < NB; ++b) store(scores + r * kScoreStride + b * kLanes, acc[r][b]);
}

template <class Source, int NQ>
HW_INLINE void score_rows_of(const float* q, int head_dim, const char* const* blocks, int n_blocks, float* scores) {
  constexpr int NB = vectors_for(NQ);
  int b = 0;
  for (; b + NB <= n_blocks; b += NB) score_kernel<Source, NQ, NB>(q, head_dim, blocks + b, scores + b * kLanes);
  for (; b < n_blocks; ++b) score_kernel<Source, NQ, 1>(q, head_dim, blocks + b, scores + b * kLanes);
}

// rows <= kRegisterRows
template <class Source>
static __attribute__((noinline)) void score_rows(int rows, const float* q, int head_dim, const char* const* blocks, int n_blocks, float* scores) {
  switch (rows) {
    case 1: return score_rows_of<Source, 1>(q, head_dim, blocks, n_blocks, scores);
#if !defined(HW_ISA_portable)
    case 2: return score_rows_of<Source, 2>(q, head_dim, blocks, n_blocks, scores);
    case 3: return score_rows_of<Source, 3>(q, head_dim, blocks, n_blocks, scores);
    case 4: return score_rows_of<Source, 4>(q, head_dim, blocks, n_blocks, scores);
    case 5: return score_rows_of<Source, 5>(q, head_dim, blocks, n_blocks, scores);
    case 6: return score_rows_of<Source, 6>(q, head_dim, blocks, n_blocks, scores);
#endif
  }
}

// acc[row][c..] += weights[row][j] * value(j) for chunk positions j0 <= j < j1; weight rows are kScoreStride apart, acc rows `padded`.
template <class Source, int NQ, int NV>
HW_INLINE void value_kernel(const float* weights, const char* const* blocks, int stride, int j0, int j1, int c, float* acc, int padded) {
  F32x16 sum[NQ][NV];
#pragma GCC unroll 8
  for (int r = 0; r < NQ; ++r)
#pragma GCC unroll 8
    for (int i = 0; i < NV; ++i) sum[r][i] = load(acc + r * padded + c + i * kLanes);
  const float* w = weights + j0;
  for (int b = j0 / kBlockTokens; b * kBlockTokens < j1; ++b) {
    const char* block = blocks[b];
    const int first = b * kBlockTokens;
    const int from = j0 > first ? j0 - first : 0, to = j1 < first + kBlockTokens ? j1 - first : kBlockTokens;
    for (int slot = from; slot < to; ++slot, ++w) {
      F32x16 value[NV];
      if (Source::kValueBits) {
        for (int i = 0; i < NV * kLanes * Source::kValueBits / 8; i += 64) prefetch(blocks[b + kAhead] + (slot * stride + c) * Source::kValueBits / 8 + i);
      }
#pragma GCC unroll 8
      for (int i = 0; i < NV; ++i) {
        const int channel = c + i * kLanes;
        value[i] = Source::value(block, stride, slot, channel, Source::value_scale(block, stride, slot, channel));
      }
#pragma GCC unroll 8
      for (int r = 0; r < NQ; ++r) {
        const F32x16 x = splat(w[r * kScoreStride]);
#pragma GCC unroll 8
        for (int i = 0; i < NV; ++i) sum[r][i] = fma(x, value[i], sum[r][i]);
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < NQ; ++r)
#pragma GCC unroll 8
    for (int i = 0; i < NV; ++i) store(acc + r * padded + c + i * kLanes, sum[r][i]);
}

template <class Source, int NQ>
HW_INLINE void value_rows_of(const float* weights, const char* const* blocks, int stride, int j0, int j1, int c0, int c1, float* acc, int padded) {
  constexpr int NV = vectors_for(NQ);
  int c = c0;
  for (; c + NV * kLanes <= c1; c += NV * kLanes) value_kernel<Source, NQ, NV>(weights, blocks, stride, j0, j1, c, acc, padded);
  for (; c < c1; c += kLanes) value_kernel<Source, NQ, 1>(weights, blocks, stride, j0, j1, c, acc, padded);
}

// rows <= kRegisterRows; channels [c0, c1); stride: numbers between stored value rows
template <class Source>
static __attribute__((noinline)) void value_rows(int rows, const float* weights, const char* const* blocks, int stride, int j0, int j1, int c0,
                                                 int c1, float* acc, int padded) {
  switch (rows) {
    case 1: return value_rows_of<Source, 1>(weights, blocks, stride, j0, j1, c0, c1, acc, padded);
#if !defined(HW_ISA_portable)
    case 2: return value_rows_of<Source, 2>(weights, blocks, stride, j0, j1, c0, c1, acc, padded);
    case 3: return value_rows_of<Source, 3>(weights, blocks, stride, j0, j1, c0, c1, acc, padded);
    case 4: return value_rows_of<Source, 4>(weights, blocks, stride, j0, j1, c0, c1, acc, padded);
    case 5: return value_rows_of<Source, 5>(weights, blocks, stride, j0, j1, c0, c1, acc, padded);
    case 6: return value_rows_of<Source, 6>(weights, blocks, stride, j0, j1, c0, c1, acc, padded);
#endif
  }
}

}  // namespace HW_ISA
}  // namespace hw
