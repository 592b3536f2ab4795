#include "ceiling/ceiling.h"

#include "linear/tile_amx.h"

namespace hw {
namespace amx {

int64_t dot_ceiling(int64_t blocks) {
  alignas(64) static thread_local TileSpan rows;  // of one call: all stays in L1
  alignas(64) static thread_local WeightSpan weights[kPairGroups];
  alignas(64) static thread_local Dots dots[2];
  alignas(64) static thread_local float sums[kTileRows][kPairGroups][kLanes];
  configure();
  int turn = 0;
  for (int64_t b = 0; b < blocks; b += kSpanBlocks, turn ^= 1) {
    clear_sums();
    for (int s = 0; s < kSpanSteps; ++s) {
      multiply(rows.steps[s], weights[0].steps[s], weights[1].steps[s]);
      for (int i = s * kTileRows / kSpanSteps; i < (s + 1) * kTileRows / kSpanSteps; ++i)
        for (int g = 0; g < kPairGroups; ++g)
          store(sums[i][g], fma(to_float(combine(dots[turn], g, i)), load(weights[g].scales) * splat(rows.scales[i]), load(sums[i][g])));
    }
    store_sums(dots[turn ^ 1]);
  }
  _tile_release();
  return (blocks + kSpanBlocks - 1) / kSpanBlocks * kSpanBlocks * 32 * kLanes * kTileRows * kPairGroups * 2;
}

}  // namespace amx
}  // namespace hw
