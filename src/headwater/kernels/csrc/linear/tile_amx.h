// The product of one span on AMX tiles: exact integer sums by the tile unit, then the float step of ADR 008 in the same order as every other
// path. Include only from *_amx.cpp.
//
// Two groups of 16 output rows share the tiles of 16 input rows: six sums, two operands. While tiles are in flight, 512-bit arithmetic runs
// on one port instead of two (measured on Sapphire Rapids), which a product of codes leaves idle most of the time: the float step of the product
// before is spread between its tiles. Unpacking is too much for that and goes by itself.
#pragma once

#include <immintrin.h>

#include <cstring>

#include "common/simd16.h"
#include "linear/source.h"
#include "linear/tiles.h"

namespace hw {
namespace amx {

constexpr int kPairGroups = 2;

struct alignas(64) TileConfig {
  uint8_t palette = 1, start = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};

HW_INLINE void configure() {
  TileConfig config;
  for (int t = 0; t < 8; ++t) config.row_bytes[t] = 64, config.rows[t] = 16;
  __asm__ volatile("ldtilecfg %0" ::"m"(config));  // all of it: gcc's intrinsic names only the first eight bytes
}

// Stored codes of one span -> bytes of whole codes.
template <int ID>
HW_INLINE void fill(const Packed<ID>& from, int64_t first, int blocks, int64_t all_blocks, WeightSpan& to) {
  constexpr int HALVES = Packed<ID>::HALVES;
  Grid<Packed<ID>> grid;
  grid.make(from, first, blocks);
  store(to.scales, grid.scale);
  const __m512i low_byte = _mm512_set1_epi16(255);
  for (int b = 0; b < blocks; ++b) {
    from.ahead(first + b + kSpanBlocks, all_blocks, kPairGroups);
    WeightSpan::Step& step = to.steps[b / 2];
    I16x32 times, plus;
    HW_UNROLL(4)
    for (int p = 0; p < 4; ++p) {
      if (p % (4 / HALVES) == 0) grid.words(b * HALVES + p * HALVES / 4, times, plus);
      U8x64 w[2];
      from.pair(first + b, p, w[0], w[1]);
      HW_UNROLL(2)
      for (int i = 0; i < 2; ++i) {
        const int row = b % 2 * 8 + 2 * p + i;
        const __m512i even = mul_add(even_bytes(w[i]), times, plus).v, odd = mul_add(odd_bytes(w[i]), times, plus).v;
        _mm512_store_si512(step.low[row], _mm512_ternarylogic_epi32(low_byte, even, _mm512_slli_epi16(odd, 8), 0xca));
        _mm512_store_si512(step.high[row], _mm512_ternarylogic_epi32(low_byte, _mm512_srli_epi16(even, 8), odd, 0xca));
      }
    }
  }
  if (blocks % 2) {
    std::memset(to.steps[blocks / 2].high[8], 0, 512);
    std::memset(to.steps[blocks / 2].low[8], 0, 512);
  }
}

// The integer sums of 16 input rows and two groups: per group high * high, the mixed ones, low * low (twice).
struct alignas(64) Dots {
  int32_t of[kPairGroups][3][kTileRows][16];
};

HW_INLINE void clear_sums() {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
}

HW_INLINE void multiply(const TileSpan::Step& a, const WeightSpan::Step& w0, const WeightSpan::Step& w1) {
  _tile_loadd(6, a.high, 64);
  _tile_loadd(7, w0.high, 64);
  _tile_dpbssd(0, 6, 7);
  _tile_loadd(7, w0.low, 64);
  _tile_dpbsud(1, 6, 7);
  _tile_loadd(7, w1.high, 64);
  _tile_dpbssd(3, 6, 7);
  _tile_loadd(7, w1.low, 64);
  _tile_dpbsud(4, 6, 7);
  _tile_loadd(6, a.twice_low, 64);
  _tile_dpbsud(5, 6, 7);
  _tile_loadd(7, w0.low, 64);
  _tile_dpbsud(2, 6, 7);
  _tile_loadd(7, w0.high, 64);
  _tile_dpbssd(1, 6, 7);
  _tile_loadd(7, w1.high, 64);
  _tile_dpbssd(4, 6, 7);
}

HW_INLINE void store_sums(Dots& dots) {
  _tile_stored(0, dots.of[0][0], 64);
  _tile_stored(1, dots.of[0][1], 64);
  _tile_stored(2, dots.of[0][2], 64);
  _tile_stored(3, dots.of[1][0], 64);
  _tile_stored(4, dots.of[1][1], 64);
  _tile_stored(5, dots.of[1][2], 64);
}

// The whole dots of one input row and one group.
HW_INLINE I32x16 combine(const Dots& dots, int group, int row) {
  const auto& of = dots.of[group];
  return add(add(shift_left<15>(load_int(of[0][row])), shift_left<7>(load_int(of[1][row]))), shift_right_signed<1>(load_int(of[2][row])));
}

}  // namespace amx
}  // namespace hw
