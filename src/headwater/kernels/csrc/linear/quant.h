// Activations as the integer kernels read them (ADR 001, 1).
#pragma once

#include <cstdint>

#include "common/isa.h"

namespace hw {

// One block of 32 columns of one row: value = q * scale, q in [-127, 127].
struct BlockMeta {
  float scale;           // amax / 127; NaN when the block holds a value that is not finite
  float scaled_sum;      // scale * sum of q, for layouts with a minimum
  int32_t negative_sum;  // -(sum of q), for layouts with an offset
  int32_t negative_half; // -(sum of the first 16), for layouts with a scale per 16 columns
};

struct QuantRows {
  int8_t* q = nullptr;        // [n][cols]
  BlockMeta* meta = nullptr;  // [n][cols / 32]
  int64_t cols = 0;

  const int8_t* row(int64_t r) const { return q + r * cols; }
  const BlockMeta* row_meta(int64_t r) const { return meta + r * (cols / 32); }
  static constexpr int64_t bytes(int64_t n, int64_t cols) { return n * (cols + cols / 32 * static_cast<int64_t>(sizeof(BlockMeta))); }
};

// x f32[cols] -> row r of `to`; cols is a multiple of 32.
HW_DECLARE(void quantise_row(const float* x, QuantRows to, int64_t r))
// What the rounding of row r of `first` left out of x -> row r of `rest`, quantised in the same way (ADR 006).
HW_DECLARE(void quantise_rest(const float* x, QuantRows first, QuantRows rest, int64_t r))

}  // namespace hw
