// Passes over a vocabulary of logits for one instruction set.
#include "sample/sample.h"

#include <cmath>

#include "attend/exp2_isa.h"
#include "common/simd16.h"

namespace hw {
namespace HW_ISA {

bool row_max(const float* x, int n, float* top) {
  const F32x16 infinite = splat(HUGE_VALF), nothing = splat(-HUGE_VALF);
  F32x16 peak[4] = {nothing, nothing, nothing, nothing};  // four chains hide the latency; a maximum does not depend on their number
  uint32_t finite = 0xffffu;
  int i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      const F32x16 v = load(x + i + j * kLanes);
      finite &= mask_bits(less(v, infinite));
      peak[j] = max(v, peak[j]);
    }
  }
  for (; i < n; i += kLanes) {
    const int lanes = n - i < kLanes ? n - i : kLanes;
    const F32x16 v = select(mask_first(lanes), load_n(x + i, lanes), nothing);
    finite &= mask_bits(less(v, infinite));
    peak[0] = max(v, peak[0]);
  }
  *top = max_lanes(max(max(peak[0], peak[1]), max(peak[2], peak[3])));
  return finite == 0xffffu;
}

int find_value(const float* x, int n, float top) {
  for (int i = 0; i < n; i += kLanes) {
    const int lanes = n - i < kLanes ? n - i : kLanes;
    const uint32_t equal = ~mask_bits(less(load_n(x + i, lanes), splat(top))) & mask_bits(mask_first(lanes));
    if (equal) return i + __builtin_ctz(equal);
  }
  return -1;
}

int collect_ids(const float* x, int n, float least, int32_t* ids) {
  int count = 0;
  for (int i = 0; i < n; i += kLanes) {
    const int lanes = n - i < kLanes ? n - i : kLanes;
    for (uint32_t hits = ~mask_bits(less(load_n(x + i, lanes), splat(least))) & mask_bits(mask_first(lanes)); hits; hits &= hits - 1) {
      ids[count++] = i + __builtin_ctz(hits);
    }
  }
  return count;
}

int count_above(const float* x, int n, float value) {
  int count = 0;
  for (int i = 0; i < n; i += kLanes) {
    const int lanes = n - i < kLanes ? n - i : kLanes;
    count += __builtin_popcount(mask_bits(less(splat(value), load_n(x + i, lanes))) & mask_bits(mask_first(lanes)));
  }
  return count;
}

double sum_exp2(const float* x, int n, float top, float factor, float least, float* weights, double* block_sums) {
  const F32x16 shift = splat(top), scale = splat(factor), floor = splat(least), nothing = zero16();
  double total = 0.0;
  for (int base = 0; base < n; base += kSumBlock) {
    const int stop = base + kSumBlock < n ? base + kSumBlock : n;
    F32x16 sum = nothing;
    for (int i = base; i < stop; i += kLanes) {
      const int lanes = stop - i < kLanes ? stop - i : kLanes;
      F32x16 p = exp2_16((load_n(x + i, lanes) - shift) * scale);
      p = select(less(p, floor), nothing, p);
      if (lanes < kLanes) p = select(mask_first(lanes), p, nothing);
      if (weights) store_n(weights + i, p, lanes);
      sum = sum + p;
    }
    const double block = static_cast<double>(sum_lanes(sum));
    if (block_sums) block_sums[base / kSumBlock] = block;
    total += block;
  }
  return total;
}

void apply_mask(float* x, int n, const uint32_t* mask) {
  const F32x16 nothing = splat(-HUGE_VALF);
  for (int i = 0; i < n; i += kLanes) {
    const int lanes = n - i < kLanes ? n - i : kLanes;
    const uint32_t bits = mask[i / 32] >> (i % 32) & 0xffffu;
    if (bits != 0xffffu) store_n(x + i, select(mask_from_bits(bits), load_n(x + i, lanes), nothing), lanes);
  }
}

}  // namespace HW_ISA
}  // namespace hw
