// Quantised rows and weights in the order in which matrix tiles read them: a span in steps of 64 columns, codes as two bytes each.
#pragma once

#include <cstdint>

#include "linear/quant.h"

namespace hw {

constexpr int kTileRows = 16, kStepColumns = 64, kSpanSteps = 32 * kSpanBlocks / kStepColumns;

// One span of 16 input rows. Rows beyond the last, and columns up to a whole step, are zero.
struct TileSpan {
  struct Step {
    int8_t high[kTileRows][kStepColumns];
    int8_t twice_low[kTileRows][kStepColumns];  // twice: products of low and high bytes then weigh 2^7 whichever is whose
  } steps[kSpanSteps];
  float scales[kTileRows];
};
static_assert(sizeof(TileSpan) % 64 == 0, "whole cache lines");

// One span of 16 output rows: code = 256 * high + low. Four columns a row of the tile, as in the packed layouts.
struct WeightSpan {
  struct Step {
    int8_t high[kStepColumns / 4][64];
    uint8_t low[kStepColumns / 4][64];
  } steps[kSpanSteps];
  float scales[16];
};
static_assert(sizeof(WeightSpan) % 64 == 0, "whole cache lines");

constexpr int64_t tile_bytes(int64_t cols) { return spans_of(cols) * static_cast<int64_t>(sizeof(TileSpan)); }

}  // namespace hw
