// Attention in format i16 with products on matrix tiles.
#include "attend/i16_amx.h"

#include <immintrin.h>

#include "attend/i16_group_isa.h"
#include "common/tile_config.h"

namespace hw {
namespace amx {
namespace {

constexpr int kLeastRows = 8;  // below, most of a tile would be padding
constexpr int kTile = 16;

// Blocks [b0, b1) as signed bytes in the order of tile loads: keys [16 blocks][head_dim / 4][16 positions][4 channels], values
// [head_dim / 16][64][16 channels][4 positions], high, then low.
struct Panels {
  int8_t *keys, *values;
  int64_t plane;

  Panels(const Work& w, int dim)
      : keys(reinterpret_cast<int8_t*>(w.keys)), values(keys + 2 * int64_t{kChunkTokens} * dim), plane(int64_t{kChunkTokens} * dim) {}

  void fill(const CodeBlocks& blocks, int dim, int b0, int b1) const {
    const int64_t part = i16_plane(dim);
    const __m512i middle[2] = {_mm512_set1_epi8(static_cast<char>(128)), _mm512_set1_epi8(64)};
    for (int b = b0; b < b1; ++b) {
      for (int64_t i = 0; i < i16_block_bytes(dim); i += 64) {
        prefetch(blocks.keys[b + kAhead] + i);
        prefetch(blocks.values[b + kAhead] + i);
      }
      for (int half = 0; half < 2; ++half) {
        const char *key = blocks.keys[b] + half * part, *value = blocks.values[b] + half * part;
        int8_t *to_key = keys + half * plane + b * part, *to_value = values + half * plane + b * 256;
        for (int64_t i = 0; i < part; i += 64) _mm512_store_si512(to_key + i, _mm512_sub_epi8(_mm512_loadu_si512(key + i), middle[half]));
        for (int four = 0; four < 4; ++four)
          for (int c = 0; c < dim; c += kLanes) {
            _mm512_store_si512(to_value + c * kChunkTokens + four * 64, _mm512_loadu_si512(value + (four * int64_t{dim} + c) * 4));
          }
      }
    }
  }
};

// Tiles 0 and 1 and tiles 2 and 3: sums of high and of mixed products; 4, 5: rows; 6, 7: columns.
HW_INLINE void configure() {
  TileConfig config;
  for (int t = 0; t < 8; ++t) config.row_bytes[t] = 64, config.rows[t] = kTile;
  config.load();
}

// Names of tiles are parts of instructions: a pair of sums is chosen by a constant.
template <int PAIR>
HW_INLINE void clear() {
  if constexpr (PAIR == 0) {
    _tile_zero(0);
    _tile_zero(1);
  } else {
    _tile_zero(2);
    _tile_zero(3);
  }
}
// Six products of the rows in 4 and 5 in an order that leaves two others between two of one sum: a product takes about three of them to end.
HW_INLINE void multiply(const int8_t* first, const int8_t* second, int64_t plane) {
  _tile_loadd(6, first, 64);
  _tile_loadd(7, second, 64);
  _tile_dpbssd(1, 5, 6);
  _tile_dpbssd(3, 5, 7);
  _tile_dpbssd(0, 4, 6);
  _tile_loadd(6, first + plane, 64);
  _tile_dpbssd(1, 4, 6);
  _tile_loadd(6, second + plane, 64);
  _tile_dpbssd(3, 4, 6);
  _tile_dpbssd(2, 4, 7);
}
template <int PAIR>
HW_INLINE void put(void* high, void* mixed, int64_t stride) {
  if constexpr (PAIR == 0) {
    _tile_stored(0, high, stride);
    _tile_stored(1, mixed, stride);
  } else {
    _tile_stored(2, high, stride);
    _tile_stored(3, mixed, stride);
  }
}

struct TileProducts {
  static constexpr int kRows = kScoreRows;
  const AttendJob& job;
  const Work& w;
  const CodeWork& c;
  const Panels& panels;
  int b0, b1;

  // Sixteen rows and blocks b and b + 1; of the last block alone, the second half is not used. Row `at` of the sums is that of row r.
  HW_INLINE_MEMBER void multiply_keys(int r, int b, int at) const {
    const int dim = job.padded;
    clear<0>();
    clear<1>();
    for (int d = 0; d < dim; d += 64) {
      _tile_loadd(4, c.q.high(r) + d, c.q.stride);
      _tile_loadd(5, c.q.low(r) + d, c.q.stride);
      const int8_t *first = panels.keys + b * i16_plane(dim) + d * kLanes, *second = b + 1 < b1 ? first + i16_plane(dim) : first;
      multiply(first, second, panels.plane);
    }
    const int64_t to = at * kScoreStride + b * kLanes;
    put<0>(w.scores + to, c.mixed + to, kScoreStride * 4);
    if (b + 1 < b1) put<1>(w.scores + to + kLanes, c.mixed + to + kLanes, kScoreStride * 4);
  }
  // All products come first: vector work in between costs more than the way of the sums through the second-level cache.
  void scores(int r0, int r1) const {
    __asm__ volatile("" ::: "memory");  // tile loads do not tell the compiler what they read
    for (int b = b0; b < b1; b += 2) {  // these blocks stay near while all rows pass over them
      for (int r = r0; r < r1; r += kTile) {
        const int n = r + kTile < r1 ? kTile : r1 - r;
        if (any_sees(w, r, n, b, b + 2)) multiply_keys(r, b, r - r0);
      }
    }
    __asm__ volatile("" ::: "memory");
    lift_rows(job, w, c, r0, r1, [&](int64_t at, int b) {
      const __m512i high = _mm512_loadu_si512(w.scores + at), mixed = _mm512_loadu_si512(c.mixed + at);
      return F32x16{_mm512_cvtepi32_ps(_mm512_add_epi32(_mm512_slli_epi32(high, 7), mixed))} * load(c.chunk.key + b * kLanes);
    });
  }

  void values(int r0, int r1) const {
    const int dim = job.padded, from = b0 / 4 * 64, to = (b1 + 3) / 4 * 64;
    int32_t *high = c.sums, *mixed = c.sums + int64_t{kScoreRows} * dim;
    __asm__ volatile("" ::: "memory");
    for (int ch = 0; ch < dim; ch += 2 * kLanes) {
      for (int r = 0; r < r1 - r0; r += kTile) {
        clear<0>();
        clear<1>();
        for (int j = from; j < to; j += 64) {
          _tile_loadd(4, c.weights + r * kWeightStride + j, kWeightStride);
          _tile_loadd(5, c.weights + r * kWeightStride + kChunkTokens + j, kWeightStride);
          const int8_t *first = panels.values + int64_t{ch} * kChunkTokens + j * kLanes, *second = first + kChunkTokens * kLanes;
          multiply(first, second, panels.plane);
        }
        const int64_t at = r * int64_t{dim} + ch;
        put<0>(high + at, mixed + at, dim * 4);
        put<1>(high + at + kLanes, mixed + at + kLanes, dim * 4);
      }
    }
    __asm__ volatile("" ::: "memory");
    for (int r = 0; r < r1 - r0; ++r) {
      for (int ch = 0; ch < dim; ch += kLanes) {
        const int64_t at = r * int64_t{dim} + ch;
        const __m512i sum = _mm512_add_epi32(_mm512_slli_epi32(_mm512_loadu_si512(high + at), 7), _mm512_loadu_si512(mixed + at));
        store(w.acc + (r0 + r) * int64_t{dim} + ch, F32x16{_mm512_cvtepi32_ps(sum)});
      }
    }
  }
};

}  // namespace

void attend_i16(const AttendJob& job, const AttendTile& tile, int kv_head, int chunk_lo, int chunk_hi, float* partials, float* scratch) {
  const int dim = job.padded;
  if (dim % 64 || tile.rows < kLeastRows) return avx512::attend_i16(job, tile, kv_head, chunk_lo, chunk_hi, partials, scratch);
  configure();
  i16_task(job, tile, kv_head, chunk_lo, chunk_hi, partials, scratch,
           [&](const Work& w, CodeWork& c, const int32_t* table, const int32_t* next, int r0, int r1, int b0, int b1) {
             if (r1 - r0 < kLeastRows) return vector_rows(job, w, c, kv_head, table, next, r0, r1, b0, b1);
             const Panels panels(w, dim);
             const CodeBlocks blocks(job, table, next, kv_head, b0, b1);
             c.chunk.fill(blocks.keys, blocks.values, dim, b0, b1);
             panels.fill(blocks, dim, b0, b1);
             code_group(w, c, TileProducts{job, w, c, panels, b0, b1}, r0, r1, b0, b1);
           });
  _tile_release();
}

}  // namespace amx
}  // namespace hw
