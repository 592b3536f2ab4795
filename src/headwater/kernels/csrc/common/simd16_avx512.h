// The sixteen lanes as one zmm register. See simd16.h for what each operation means.
#pragma once

#include <immintrin.h>

namespace hw {
namespace HW_ISA {

struct F32x16 {
  __m512 v;
};
struct I32x16 {
  __m512i v;
};
struct U8x64 {
  __m512i v;
};
struct Mask16 {
  __mmask16 m;
};

HW_INLINE __mmask16 first_lanes(int n) { return static_cast<__mmask16>((1u << n) - 1u); }

HW_INLINE F32x16 load(const float* p) { return {_mm512_loadu_ps(p)}; }
HW_INLINE F32x16 load_first(const float* p, int n) { return {_mm512_maskz_loadu_ps(first_lanes(n), p)}; }
HW_INLINE void store(float* p, F32x16 a) { _mm512_storeu_ps(p, a.v); }
HW_INLINE void store_first(float* p, F32x16 a, int n) { _mm512_mask_storeu_ps(p, first_lanes(n), a.v); }
HW_INLINE F32x16 splat(float x) { return {_mm512_set1_ps(x)}; }
HW_INLINE F32x16 add(F32x16 a, F32x16 b) { return {_mm512_add_ps(a.v, b.v)}; }
HW_INLINE F32x16 sub(F32x16 a, F32x16 b) { return {_mm512_sub_ps(a.v, b.v)}; }
HW_INLINE F32x16 mul(F32x16 a, F32x16 b) { return {_mm512_mul_ps(a.v, b.v)}; }
HW_INLINE F32x16 div(F32x16 a, F32x16 b) { return {_mm512_div_ps(a.v, b.v)}; }
HW_INLINE F32x16 max(F32x16 a, F32x16 b) { return {_mm512_max_ps(a.v, b.v)}; }
HW_INLINE F32x16 min(F32x16 a, F32x16 b) { return {_mm512_min_ps(a.v, b.v)}; }
HW_INLINE F32x16 fma(F32x16 a, F32x16 b, F32x16 c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
HW_INLINE F32x16 sqrt(F32x16 a) { return {_mm512_sqrt_ps(a.v)}; }
HW_INLINE F32x16 abs(F32x16 a) { return {_mm512_abs_ps(a.v)}; }
HW_INLINE F32x16 copy_sign(F32x16 magnitude, F32x16 sign) {
  const __m512i bit = _mm512_set1_epi32(static_cast<int>(0x80000000u));
  return {_mm512_castsi512_ps(_mm512_or_si512(_mm512_andnot_si512(bit, _mm512_castps_si512(magnitude.v)),
                                              _mm512_and_si512(bit, _mm512_castps_si512(sign.v))))};
}

HW_INLINE Mask16 less(F32x16 a, F32x16 b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ)}; }
HW_INLINE Mask16 mask_first(int n) { return {n >= 16 ? static_cast<__mmask16>(0xffff) : n <= 0 ? static_cast<__mmask16>(0) : first_lanes(n)}; }
HW_INLINE Mask16 mask_and(Mask16 a, Mask16 b) { return {static_cast<__mmask16>(a.m & b.m)}; }
HW_INLINE bool any(Mask16 a) { return a.m != 0; }
HW_INLINE uint32_t mask_bits(Mask16 a) { return a.m; }
HW_INLINE Mask16 mask_from_bits(uint32_t bits) { return {static_cast<__mmask16>(bits)}; }
HW_INLINE F32x16 select(Mask16 m, F32x16 yes, F32x16 no) { return {_mm512_mask_blend_ps(m.m, no.v, yes.v)}; }

HW_INLINE F32x16 load_f16(const uint16_t* p) { return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))}; }
HW_INLINE void store_f16(uint16_t* p, F32x16 a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
HW_INLINE F32x16 load_bf16(const uint16_t* p) {
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))), 16))};
}
HW_INLINE F32x16 load_i8(const int8_t* p) {
  return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))))};
}
HW_INLINE F32x16 load_u8(const uint8_t* p) {
  return {_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))))};
}

HW_INLINE I32x16 splat_int(int32_t x) { return {_mm512_set1_epi32(x)}; }
HW_INLINE I32x16 load_int(const int32_t* p) { return {_mm512_loadu_si512(p)}; }
HW_INLINE void store_int(int32_t* p, I32x16 a) { _mm512_storeu_si512(p, a.v); }
HW_INLINE I32x16 add(I32x16 a, I32x16 b) { return {_mm512_add_epi32(a.v, b.v)}; }
HW_INLINE I32x16 to_int(F32x16 a) { return {_mm512_cvtps_epi32(a.v)}; }
HW_INLINE F32x16 to_float(I32x16 a) { return {_mm512_cvtepi32_ps(a.v)}; }
HW_INLINE F32x16 power_of_two(I32x16 n) {
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(n.v, _mm512_set1_epi32(127)), 23))};
}
HW_INLINE I32x16 max(I32x16 a, I32x16 b) { return {_mm512_max_epi32(a.v, b.v)}; }
HW_INLINE I32x16 bits_of(F32x16 a) { return {_mm512_castps_si512(a.v)}; }
HW_INLINE int32_t sum_lanes(I32x16 a) { return _mm512_reduce_add_epi32(a.v); }
HW_INLINE int32_t max_lanes(I32x16 a) { return _mm512_reduce_max_epi32(a.v); }
HW_INLINE void store_i8(int8_t* p, I32x16 a) { _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtsepi32_epi8(a.v)); }

HW_INLINE U8x64 load_bytes(const uint8_t* p) { return {_mm512_loadu_si512(p)}; }
HW_INLINE void store_bytes(uint8_t* p, U8x64 a) { _mm512_storeu_si512(p, a.v); }
HW_INLINE U8x64 bits_and(U8x64 a, uint8_t mask) { return {_mm512_and_si512(a.v, _mm512_set1_epi8(static_cast<char>(mask)))}; }
HW_INLINE U8x64 bits_or(U8x64 a, U8x64 b) { return {_mm512_or_si512(a.v, b.v)}; }
template <int N>
HW_INLINE U8x64 shift_right(U8x64 a) {  // shifts 16-bit units: mask afterwards
  return {_mm512_srli_epi16(a.v, N)};
}
template <int N>
HW_INLINE U8x64 shift_left(U8x64 a) {
  return {_mm512_slli_epi16(a.v, N)};
}

// The dot product of one block of BITS-bit codes: init, then quads in any order (integers: exact), then finish. `negative_sum` is minus the
// sum of the activation codes of the block, which takes the stored offset 2^OFFSET_LOG2 (-1 = none) back out.
template <int BITS, int OFFSET_LOG2>
struct BlockDot {
  static constexpr bool kPaired = false;
  __m512i acc;
  HW_INLINE_MEMBER void init(int32_t negative_sum) {
    acc = OFFSET_LOG2 < 0 ? _mm512_setzero_si512() : _mm512_slli_epi32(_mm512_set1_epi32(negative_sum), OFFSET_LOG2 < 0 ? 0 : OFFSET_LOG2);
  }
  HW_INLINE_MEMBER void step(U8x64 w, int32_t a) { acc = _mm512_dpbusd_epi32(acc, w.v, _mm512_set1_epi32(a)); }
  HW_INLINE_MEMBER void step_pair(U8x64 w0, U8x64 w1, int32_t a0, int32_t a1) {
    step(w0, a0);
    step(w1, a1);
  }
  HW_INLINE_MEMBER I32x16 finish(int32_t) const { return {acc}; }
};

}  // namespace HW_ISA
}  // namespace hw
