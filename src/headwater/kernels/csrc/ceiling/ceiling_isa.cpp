#include "ceiling/ceiling.h"

#include "common/simd16.h"
#include "linear/source.h"
#include "linear/tile.h"

namespace hw {
namespace HW_ISA {
namespace {

#if defined(HW_ISA_avx512)
constexpr int kTokens = 6, kGroups = 2;
#elif defined(HW_ISA_avx2)
constexpr int kTokens = 4, kGroups = 1;
#else
constexpr int kTokens = 1, kGroups = 1;
#endif

volatile float g_sink;

int64_t dots(int64_t blocks) {
  constexpr int kBlocks = kSpanBlocks;  // activations and panels of one call stay in L1
  alignas(64) static thread_local uint8_t memory[kGroups][Panel::bytes(kBlocks)];
  static int16_t pairs[kTokens * kBlocks * 32];
  static float scales[kTokens];
  Panel panels[kGroups];
  for (int g = 0; g < kGroups; ++g) panels[g].place(memory[g], kBlocks);
  F32x16 total = zero16();
  for (int64_t b = 0; b < blocks; b += kBlocks) {
    F32x16 sums[kTokens][kGroups];
    tile_of_panels<kTokens, kGroups>(panels, kBlocks, pairs, scales, sums);
    for (int t = 0; t < kTokens; ++t)
      for (int g = 0; g < kGroups; ++g) total = total + sums[t][g];
  }
  g_sink = sum_lanes(total);
  return (blocks + kBlocks - 1) / kBlocks * kBlocks * 32 * kLanes * kTokens * kGroups * 2;
}

}  // namespace

int32_t read_streams(const uint8_t* data, int64_t bytes, int streams) {
  const int64_t each = bytes / streams;
  I32x16 sum = splat_int(0);
  for (int64_t i = 0; i < each; i += 64)
    for (int s = 0; s < streams; ++s) sum = add(sum, load_int(reinterpret_cast<const int32_t*>(data + s * each + i)));
  return sum_lanes(sum);
}

int64_t dot_ceiling(int64_t blocks) { return dots(blocks); }

int64_t fma_ceiling(int64_t steps) {
  constexpr int kChains = 10;
  F32x16 sum[kChains];
  for (auto& s : sum) s = zero16();
  F32x16 a = splat(0.999f), b = splat(0.001f);
  for (int64_t i = 0; i < steps; ++i) {
    HW_UNROLL(10)
    for (auto& s : sum) s = fma(s, a, b);
  }
  F32x16 total = zero16();
  for (auto& s : sum) total = total + s;
  g_sink = sum_lanes(total);
  return steps * kChains * kLanes * 2;
}

}  // namespace HW_ISA
}  // namespace hw
