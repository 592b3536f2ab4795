// Cache format i16 (ADR 011): a vector of head_dim numbers is one scale and whole numbers of 15 bits, cut into 128 · high + low.
//
// Products drop low · low, which is worth less than the rounding to 15 bits: high · (128 · high' + low') + low · high' is an exact int32 for up to
// 1,024 terms, whatever adds it up.
//
// keys of a block:   high [head_dim / 4][16 positions][4 channels] + 128, low likewise + 64, scales float [16]
// values of a block: high [4][head_dim][4 positions], low likewise, exponents of two float [16]
#pragma once

#include <cstdint>

#include "common/step.h"

namespace hw {

constexpr int kI16Most = 16319;              // 128 · 127 + 63: both parts fit int8 on either side
constexpr float kI16Least = 8.6736174e-19f;  // 2^-60: vectors without a larger number are zero
constexpr int kI16LeastExponent = -74;       // that of kI16Least and of zero
constexpr int kI16Widest = 1024;             // head_dim

static inline int64_t i16_plane(int head_dim) { return int64_t{kBlockTokens} * head_dim; }
static inline int64_t i16_block_bytes(int head_dim) { return 2 * i16_plane(head_dim) + kBlockTokens * static_cast<int64_t>(sizeof(float)); }
static inline const float* i16_scales(const char* block, int head_dim) { return reinterpret_cast<const float*>(block + 2 * i16_plane(head_dim)); }

// A query's codes: high [n], low [n] and this, `stride` bytes apart.
struct QueryMeta {
  float scale;                    // of a sum of products with codes of a key, but for the key's scale
  int32_t minus_high, minus_low;  // minus the sums of the codes: they take the offsets of keys back out
};

struct QueryCodes {
  char* base;
  int64_t stride;
  int n;
  int8_t* high(int64_t r) const { return reinterpret_cast<int8_t*>(base + r * stride); }
  int8_t* low(int64_t r) const { return high(r) + n; }
  QueryMeta& meta(int64_t r) const { return *reinterpret_cast<QueryMeta*>(base + r * stride + 2 * n); }
};

}  // namespace hw
