// Quantised rows in the order in which matrix tiles read them: 16 rows together, block by block.
#pragma once

#include <cstdint>

namespace hw {

constexpr int kTileRows = 16;

// One block of 32 columns of 16 rows. Rows beyond the last are zero.
struct TileBlock {
  int8_t q[kTileRows][32];
  float scale[kTileRows];
  float sums[3][kTileRows];  // scale * sum of q over the block, its first and its second 16 columns
};
static_assert(sizeof(TileBlock) == 768, "whole cache lines");

static inline int64_t tile_bytes(int64_t cols) { return cols / 32 * static_cast<int64_t>(sizeof(TileBlock)); }

}  // namespace hw
