// Quantisation of one row, for inlining into the operations that produce rows. Include only from *_isa.cpp files.
#pragma once

#include "common/simd16.h"
#include "linear/quant.h"

namespace hw {
namespace HW_ISA {

constexpr int kScaleBlocks = 16;  // blocks whose scales are divided out together: one lane each

// Up to 16 blocks of 32 columns -> q[32 blocks], meta[blocks].
HW_INLINE void quantise_blocks(const float* x, int blocks, int8_t* q, BlockMeta* meta) {
  int32_t top[kScaleBlocks] = {};
  for (int b = 0; b < blocks; ++b) {  // the largest magnitude by its bits, so that a NaN wins over every number
    top[b] = max_lanes(max(bits_of(abs(load(x + 32 * b))), bits_of(abs(load(x + 32 * b + kLanes)))));
  }
  float amax[kScaleBlocks], scales[kScaleBlocks], inverses[kScaleBlocks];
  std::memcpy(amax, top, sizeof(amax));
  store(scales, load(amax) / splat(127.0f));
  store(inverses, splat(127.0f) / load(amax));
  const F32x16 low = splat(-127.0f), high = splat(127.0f);
  for (int b = 0; b < blocks; ++b) {
    const bool finite = top[b] < 0x7f800000, tiny = amax[b] < 1e-30f;  // tiny: the reciprocal would overflow; the block counts as zero
    const F32x16 factor = splat(finite && !tiny ? inverses[b] : 0.0f);
    const I32x16 qa = to_int(min(max(load(x + 32 * b) * factor, low), high));
    const I32x16 qb = to_int(min(max(load(x + 32 * b + kLanes) * factor, low), high));
    store_i8(q + 32 * b, qa);
    store_i8(q + 32 * b + kLanes, qb);
    const int32_t half = sum_lanes(qa), sum = half + sum_lanes(qb);
    const int32_t nan_bits = 0x7fc00000;
    float scale = tiny ? 0.0f : scales[b];
    if (!finite) std::memcpy(&scale, &nan_bits, 4);
    meta[b].scale = scale;
    meta[b].scaled_sum = scale * static_cast<float>(sum);
    meta[b].negative_sum = -sum;
    meta[b].negative_half = -half;
  }
}

}  // namespace HW_ISA
}  // namespace hw
