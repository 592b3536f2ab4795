// The one arithmetic path of quantised products: T tokens x G groups of 16 output rows. Include only from *_isa.cpp files.
#pragma once

#include "common/simd16.h"
#include "linear/quant.h"

namespace hw {
namespace HW_ISA {

// sums[t][g] += the products of all blocks in ascending order. Per block (or half block, for layouts with a scale per 16 columns):
// acc = fma(float(dot), w_scale * a_scale, acc), then acc = fma(w_min, a_scale * float(a_sum), acc).
template <class S, int T, int G>
HW_INLINE void tile(const S* source, int64_t blocks, const QuantRows& rows, int64_t first_row, F32x16 (&sums)[T][G]) {
  const int8_t* q[T];
  const BlockMeta* meta[T];
  HW_UNROLL(8)
  for (int t = 0; t < T; ++t) {
    q[t] = rows.row(first_row + t);
    meta[t] = rows.row_meta(first_row + t);
    HW_UNROLL(8)
    for (int g = 0; g < G; ++g) sums[t][g] = zero16();
  }
  for (int64_t b = 0; b < blocks; ++b) {
    HW_UNROLL(8)
    for (int g = 0; g < G; ++g) source[g].ahead(b + 16 / G, blocks, G);
    HW_UNROLL(2)
    for (int half = 0; half < S::HALVES; ++half) {
      constexpr int PAIRS = 4 / S::HALVES;
      int32_t back[T];
      BlockDot<S::BITS, S::OFFSET_LOG2> dot[T][G];
      HW_UNROLL(8)
      for (int t = 0; t < T; ++t) {
        back[t] = S::HALVES == 1 ? meta[t][b].negative_sum
                  : half == 0    ? meta[t][b].negative_half
                                 : meta[t][b].negative_sum - meta[t][b].negative_half;
        HW_UNROLL(8)
        for (int g = 0; g < G; ++g) dot[t][g].init(back[t]);
      }
      HW_UNROLL(4)
      for (int p = half * PAIRS; p < (half + 1) * PAIRS; ++p) {
        U8x64 w0[G], w1[G];
        HW_UNROLL(8)
        for (int g = 0; g < G; ++g) source[g].pair(b, p, w0[g], w1[g]);
        HW_UNROLL(8)
        for (int t = 0; t < T; ++t) {
          const int8_t* a = q[t] + 32 * b + 8 * p;
          HW_UNROLL(8)
          for (int g = 0; g < G; ++g) dot[t][g].step_pair(w0[g], w1[g], load_i32(a), load_i32(a + 4));
        }
      }
      HW_UNROLL(8)
      for (int g = 0; g < G; ++g) {
        const F32x16 scale = source[g].scale(b, half);
        HW_UNROLL(8)
        for (int t = 0; t < T; ++t)
          sums[t][g] = fma(to_float(dot[t][g].finish(back[t])), scale * splat(meta[t][b].scale), sums[t][g]);
        if constexpr (S::HAS_MIN) {
          const F32x16 minimum = source[g].minimum(b, half);
          HW_UNROLL(8)
          for (int t = 0; t < T; ++t) {
            const float sum = S::HALVES == 1 ? meta[t][b].scaled_sum : meta[t][b].scale * static_cast<float>(-back[t]);
            sums[t][g] = fma(minimum, splat(sum), sums[t][g]);
          }
        }
      }
    }
  }
}

// The same for float weights: one fma per column in ascending order.
template <class E, int T, int G>
HW_INLINE void tile_float(const uint8_t* const* group, int64_t cols, const float* x, int64_t stride, F32x16 (&sums)[T][G]) {
  HW_UNROLL(8)
  for (int t = 0; t < T; ++t) {
    HW_UNROLL(8)
    for (int g = 0; g < G; ++g) sums[t][g] = zero16();
  }
  for (int64_t k = 0; k < cols; ++k) {
    F32x16 w[G];
    HW_UNROLL(8)
    for (int g = 0; g < G; ++g) w[g] = E::load16(group[g] + k * kLanes * E::kBytes);
    HW_UNROLL(8)
    for (int t = 0; t < T; ++t) {
      const F32x16 a = splat(x[t * stride + k]);
      HW_UNROLL(8)
      for (int g = 0; g < G; ++g) sums[t][g] = fma(w[g], a, sums[t][g]);
    }
  }
}

}  // namespace HW_ISA
}  // namespace hw
