#include "weights/pack.h"

#include <algorithm>
#include <cstring>

#include "weights/layout.h"

namespace hw {
namespace {

template <class T>
void pack_float_group(const uint8_t* raw, int64_t row_bytes, int rows, int64_t cols, uint8_t* out) {
  T* to = reinterpret_cast<T*>(out);
  constexpr int64_t kStep = 64;  // columns at a time, so that the sixteen source lines stay in L1
  for (int64_t c0 = 0; c0 < cols; c0 += kStep) {
    const int64_t c1 = std::min(cols, c0 + kStep);
    for (int r = 0; r < kGroupRows; ++r) {
      for (int64_t c = c0; c < c1; ++c) {
        T value = 0;
        if (r < rows) std::memcpy(&value, raw + r * row_bytes + c * static_cast<int64_t>(sizeof(T)), sizeof(T));
        to[c * kGroupRows + r] = value;
      }
    }
  }
}

uint32_t quad_of(const uint8_t* q) {
  uint32_t v;
  std::memcpy(&v, q, 4);
  return v;
}

// 32 codes of one row -> its four bytes in every vector of a packed block
void pack_block(int bits, const uint8_t* q, int row, uint8_t* block) {
  uint32_t quad[8], low[8], high[8];
  for (int j = 0; j < 8; ++j) {
    quad[j] = quad_of(q + 4 * j);
    low[j] = quad[j] & 0x0f0f0f0fu;
    high[j] = quad[j] >> 4 & 0x0f0f0f0fu;
  }
  auto put = [&](int vector, uint32_t value) { std::memcpy(block + 64 * vector + 4 * row, &value, 4); };
  if (bits == 8) {
    for (int j = 0; j < 8; ++j) put(j, quad[j]);
    return;
  }
  int vector = 0;
  if (bits >= 4) {
    for (; vector < 4; ++vector) put(vector, low[2 * vector] | low[2 * vector + 1] << 4);
  }
  if (bits == 5) {
    uint32_t plane = 0;
    for (int j = 0; j < 8; ++j) plane |= high[j] << j;
    put(vector, plane);
  } else if (bits == 6 || bits == 2) {
    const uint32_t* two = bits == 6 ? high : low;
    for (int v = 0; v < 2; ++v) put(vector + v, two[4 * v] | two[4 * v + 1] << 2 | two[4 * v + 2] << 4 | two[4 * v + 3] << 6);
  }
}

// One row's block of a format whose codes are ready: its four bytes in every vector, word by word.
void pack_plain(int bits, const uint8_t* codes, int row, uint8_t* block) {
  uint8_t* to = block + 4 * row;
  const auto put = [&](int vector, uint32_t value) { std::memcpy(to + 64 * vector, &value, 4); };
  if (bits == 8) {
    for (int j = 0; j < 8; ++j) put(j, quad_of(codes + 4 * j) ^ 0x80808080u);
    return;
  }
  for (int j = 0; j < 2; ++j) {  // byte i holds columns i and i + 16
    const uint32_t a = quad_of(codes + 8 * j), b = quad_of(codes + 8 * j + 4);
    put(j, (a & 0x0f0f0f0fu) | (b & 0x0f0f0f0fu) << 4);
    put(j + 2, (a >> 4 & 0x0f0f0f0fu) | (b & 0xf0f0f0f0u));
  }
}

void pack_plain_chunk(const BlockFormat& format, const Layout& layout, const uint8_t* raw, int64_t row_bytes, int rows, int64_t first_block,
                      int n_blocks, uint8_t* chunk) {
  if (rows < kGroupRows || n_blocks < layout.blocks()) std::memset(chunk, 0, static_cast<size_t>(layout.chunk_bytes()));
  if (layout.header_bytes() > 32 * n_blocks * (layout.has_min ? 2 : 1)) std::memset(chunk, 0, static_cast<size_t>(layout.header_bytes()));
  uint8_t* data = chunk + layout.header_bytes();
  for (int r = 0; r < rows; ++r) {
    for (int b = 0; b < n_blocks; ++b) {
      const uint8_t* from = raw + r * row_bytes + (first_block + b) * format.bytes;
      std::memcpy(chunk + 32 * b + 2 * r, from, 2);
      if (layout.has_min) std::memcpy(chunk + 32 + 2 * r, from + 2, 2);
      pack_plain(layout.bits, from + format.codes_at, r, data + b * layout.block_bytes());
    }
  }
}

void pack_chunk(const BlockFormat& format, const Layout& layout, const uint8_t* raw, int64_t row_bytes, int rows, int64_t first_block,
                int n_blocks, uint8_t* chunk) {
  if (format.codes_at) return pack_plain_chunk(format, layout, raw, row_bytes, rows, first_block, n_blocks, chunk);
  std::memset(chunk, 0, static_cast<size_t>(layout.chunk_bytes()));
  BlockCodes codes;
  uint8_t* data = chunk + layout.header_bytes();
  const int per_decode = format.columns / kBlockColumns;  // packed blocks per file block: 1 or 8
  for (int r = 0; r < rows; ++r) {
    for (int b = 0; b < n_blocks; b += per_decode) {
      format.decode(raw + r * row_bytes + (first_block + b) / per_decode * format.bytes, codes);
      std::memcpy(chunk + 32 * b / per_decode + 2 * r, &codes.d, 2);
      if (layout.has_min) std::memcpy(chunk + 32 + 2 * r, &codes.minimum, 2);
      if (layout.two_level) {
        for (int s = 0; s < layout.subs(); ++s) {
          chunk[64 + s * kGroupRows + r] = static_cast<uint8_t>(codes.sub[s]);
          if (layout.has_min) chunk[64 + (layout.subs() + s) * kGroupRows + r] = codes.submin[s];
        }
      }
      for (int i = 0; i < per_decode; ++i) pack_block(layout.bits, codes.q + 32 * i, r, data + (b + i) * layout.block_bytes());
    }
  }
}

}  // namespace

void pack_weight(ThreadPool& pool, const BlockFormat& format, const uint8_t* raw, int64_t rows, int64_t cols, uint8_t* out) {
  const Layout& layout = kLayouts[format.layout];
  const int64_t row_bytes = cols / format.columns * format.bytes;
  const int64_t groups = (rows + kGroupRows - 1) / kGroupRows;
  pool.parallel_for(static_cast<int>(groups), [&](int g, int) {
    const int in_group = static_cast<int>(std::min<int64_t>(kGroupRows, rows - static_cast<int64_t>(g) * kGroupRows));
    const uint8_t* from = raw + static_cast<int64_t>(g) * kGroupRows * row_bytes;
    uint8_t* to = out + g * layout.group_bytes(cols);
    if (layout.is_float()) {
      (layout.bits == 32 ? pack_float_group<uint32_t> : pack_float_group<uint16_t>)(from, row_bytes, in_group, cols, to);
      return;
    }
    const int64_t blocks = cols / kBlockColumns;
    for (int64_t b = 0; b < blocks; b += layout.blocks()) {
      const int here = static_cast<int>(std::min<int64_t>(layout.blocks(), blocks - b));
      pack_chunk(format, layout, from, row_bytes, in_group, b, here, to + b / layout.blocks() * layout.chunk_bytes());
    }
  });
}

}  // namespace hw
