// The sixteen lanes as two ymm registers. See simd16.h for what each operation means.
#pragma once

#include <immintrin.h>

namespace hw {
namespace HW_ISA {

struct F32x16 {
  __m256 a, b;
};
struct I32x16 {
  __m256i a, b;
};
struct U8x64 {
  __m256i a, b;
};
struct Mask16 {
  __m256 a, b;
};

HW_INLINE Mask16 mask_first(int n) {
  const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return {_mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(n), lanes)),
          _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(n - 8), lanes))};
}

HW_INLINE F32x16 load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
HW_INLINE F32x16 load_first(const float* p, int n) {
  const Mask16 m = mask_first(n);
  return {_mm256_maskload_ps(p, _mm256_castps_si256(m.a)), _mm256_maskload_ps(p + 8, _mm256_castps_si256(m.b))};
}
HW_INLINE void store(float* p, F32x16 x) {
  _mm256_storeu_ps(p, x.a);
  _mm256_storeu_ps(p + 8, x.b);
}
HW_INLINE void store_first(float* p, F32x16 x, int n) {
  const Mask16 m = mask_first(n);
  _mm256_maskstore_ps(p, _mm256_castps_si256(m.a), x.a);
  _mm256_maskstore_ps(p + 8, _mm256_castps_si256(m.b), x.b);
}
HW_INLINE F32x16 splat(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
HW_INLINE F32x16 add(F32x16 x, F32x16 y) { return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)}; }
HW_INLINE F32x16 sub(F32x16 x, F32x16 y) { return {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)}; }
HW_INLINE F32x16 mul(F32x16 x, F32x16 y) { return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)}; }
HW_INLINE F32x16 div(F32x16 x, F32x16 y) { return {_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)}; }
HW_INLINE F32x16 max(F32x16 x, F32x16 y) { return {_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)}; }
HW_INLINE F32x16 min(F32x16 x, F32x16 y) { return {_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)}; }
HW_INLINE F32x16 fma(F32x16 x, F32x16 y, F32x16 z) { return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)}; }
HW_INLINE F32x16 sqrt(F32x16 x) { return {_mm256_sqrt_ps(x.a), _mm256_sqrt_ps(x.b)}; }
HW_INLINE F32x16 abs(F32x16 x) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return {_mm256_andnot_ps(sign, x.a), _mm256_andnot_ps(sign, x.b)};
}
HW_INLINE F32x16 copy_sign(F32x16 magnitude, F32x16 sign) {
  const __m256 bit = _mm256_set1_ps(-0.0f);
  return {_mm256_or_ps(_mm256_andnot_ps(bit, magnitude.a), _mm256_and_ps(bit, sign.a)),
          _mm256_or_ps(_mm256_andnot_ps(bit, magnitude.b), _mm256_and_ps(bit, sign.b))};
}

HW_INLINE Mask16 less(F32x16 x, F32x16 y) { return {_mm256_cmp_ps(x.a, y.a, _CMP_LT_OQ), _mm256_cmp_ps(x.b, y.b, _CMP_LT_OQ)}; }
HW_INLINE Mask16 mask_and(Mask16 x, Mask16 y) { return {_mm256_and_ps(x.a, y.a), _mm256_and_ps(x.b, y.b)}; }
HW_INLINE uint32_t mask_bits(Mask16 x) {
  return static_cast<uint32_t>(_mm256_movemask_ps(x.a)) | static_cast<uint32_t>(_mm256_movemask_ps(x.b)) << 8;
}
HW_INLINE bool any(Mask16 x) { return mask_bits(x) != 0; }
HW_INLINE Mask16 mask_from_bits(uint32_t bits) {
  const __m256i one = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
  const __m256i lo = _mm256_and_si256(_mm256_set1_epi32(static_cast<int>(bits)), one);
  const __m256i hi = _mm256_and_si256(_mm256_set1_epi32(static_cast<int>(bits >> 8)), one);
  return {_mm256_castsi256_ps(_mm256_cmpeq_epi32(lo, one)), _mm256_castsi256_ps(_mm256_cmpeq_epi32(hi, one))};
}
HW_INLINE F32x16 select(Mask16 m, F32x16 yes, F32x16 no) { return {_mm256_blendv_ps(no.a, yes.a, m.a), _mm256_blendv_ps(no.b, yes.b, m.b)}; }

HW_INLINE __m128i load_half(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }
HW_INLINE F32x16 load_f16(const uint16_t* p) { return {_mm256_cvtph_ps(load_half(p)), _mm256_cvtph_ps(load_half(p + 8))}; }
HW_INLINE void store_f16(uint16_t* p, F32x16 x) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(x.a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 8), _mm256_cvtps_ph(x.b, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
HW_INLINE F32x16 load_bf16(const uint16_t* p) {
  return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load_half(p)), 16)),
          _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load_half(p + 8)), 16))};
}
HW_INLINE F32x16 load_i8(const int8_t* p) {
  const __m128i bytes = load_half(p);
  return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)), _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8)))};
}
HW_INLINE F32x16 load_u8(const uint8_t* p) {
  const __m128i bytes = load_half(p);
  return {_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes)), _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_srli_si128(bytes, 8)))};
}

HW_INLINE I32x16 splat_int(int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
HW_INLINE __m256i load_whole(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
HW_INLINE I32x16 load_int(const int32_t* p) { return {load_whole(p), load_whole(p + 8)}; }
HW_INLINE void store_int(int32_t* p, I32x16 x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), x.a);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 8), x.b);
}
HW_INLINE I32x16 add(I32x16 x, I32x16 y) { return {_mm256_add_epi32(x.a, y.a), _mm256_add_epi32(x.b, y.b)}; }
HW_INLINE I32x16 to_int(F32x16 x) { return {_mm256_cvtps_epi32(x.a), _mm256_cvtps_epi32(x.b)}; }
HW_INLINE F32x16 to_float(I32x16 x) { return {_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)}; }
HW_INLINE F32x16 power_of_two(I32x16 n) {
  const __m256i bias = _mm256_set1_epi32(127);
  return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n.a, bias), 23)),
          _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n.b, bias), 23))};
}
HW_INLINE I32x16 max(I32x16 x, I32x16 y) { return {_mm256_max_epi32(x.a, y.a), _mm256_max_epi32(x.b, y.b)}; }
HW_INLINE I32x16 bits_of(F32x16 x) { return {_mm256_castps_si256(x.a), _mm256_castps_si256(x.b)}; }
HW_INLINE int32_t sum_lanes(I32x16 x) {
  const __m256i s = _mm256_add_epi32(x.a, x.b);
  __m128i q = _mm_add_epi32(_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1));
  q = _mm_add_epi32(q, _mm_shuffle_epi32(q, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(q, _mm_shuffle_epi32(q, 0xb1)));
}
HW_INLINE int32_t max_lanes(I32x16 x) {
  const __m256i s = _mm256_max_epi32(x.a, x.b);
  __m128i q = _mm_max_epi32(_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1));
  q = _mm_max_epi32(q, _mm_shuffle_epi32(q, 0x4e));
  return _mm_cvtsi128_si32(_mm_max_epi32(q, _mm_shuffle_epi32(q, 0xb1)));
}
HW_INLINE void store_i8(int8_t* p, I32x16 x) {  // saturating
  const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(x.a, x.b), 0xd8);
  const __m256i bytes = _mm256_permute4x64_epi64(_mm256_packs_epi16(words, words), 0xd8);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_castsi256_si128(bytes));
}

HW_INLINE U8x64 load_bytes(const uint8_t* p) { return {load_whole(p), load_whole(p + 32)}; }
HW_INLINE void store_bytes(uint8_t* p, U8x64 x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), x.a);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 32), x.b);
}
HW_INLINE U8x64 bits_and(U8x64 x, uint8_t mask) {
  const __m256i m = _mm256_set1_epi8(static_cast<char>(mask));
  return {_mm256_and_si256(x.a, m), _mm256_and_si256(x.b, m)};
}
HW_INLINE U8x64 bits_or(U8x64 x, U8x64 y) { return {_mm256_or_si256(x.a, y.a), _mm256_or_si256(x.b, y.b)}; }
template <int N>
HW_INLINE U8x64 shift_right(U8x64 x) {  // shifts 16-bit units: mask afterwards
  return {_mm256_srli_epi16(x.a, N), _mm256_srli_epi16(x.b, N)};
}
template <int N>
HW_INLINE U8x64 shift_left(U8x64 x) {
  return {_mm256_slli_epi16(x.a, N), _mm256_slli_epi16(x.b, N)};
}

// The dot product of one block of BITS-bit codes: init, then quads in any order (integers: exact), then finish. `negative_sum` is minus the
// sum of the activation codes of the block, which takes the stored offset 2^OFFSET_LOG2 (-1 = none) back out.
//
// maddubs adds two products into 16 bits. Codes below 16 leave room for a whole block (8 quads x 2 x 15 x 127 < 2^15), codes below 64 for
// two quads; eight-bit codes are moved back to [-128, 127] and their sign is given to the activation, so that nothing can saturate.
template <int BITS, int OFFSET_LOG2>
struct BlockDot {
  static constexpr bool kPaired = BITS == 5 || BITS == 6;
  __m256i x, y;  // rows 0-7 and 8-15: 16-bit pairs for BITS <= 4, 32-bit sums otherwise
  HW_INLINE_MEMBER void init(int32_t) { x = y = _mm256_setzero_si256(); }
  // Sums stay where they are written: left alone, the compiler computes all products of a block first and spills every one of them.
  HW_INLINE_MEMBER void keep_order() { __asm__ volatile("" : "+x"(x), "+x"(y)); }
  HW_INLINE_MEMBER void step(U8x64 w, int32_t four_s8) {
    const __m256i a = _mm256_set1_epi32(four_s8);
    if constexpr (BITS <= 4) {
      x = _mm256_add_epi16(x, _mm256_maddubs_epi16(w.a, a));
      y = _mm256_add_epi16(y, _mm256_maddubs_epi16(w.b, a));
      keep_order();
    } else if constexpr (BITS == 8) {
      const __m256i top = _mm256_set1_epi8(static_cast<char>(0x80)), one = _mm256_set1_epi16(1);
      const __m256i wa = _mm256_xor_si256(w.a, top), wb = _mm256_xor_si256(w.b, top);
      x = _mm256_add_epi32(x, _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_abs_epi8(wa), _mm256_sign_epi8(a, wa)), one));
      y = _mm256_add_epi32(y, _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_abs_epi8(wb), _mm256_sign_epi8(a, wb)), one));
      keep_order();
    } else {
      const __m256i one = _mm256_set1_epi16(1);
      x = _mm256_add_epi32(x, _mm256_madd_epi16(_mm256_maddubs_epi16(w.a, a), one));
      y = _mm256_add_epi32(y, _mm256_madd_epi16(_mm256_maddubs_epi16(w.b, a), one));
    }
  }
  HW_INLINE_MEMBER void step_pair(U8x64 w0, U8x64 w1, int32_t q0, int32_t q1) {
    if constexpr (!kPaired) {
      step(w0, q0);
      step(w1, q1);
      return;
    }
    const __m256i a0 = _mm256_set1_epi32(q0), a1 = _mm256_set1_epi32(q1), one = _mm256_set1_epi16(1);
    x = _mm256_add_epi32(x, _mm256_madd_epi16(_mm256_add_epi16(_mm256_maddubs_epi16(w0.a, a0), _mm256_maddubs_epi16(w1.a, a1)), one));
    y = _mm256_add_epi32(y, _mm256_madd_epi16(_mm256_add_epi16(_mm256_maddubs_epi16(w0.b, a0), _mm256_maddubs_epi16(w1.b, a1)), one));
    keep_order();
  }
  HW_INLINE_MEMBER I32x16 finish(int32_t negative_sum) const {
    I32x16 r = {x, y};
    if constexpr (BITS <= 4) {
      const __m256i one = _mm256_set1_epi16(1);
      r = {_mm256_madd_epi16(x, one), _mm256_madd_epi16(y, one)};
    }
    if constexpr (OFFSET_LOG2 >= 0 && BITS != 8) {
      const __m256i back = _mm256_slli_epi32(_mm256_set1_epi32(negative_sum), OFFSET_LOG2);
      r = {_mm256_add_epi32(r.a, back), _mm256_add_epi32(r.b, back)};
    }
    return r;
  }
};

}  // namespace HW_ISA
}  // namespace hw
