// The product of one AMX tile: exact integer dots of a block by the tile unit, then the float step of ADR 001 in the same order as every
// other path. One tile is 16 input rows x 16 output rows x 32 columns (16 where scales stand per 16 columns). Include only from *_amx.cpp.
//
// The tile unit and the vector unit share an execution port: while tiles are in flight, 512-bit arithmetic runs on one port instead of two
// (measured on Sapphire Rapids, and for about half a microsecond afterwards). So the tile of the next block is computed behind the float
// step of this one, which then is the only cost.
#pragma once

#include <immintrin.h>

#include <initializer_list>

#include "common/simd16.h"
#include "common/tile_config.h"
#include "linear/source.h"
#include "linear/tiles.h"

namespace hw {
namespace amx {

constexpr int64_t panel_bytes(int64_t blocks) { return blocks * (512 + 2 * 128); }

// Tiles 0, 1: sums; 4, 6: input rows; 5, 7: weights, four columns a row.
HW_INLINE void configure(int columns) {
  TileConfig config;
  for (int t : {0, 1}) config.row_bytes[t] = 64, config.rows[t] = 16;
  for (int t : {4, 6}) config.row_bytes[t] = static_cast<uint16_t>(columns), config.rows[t] = 16;
  for (int t : {5, 7}) config.row_bytes[t] = 64, config.rows[t] = static_cast<uint8_t>(columns / 4);
  config.load();
}

// One group of 16 output rows: signed codes [blocks][8 quads][16 rows][4 columns], scales and minima float [blocks][halves][16].
template <int ID>
struct SignedPanel {
  static constexpr Layout L = kLayouts[ID];
  static constexpr int HALVES = 32 / L.gran;
  int8_t* codes = nullptr;
  float *scales = nullptr, *minima = nullptr;

  SignedPanel(uint8_t* memory, int64_t blocks)
      : codes(reinterpret_cast<int8_t*>(memory)), scales(reinterpret_cast<float*>(memory + 512 * blocks)), minima(scales + HALVES * kLanes * blocks) {}

  void fill(const uint8_t* group, int64_t blocks) {
    Packed<ID> from;
    from.base = group;
    const __m512i offset = _mm512_set1_epi8(static_cast<char>(L.offset()));  // 128 wraps around to the same difference
    for (int64_t b = 0; b < blocks; ++b) {
      from.ahead(b + 8, blocks, 1);
      HW_UNROLL(4)
      for (int p = 0; p < 4; ++p) {
        U8x64 w0, w1;
        from.pair(b, p, w0, w1);
        _mm512_storeu_si512(codes + 512 * b + 128 * p, _mm512_sub_epi8(w0.v, offset));
        _mm512_storeu_si512(codes + 512 * b + 128 * p + 64, _mm512_sub_epi8(w1.v, offset));
      }
      for (int half = 0; half < HALVES; ++half) {
        store(scales + (b * HALVES + half) * kLanes, from.scale(b, half));
        if constexpr (L.has_min) store(minima + (b * HALVES + half) * kLanes, from.minimum(b, half));
      }
    }
  }
};

// The integer dots of step s (a block, or half of one) -> dots[16 input rows][16 output rows].
template <int WHICH, int HALVES>
HW_INLINE void multiply(const TileBlock* rows, const int8_t* codes, int64_t s, int32_t* dots) {
  const int8_t* a = rows[s / HALVES].q[0] + s % HALVES * 16;
  const int8_t* w = codes + s * (512 / HALVES);
  if constexpr (WHICH == 0) {
    _tile_zero(0);
    _tile_loadd(4, a, 32);
    _tile_loadd(5, w, 64);
    _tile_dpbssd(0, 4, 5);
    _tile_stored(0, dots, 64);
  } else {
    _tile_zero(1);
    _tile_loadd(6, a, 32);
    _tile_loadd(7, w, 64);
    _tile_dpbssd(1, 6, 7);
    _tile_stored(1, dots, 64);
  }
}

// The float step of step s: ADR 001, 1.
template <int ID>
HW_INLINE void accumulate(const TileBlock* rows, const SignedPanel<ID> panel, int64_t s, const int32_t* dots, F32x16 (&sums)[kTileRows]) {
  constexpr int HALVES = SignedPanel<ID>::HALVES;
  const TileBlock& block = rows[s / HALVES];
  const float* sum = block.sums[HALVES == 1 ? 0 : 1 + s % HALVES];
  const F32x16 scale = load(panel.scales + s * kLanes), minimum = kLayouts[ID].has_min ? load(panel.minima + s * kLanes) : zero16();
  HW_UNROLL(16)
  for (int i = 0; i < kTileRows; ++i) {
    sums[i] = fma(to_float(load_int(dots + i * kLanes)), scale * splat(block.scale[i]), sums[i]);
    if constexpr (kLayouts[ID].has_min) sums[i] = fma(minimum, splat(sum[i]), sums[i]);
  }
}

// 16 input rows x 16 output rows over all columns.
template <int ID>
static void tile_product(const TileBlock* rows, const SignedPanel<ID> panel, int64_t blocks, float* out) {
  constexpr int HALVES = SignedPanel<ID>::HALVES;
  alignas(64) int32_t dots[2][kTileRows * kLanes];
  F32x16 sums[kTileRows];  // of this function alone: what a tile store might alias would not stay in registers
  HW_UNROLL(16)
  for (int i = 0; i < kTileRows; ++i) sums[i] = zero16();
  const int64_t steps = blocks * HALVES;
  multiply<0, HALVES>(rows, panel.codes, 0, dots[0]);
  int64_t s = 0;
  for (; s + 2 <= steps; s += 2) {
    multiply<1, HALVES>(rows, panel.codes, s + 1, dots[1]);
    accumulate<ID>(rows, panel, s, dots[0], sums);
    if (s + 2 < steps) multiply<0, HALVES>(rows, panel.codes, s + 2, dots[0]);
    accumulate<ID>(rows, panel, s + 1, dots[1], sums);
  }
  if (s < steps) accumulate<ID>(rows, panel, s, dots[0], sums);
  HW_UNROLL(16)
  for (int i = 0; i < kTileRows; ++i) store(out + i * kLanes, sums[i]);
}

}  // namespace amx
}  // namespace hw
