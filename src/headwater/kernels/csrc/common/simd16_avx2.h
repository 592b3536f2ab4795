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

// acc += sum over four bytes of w (0..255) * a (-127..127), for every lane; exact. maddubs would saturate above w = 128, so w is moved to
// [-128, 127], its sign given to a, and 128 * a added back.
HW_INLINE I32x16 dot4(I32x16 acc, U8x64 w, int32_t four_s8) {
  const __m256i act = _mm256_set1_epi32(four_s8), one = _mm256_set1_epi16(1), top = _mm256_set1_epi8(static_cast<char>(0x80));
  const __m256i back = _mm256_slli_epi32(_mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_set1_epi8(1), act), one), 7);
  const __m256i wa = _mm256_xor_si256(w.a, top), wb = _mm256_xor_si256(w.b, top);
  const __m256i pa = _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_abs_epi8(wa), _mm256_sign_epi8(act, wa)), one);
  const __m256i pb = _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_abs_epi8(wb), _mm256_sign_epi8(act, wb)), one);
  return {_mm256_add_epi32(acc.a, _mm256_add_epi32(pa, back)), _mm256_add_epi32(acc.b, _mm256_add_epi32(pb, back))};
}

}  // namespace HW_ISA
}  // namespace hw
