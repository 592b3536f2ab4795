#include "ceiling/ceiling.h"

#include "linear/tile_amx.h"

namespace hw {
namespace amx {
namespace {

template <int ID>
int64_t dots(int64_t blocks) {
  constexpr int kBlocks = 8;  // rows and panel of one call stay in L1
  alignas(64) static thread_local uint8_t rows[kBlocks * sizeof(TileBlock)], panel[panel_bytes(kBlocks)];
  alignas(64) float sums[kTileRows * kLanes];
  configure(kLayouts[ID].gran);
  const SignedPanel<ID> weights(panel, kBlocks);
  for (int64_t b = 0; b < blocks; b += kBlocks) tile_product<ID>(reinterpret_cast<const TileBlock*>(rows), weights, kBlocks, sums);
  _tile_release();
  return (blocks + kBlocks - 1) / kBlocks * kBlocks * 32 * kLanes * kTileRows * 2;
}

}  // namespace

int64_t dot_ceiling(int bits, int64_t blocks) { return bits == 8 ? dots<kPackedQ8>(blocks) : dots<kPackedQ4M>(blocks); }

}  // namespace amx
}  // namespace hw
