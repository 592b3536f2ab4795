// The one arithmetic path of quantised products, T tokens x G groups of 16 output rows, in two forms with the same integers.
// Include only from *_isa.cpp files.
#pragma once

#include "common/simd16.h"
#include "linear/quant.h"
#include "linear/source.h"

namespace hw {
namespace HW_ISA {

// totals[t][g] += step * dot + base * (sum of activation codes) of one block, the dots being those of the stored codes.
template <class S, int T, int G>
HW_INLINE void add_block(const S* source, const Grid<S>* grids, int64_t b, int in_span, const QuantRows& rows, int64_t first_row,
                         I32x16 (&totals)[T][G]) {
  HW_UNROLL(2)
  for (int half = 0; half < S::HALVES; ++half) {
    constexpr int PAIRS = 4 / S::HALVES;
    const CodeSums* back[T];
    BlockDot<S::BITS, S::OFFSET_LOG2> high[T][G], low[T][G];
    HW_UNROLL(8)
    for (int t = 0; t < T; ++t) {
      const BlockSums& sums = rows.sums[(first_row + t) * (rows.cols / 32) + b];
      back[t] = S::HALVES == 1 ? &sums.whole : &sums.halves[half];
      HW_UNROLL(8)
      for (int g = 0; g < G; ++g) {
        high[t][g].init(back[t]->high);
        low[t][g].init(back[t]->low);
      }
    }
    HW_UNROLL(4)
    for (int p = half * PAIRS; p < (half + 1) * PAIRS; ++p) {
      U8x64 w0[G], w1[G];
      HW_UNROLL(8)
      for (int g = 0; g < G; ++g) source[g].pair(b, p, w0[g], w1[g]);
      HW_UNROLL(8)
      for (int t = 0; t < T; ++t) {
        const int64_t at = (first_row + t) * rows.cols + 32 * b + 8 * p;
        HW_UNROLL(8)
        for (int g = 0; g < G; ++g) {
          high[t][g].step_pair(w0[g], w1[g], load_i32(rows.high + at), load_i32(rows.high + at + 4));
          low[t][g].step_pair(w0[g], w1[g], load_i32(rows.low + at), load_i32(rows.low + at + 4));
        }
      }
    }
    HW_UNROLL(8)
    for (int g = 0; g < G; ++g) {
      const int sub_block = in_span * S::HALVES + half;
      const I32x16 step = grids[g].step[sub_block];
      HW_UNROLL(8)
      for (int t = 0; t < T; ++t) {
        const I32x16 dot = add(shift_left<7>(high[t][g].finish(back[t]->high)), low[t][g].finish(back[t]->low));
        totals[t][g] = add(totals[t][g], mul(dot, step));
        if constexpr (S::HAS_MIN) totals[t][g] = dot_words(totals[t][g], twice(grids[g].base[sub_block]), back[t]->pair);
      }
    }
  }
}

// sums[t][g] = the products of all spans in ascending order, acc = fma(float(dot), w_scale * a_scale, acc), from stored codes: the dots of a
// block are multiplied by its step, so nothing is unpacked beyond q.
template <class S, int T, int G>
HW_INLINE void tile(const S* source, int64_t blocks, const QuantRows& rows, int64_t first_row, F32x16 (&sums)[T][G]) {
  HW_UNROLL(8)
  for (int t = 0; t < T; ++t) {
    HW_UNROLL(8)
    for (int g = 0; g < G; ++g) sums[t][g] = zero16();
  }
  for (int64_t first = 0; first < blocks; first += kSpanBlocks) {
    const int here = static_cast<int>(blocks - first < kSpanBlocks ? blocks - first : kSpanBlocks);
    Grid<S> grids[G];
    I32x16 totals[T][G];
    HW_UNROLL(8)
    for (int g = 0; g < G; ++g) {
      grids[g].make(source[g], first, here);
      HW_UNROLL(8)
      for (int t = 0; t < T; ++t) totals[t][g] = splat_int(0);
    }
    for (int b = 0; b < here; ++b) {
      HW_UNROLL(8)
      for (int g = 0; g < G; ++g) source[g].ahead(first + b + 8 + 16 / G, blocks, G);
      add_block<S, T, G>(source, grids, first + b, b, rows, first_row, totals);
    }
    HW_UNROLL(8)
    for (int t = 0; t < T; ++t) {
      const F32x16 scale = splat(rows.scales[(first_row + t) * rows.spans() + first / kSpanBlocks]);
      HW_UNROLL(8)
      for (int g = 0; g < G; ++g) sums[t][g] = fma(to_float(totals[t][g]), grids[g].scale * scale, sums[t][g]);
    }
  }
}

// The same from whole codes. pairs: the activation codes of the first row, each quad in the order 0, 2, 1, 3; a row is 32 * blocks long.
template <int T, int G>
HW_INLINE void tile_of_panels(const Panel* panels, int64_t blocks, const int16_t* pairs, const float* scales, F32x16 (&sums)[T][G]) {
  const int64_t cols = 32 * blocks, spans = spans_of(cols);
  HW_UNROLL(8)
  for (int t = 0; t < T; ++t) {
    HW_UNROLL(8)
    for (int g = 0; g < G; ++g) sums[t][g] = zero16();
  }
  for (int64_t span = 0; span < spans; ++span) {
    const int64_t stop = (span + 1) * kSpanBlocks * 8 < blocks * 8 ? (span + 1) * kSpanBlocks * 8 : blocks * 8;
    I32x16 totals[T][G];
    HW_UNROLL(8)
    for (int t = 0; t < T; ++t) {
      HW_UNROLL(8)
      for (int g = 0; g < G; ++g) totals[t][g] = splat_int(0);
    }
    for (int64_t quad = span * kSpanBlocks * 8; quad < stop; ++quad) {
      HW_UNROLL(2)
      for (int i = 0; i < 2; ++i) {
        I16x32 w[G];
        HW_UNROLL(8)
        for (int g = 0; g < G; ++g) w[g] = load_words(panels[g].codes + 64 * quad + 32 * i);
        HW_UNROLL(8)
        for (int t = 0; t < T; ++t) {
          const int32_t pair = load_i32(pairs + t * cols + 4 * quad + 2 * i);
          HW_UNROLL(8)
          for (int g = 0; g < G; ++g) totals[t][g] = dot_words(totals[t][g], w[g], pair);
        }
      }
    }
    HW_UNROLL(8)
    for (int t = 0; t < T; ++t) {
      const F32x16 scale = splat(scales[t * spans + span]);
      HW_UNROLL(8)
      for (int g = 0; g < G; ++g) sums[t][g] = fma(to_float(totals[t][g]), load(panels[g].scales + span * kLanes) * scale, sums[t][g]);
    }
  }
}

// Float weights: one fma per column in ascending order.
template <class E, int T, int G>
HW_INLINE void tile_float(const uint8_t* const* group, int64_t cols, const float* x, int64_t stride, F32x16 (&sums)[T][G]) {
  HW_UNROLL(8)
  for (int t = 0; t < T; ++t) {
    HW_UNROLL(8)
    for (int g = 0; g < G; ++g) sums[t][g] = zero16();
  }
  for (int64_t k = 0; k < cols; ++k) {
    F32x16 w[G];
    HW_UNROLL(8)
    for (int g = 0; g < G; ++g) w[g] = E::load16(group[g] + k * kLanes * E::kBytes);
    HW_UNROLL(8)
    for (int t = 0; t < T; ++t) {
      const F32x16 a = splat(x[t * stride + k]);
      HW_UNROLL(8)
      for (int g = 0; g < G; ++g) sums[t][g] = fma(w[g], a, sums[t][g]);
    }
  }
}

}  // namespace HW_ISA
}  // namespace hw
