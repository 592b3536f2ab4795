// The packed weight layouts, as defined in kernels/layouts.py (same ids, same bytes).
#pragma once

#include <cstdint>

namespace hw {

constexpr int kGroupRows = 16;    // output rows per group; a lane is a row
constexpr int kBlockColumns = 32;

enum LayoutId : int {
  kPackedF32, kPackedF16, kPackedBF16, kPackedQ8, kPackedQ4, kPackedQ4M, kPackedQ5, kPackedQ5M, kPackedQ8S, kPackedQ4K, kPackedQ5K, kPackedQ6K,
  kPackedQ2K, kLayoutCount
};

struct Layout {
  int bits = 0;
  int gran = 32;          // columns per scale
  int offset_log2 = -1;   // codes are stored plus 2^offset_log2; -1 = not
  bool two_level = false;
  bool has_min = false;

  constexpr bool is_float() const { return bits >= 16; }
  constexpr int offset() const { return offset_log2 < 0 ? 0 : 1 << offset_log2; }
  constexpr int blocks() const { return two_level ? 8 : has_min ? 1 : 2; }  // per chunk
  constexpr int block_bytes() const { return kGroupRows * kBlockColumns * bits / 8; }
  constexpr int subs() const { return 256 / gran; }                          // sub-scales per chunk and row
  constexpr int header_bytes() const { return 64 + (two_level ? (has_min ? 2 : 1) * subs() * kGroupRows : 0); }
  constexpr int chunk_bytes() const { return header_bytes() + blocks() * block_bytes(); }
  constexpr int64_t chunks(int64_t cols) const { return (cols + kBlockColumns * blocks() - 1) / (kBlockColumns * blocks()); }
  constexpr int64_t group_bytes(int64_t cols) const {
    return is_float() ? kGroupRows * cols * (bits / 8) : chunks(cols) * chunk_bytes();
  }
};

constexpr Layout kLayouts[kLayoutCount] = {
    {32, 32, -1, false, false}, {16, 32, -1, false, false}, {16, 32, -1, false, false},  // f32, f16, bf16
    {8, 32, 7, false, false},   {4, 32, 3, false, false},   {4, 32, -1, false, true},    // q8, q4, q4m
    {5, 32, 4, false, false},   {5, 32, -1, false, true},   {8, 32, 7, true, false},     // q5, q5m, q8s
    {4, 32, -1, true, true},    {5, 32, -1, true, true},    {6, 16, 5, true, false},     // q4k, q5k, q6k
    {2, 16, -1, true, true},                                                             // q2k
};

// One packed matrix; `data` is 64-byte aligned and belongs to whoever made the view.
struct PartView {
  int layout = kPackedF32;
  int64_t rows = 0, cols = 0;
  const uint8_t* data = nullptr;
  int64_t first_row = 0;  // in the stacked weight

  int64_t groups() const { return (rows + kGroupRows - 1) / kGroupRows; }
  const uint8_t* group(int64_t g) const { return data + g * kLayouts[layout].group_bytes(cols); }
};

struct WeightView {
  const PartView* parts = nullptr;
  int n_parts = 0;
  int64_t rows = 0, cols = 0;
};

}  // namespace hw
