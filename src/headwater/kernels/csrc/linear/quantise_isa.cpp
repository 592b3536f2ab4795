#include "common/simd16.h"
#include "linear/quant.h"

namespace hw {
namespace HW_ISA {
namespace {

HW_INLINE CodeSums sums_of(int32_t high, int32_t low) {
  const int32_t sum = 128 * high + low, less = sum >> 1;
  return {-high, -low, static_cast<int32_t>((static_cast<uint32_t>(less) & 0xffffu) | static_cast<uint32_t>(sum - less) << 16)};
}

// One span of `blocks` blocks; returns its scale.
HW_INLINE float quantise_span(const float* x, int blocks, int8_t* high, int8_t* low, BlockSums* sums) {
  F32x16 top = zero16(), total = zero16();
  for (int i = 0; i < 2 * blocks; ++i) {
    const F32x16 magnitude = abs(load(x + kLanes * i));
    top = max(magnitude, top);
    total = total + magnitude;
  }
  const float amax = max_lanes(top), sum = sum_lanes(total);
  const bool finite = sum <= 3.402823466e38f, tiny = amax < 1e-30f;  // tiny: the reciprocal would overflow; the span counts as zero
  const float of_top = kActivationReach / amax, of_sum = kActivationSum / sum;
  const float inverse = finite && !tiny ? (of_sum < of_top ? of_sum : of_top) : 0.0f;
  const F32x16 factor = splat(inverse), least = splat(-kActivationReach), most = splat(kActivationReach);
  for (int b = 0; b < blocks; ++b) {
    I32x16 h[2], l[2];
    HW_UNROLL(2)
    for (int i = 0; i < 2; ++i) {
      const I32x16 code = to_int(min(max(load(x + 32 * b + kLanes * i) * factor, least), most));
      h[i] = shift_right_signed<7>(add(code, splat_int(64)));
      l[i] = sub(code, shift_left<7>(h[i]));
      store_i8(high + 32 * b + kLanes * i, h[i]);
      store_i8(low + 32 * b + kLanes * i, l[i]);
    }
    if (!sums) continue;
    sums[b].halves[0] = sums_of(sum_lanes(h[0]), sum_lanes(l[0]));
    sums[b].halves[1] = sums_of(sum_lanes(h[1]), sum_lanes(l[1]));
    sums[b].whole = sums_of(-sums[b].halves[0].high - sums[b].halves[1].high, -sums[b].halves[0].low - sums[b].halves[1].low);
  }
  if (finite) return tiny ? 0.0f : 1.0f / inverse;
  const int32_t nan_bits = 0x7fc00000;
  float nan;
  std::memcpy(&nan, &nan_bits, 4);
  return nan;
}

}  // namespace

void quantise_row(const float* x, QuantRows to, int64_t r) {
  const int64_t blocks = to.cols / 32;
  for (int64_t b = 0; b < blocks; b += kSpanBlocks) {
    const int here = static_cast<int>(blocks - b < kSpanBlocks ? blocks - b : kSpanBlocks);
    const int64_t at = r * to.cols + 32 * b;
    BlockSums* sums = to.sums ? to.sums + r * blocks + b : nullptr;
    to.scales[r * to.spans() + b / kSpanBlocks] = quantise_span(x + 32 * b, here, to.high + at, to.low + at, sums);
  }
}

}  // namespace HW_ISA
}  // namespace hw
