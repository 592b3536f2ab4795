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

template <class K>
struct InRegisters : K {
  U8x64 w0, w1;
  F32x16 s;
  HW_INLINE_MEMBER void ahead(int64_t, int64_t, int) const {}
  HW_INLINE_MEMBER void pair(int64_t, int, U8x64& a, U8x64& b) const {
    a = w0;
    b = w1;
  }
  HW_INLINE_MEMBER F32x16 scale(int64_t, int) const { return s; }
  HW_INLINE_MEMBER F32x16 minimum(int64_t, int) const { return s; }
};

volatile float g_sink;

template <class K>
int64_t dots(int64_t blocks) {
  constexpr int kBlocks = 16;  // activations of one call stay in L1
  static int8_t q[kTokens * kBlocks * 32];
  static BlockMeta meta[kTokens * kBlocks];
  const QuantRows rows{q, meta, kBlocks * 32};
  InRegisters<K> source[kGroups];
  uint8_t bytes[64] = {1, 2, 3};
  for (auto& s : source) {
    s.w0 = s.w1 = load_bytes(bytes);
    s.s = splat(0.5f);
  }
  F32x16 total = zero16();
  for (int64_t b = 0; b < blocks; b += kBlocks) {
    F32x16 sums[kTokens][kGroups];
    tile<InRegisters<K>, kTokens, kGroups>(source, kBlocks, rows, 0, sums);
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

int64_t dot_ceiling(int bits, int64_t blocks) { return bits == 8 ? dots<Kind<8, 32, 7, false>>(blocks) : dots<Kind<4, 32, -1, true>>(blocks); }

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
