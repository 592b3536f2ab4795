// Passes over a vocabulary of logits for one instruction set.
#include "sample/sample.h"

#include <cmath>

#include "attend/exp2_isa.h"
#include "common/simd16.h"

namespace hw {
namespace HW_ISA {

bool row_max(const float* x, int n, float* top) {
  const F32x16 infinite = splat(HUGE_VALF), nothing = splat(-HUGE_VALF);
  F32x16 peak = nothing;
  int i = 0;
  bool finite = true;
  for (; i + kLanes <= n; i += kLanes) {
    const F32x16 v = load(x + i);
    finite = finite && mask_bits(less(v, infinite)) == 0xffffu;
    peak = max(v, peak);
  }
  if (i < n) {
    const F32x16 v = load_n(x + i, n - i);
    finite = finite && mask_bits(less(v, infinite)) == 0xffffu;
    peak = max(select(mask_first(n - i), v, nothing), peak);
  }
  *top = max_lanes(peak);
  return finite;
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
