// Activations as the integer kernels read them (ADR 008).
#pragma once

#include <cstdint>

#include "common/isa.h"

namespace hw {

constexpr int kSpanBlocks = 10;             // blocks of 32 columns under one scale, of activations and of weights alike: a span
constexpr float kActivationReach = 16256;   // largest code: 127 * 128
constexpr float kActivationSum = 65280;     // largest sum of magnitudes of a span, before rounding: with codes below 2^15 a dot fits int32
constexpr float kWeightReach = 32700;       // largest weight code before rounding, which moves it by 64 at most
constexpr int kMostDirectRows = 8;          // products of more rows never read sums of blocks

constexpr int64_t spans_of(int64_t cols) { return (cols / 32 + kSpanBlocks - 1) / kSpanBlocks; }

// A code is 128 * high + low, low in [-64, 63].
//
// Sums over some columns of one row. high, low: negated, what takes the stored offset of weight codes back out. pair: two int16 that add up to
// the sum of the codes, which itself may need 17 bits.
struct CodeSums {
  int32_t high, low, pair;
};

struct BlockSums {
  CodeSums whole, halves[2];
};

struct QuantRows {
  int8_t *high = nullptr, *low = nullptr;  // [n][cols]
  BlockSums* sums = nullptr;               // [n][cols / 32]; null where nobody reads them
  float* scales = nullptr;                 // [n][spans]; NaN where a span holds a value that is not finite
  int64_t cols = 0;

  int64_t spans() const { return spans_of(cols); }
  static constexpr int64_t bytes(int64_t n, int64_t cols) {
    return n * (2 * cols + cols / 32 * static_cast<int64_t>(sizeof(BlockSums)) + spans_of(cols) * 4);
  }
  // `n` rows in bytes(n, cols) of memory, aligned to 4 bytes.
  static QuantRows in(uint8_t* memory, int64_t n, int64_t cols, bool with_sums) {
    QuantRows rows;
    rows.cols = cols;
    rows.sums = with_sums ? reinterpret_cast<BlockSums*>(memory) : nullptr;
    rows.scales = reinterpret_cast<float*>(memory + (with_sums ? n * (cols / 32) * static_cast<int64_t>(sizeof(BlockSums)) : 0));
    rows.high = reinterpret_cast<int8_t*>(rows.scales + n * spans_of(cols));
    rows.low = rows.high + n * cols;
    return rows;
  }
};

// x f32[cols] -> row r of `to`; cols is a multiple of 32.
HW_DECLARE(void quantise_row(const float* x, QuantRows to, int64_t r))

}  // namespace hw
