// Where the sums of a tile go. Include only from files that are compiled per instruction set.
#pragma once

#include "common/simd16.h"
#include "linear/linear.h"

namespace hw {
namespace HW_ISA {

// Output columns of one part: sum, then bias, then what stands there already.
struct Sink {
  const LinearJob& job;
  const PartView& part;

  HW_INLINE_MEMBER void put(int64_t row, int64_t group, F32x16 sum) const {
    const int64_t column = part.first_row + group * kLanes;
    const int64_t left = part.rows - group * kLanes;
    const int lanes = left < kLanes ? static_cast<int>(left) : kLanes;
    if (job.bias) sum = sum + load_n(job.bias + column, lanes);
    if (job.residual) sum = load_n(job.residual + row * job.residual_stride + column, lanes) + sum;
    store_n(job.out + row * job.out_stride + column, sum, lanes);
  }
  // Asks for the lines that will be written: stores that miss would queue up before the tile stores of the next product.
  HW_INLINE_MEMBER void ahead(int64_t row, int64_t rows, int64_t group) const {
    const float* at = job.out + row * job.out_stride + part.first_row + group * kLanes;
    for (int64_t i = 0; i < rows; ++i) __builtin_prefetch(at + i * job.out_stride, 1);
  }
  template <int T, int G>
  HW_INLINE_MEMBER void put_tile(int64_t row, int64_t group, const F32x16 (&sums)[T][G], int groups = G) const {
    HW_UNROLL(8)
    for (int t = 0; t < T; ++t)
      HW_UNROLL(8)
      for (int g = 0; g < G; ++g)
        if (g < groups) put(row + t, group + g, sums[t][g]);
  }
};

// The product of what the rounding of the activations left out, on top of what stands in `out` already.
HW_INLINE LinearJob rest_of(const LinearJob& job) {
  LinearJob rest = job;
  rest.quant = job.rest;
  rest.bias = nullptr;
  rest.residual = job.out;
  rest.residual_stride = job.out_stride;
  return rest;
}

HW_INLINE bool has_rest(const LinearJob& job, const PartView& part) { return job.rest.q && !kLayouts[part.layout].is_float(); }

}  // namespace HW_ISA
}  // namespace hw
