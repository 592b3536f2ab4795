// Quantisation of one row, for inlining into the operations that produce rows. Include only from *_isa.cpp files.
#pragma once

#include "common/simd16.h"
#include "linear/quant.h"

namespace hw {
namespace HW_ISA {

// 32 columns (a: the first 16, b: the second) -> q[32] and meta.
HW_INLINE void quantise_block(F32x16 a, F32x16 b, int8_t* q, BlockMeta* meta) {
  // the largest magnitude by its bits, so that a NaN wins over every number
  const int32_t top = max_lanes(max(bits_of(abs(a)), bits_of(abs(b))));
  float amax;
  std::memcpy(&amax, &top, 4);
  const bool finite = top < 0x7f800000, tiny = amax < 1e-30f;  // below: the reciprocal would overflow; the block counts as zero
  const float inverse = finite && !tiny ? 127.0f / amax : 0.0f;
  const F32x16 low = splat(-127.0f), high = splat(127.0f), factor = splat(inverse);
  const I32x16 qa = to_int(min(max(a * factor, low), high)), qb = to_int(min(max(b * factor, low), high));
  store_i8(q, qa);
  store_i8(q + kLanes, qb);
  const int32_t half = sum_lanes(qa), sum = half + sum_lanes(qb);
  const int32_t nan_bits = 0x7fc00000;
  float scale = tiny ? 0.0f : amax / 127.0f;
  if (!finite) std::memcpy(&scale, &nan_bits, 4);
  meta->scale = scale;
  meta->scaled_sum = scale * static_cast<float>(sum);
  meta->negative_sum = -sum;
  meta->negative_half = -half;
}

}  // namespace HW_ISA
}  // namespace hw
