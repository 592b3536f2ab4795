// Products of many rows on AMX tiles: exact integer dots of a block by the tile unit, then the float step of ADR 001 in the same order as
// every other path. One tile is 16 input rows x 16 output rows x 32 columns (16 where scales stand per 16 columns).
//
// The tile unit and the vector unit share an execution port: while tiles are in flight, 512-bit arithmetic runs on one port instead of two
// (measured on Sapphire Rapids, and for about half a microsecond afterwards). So the tile of the next block is computed behind the float
// step of this one, which then is the only cost.
#include <immintrin.h>

#include <cstring>

#include "common/simd16.h"
#include "linear/linear.h"
#include "linear/sink.h"
#include "linear/source.h"
#include "linear/tiles.h"

namespace hw {
namespace amx {
namespace {

constexpr int kLeastRows = 24;     // below, the last tile would be mostly padding and unpacking is not paid back
constexpr int kChunkTokens = 240;  // input rows that stay in L2 while all groups pass over them
constexpr int kGroupStep = 4;

constexpr int64_t panel_bytes(int64_t blocks) { return blocks * (512 + 2 * 128); }

struct alignas(64) TileConfig {
  uint8_t palette = 1, start = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};

// Tiles 0, 1: sums; 4, 6: input rows; 5, 7: weights, four columns a row.
void configure(int columns) {
  TileConfig config;
  for (int t : {0, 1}) config.row_bytes[t] = 64, config.rows[t] = 16;
  for (int t : {4, 6}) config.row_bytes[t] = static_cast<uint16_t>(columns), config.rows[t] = 16;
  for (int t : {5, 7}) config.row_bytes[t] = 64, config.rows[t] = static_cast<uint8_t>(columns / 4);
  __asm__ volatile("ldtilecfg %0" ::"m"(config));  // all of it: gcc's intrinsic names only the first eight bytes
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
void tile_product(const TileBlock* rows, const SignedPanel<ID> panel, int64_t blocks, float* out) {
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

// At most kGroupStep groups: their panels are unpacked once, then every tile of input rows meets all of them, so that neighbouring columns of
// a row are written together.
template <int ID>
void block_part(const Sink& sink, const uint8_t* tiles, int64_t first, int64_t end, int64_t row, int64_t row_end, uint8_t* scratch) {
  const int64_t blocks = sink.part.cols / 32;
  configure(kLayouts[ID].gran);
  for (int64_t g = first; g < end; ++g) SignedPanel<ID>(scratch + (g - first) * panel_bytes(blocks), blocks).fill(sink.part.group(g), blocks);
  __asm__ volatile("" ::: "memory");  // tile loads do not tell the compiler what they read
  for (int64_t r = row; r < row_end; r += kTileRows) {
    alignas(64) float sums[kGroupStep][kTileRows * kLanes];
    const auto* at = reinterpret_cast<const TileBlock*>(tiles) + r / kTileRows * blocks;
    for (int64_t g = first; g < end; ++g) tile_product<ID>(at, SignedPanel<ID>(scratch + (g - first) * panel_bytes(blocks), blocks), blocks, sums[g - first]);
    const int64_t rows = row_end - r < kTileRows ? row_end - r : kTileRows;
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t g = first; g < end; ++g) sink.put(r + i, g, load(sums[g - first] + i * kLanes));
  }
  _tile_release();
}

void part_range(const Sink& sink, const uint8_t* tiles, int64_t first, int64_t end, int64_t row, int64_t row_end, uint8_t* scratch) {
  switch (sink.part.layout) {
    case kPackedQ8: return block_part<kPackedQ8>(sink, tiles, first, end, row, row_end, scratch);
    case kPackedQ4: return block_part<kPackedQ4>(sink, tiles, first, end, row, row_end, scratch);
    case kPackedQ4M: return block_part<kPackedQ4M>(sink, tiles, first, end, row, row_end, scratch);
    case kPackedQ5: return block_part<kPackedQ5>(sink, tiles, first, end, row, row_end, scratch);
    case kPackedQ5M: return block_part<kPackedQ5M>(sink, tiles, first, end, row, row_end, scratch);
    case kPackedQ8S: return block_part<kPackedQ8S>(sink, tiles, first, end, row, row_end, scratch);
    case kPackedQ4K: return block_part<kPackedQ4K>(sink, tiles, first, end, row, row_end, scratch);
    case kPackedQ5K: return block_part<kPackedQ5K>(sink, tiles, first, end, row, row_end, scratch);
    case kPackedQ6K: return block_part<kPackedQ6K>(sink, tiles, first, end, row, row_end, scratch);
    case kPackedQ2K: return block_part<kPackedQ2K>(sink, tiles, first, end, row, row_end, scratch);
    default: return;
  }
}

}  // namespace

bool wants_halves(const WeightView& weight) {
  for (int p = 0; p < weight.n_parts; ++p)
    if (kLayouts[weight.parts[p].layout].gran == 16) return true;
  return false;
}

bool takes(const LinearJob& job) { return job.n >= kLeastRows && job.quant.q != nullptr; }

void plan_linear(LinearJob& job) {
  const int chunks = (job.n + kChunkTokens - 1) / kChunkTokens;
  job.group_step = kGroupStep;
  job.chunk = ((job.n + chunks - 1) / chunks + kTileRows - 1) / kTileRows * kTileRows;
  job.units_per_chunk = 0;
  for (int p = 0; p < job.weight.n_parts; ++p)
    job.units_per_chunk += static_cast<int>((job.weight.parts[p].groups() + job.group_step - 1) / job.group_step);
  job.scratch_bytes = kGroupStep * panel_bytes(job.weight.cols / 32);
}

void run_linear_unit(const LinearJob& job, int unit, uint8_t* scratch) {
  const int64_t row = static_cast<int64_t>(unit / job.units_per_chunk) * job.chunk;
  const int64_t row_end = row + job.chunk < job.n ? row + job.chunk : job.n;
  int64_t first = static_cast<int64_t>(unit % job.units_per_chunk) * job.group_step;
  for (int p = 0; p < job.weight.n_parts; ++p) {
    const PartView& part = job.weight.parts[p];
    const int64_t span = (part.groups() + job.group_step - 1) / job.group_step * job.group_step;
    if (first >= span) {
      first -= span;
      continue;
    }
    if (kLayouts[part.layout].is_float()) return avx512::run_linear_unit(job, unit, scratch);  // the same unit, on vectors
    const int64_t end = first + job.group_step < part.groups() ? first + job.group_step : part.groups();
    part_range(Sink{job, part}, job.tiles, first, end, row, row_end, scratch);
    if (has_rest(job, part)) {
      const LinearJob rest = rest_of(job);
      part_range(Sink{rest, part}, job.rest_tiles, first, end, row, row_end, scratch);
    }
    return;
  }
}

void pack_tile(const QuantRows& rows, int64_t n, int64_t tile, bool halves, uint8_t* to) {
  auto* out = reinterpret_cast<TileBlock*>(to);
  const int64_t blocks = rows.cols / 32, first = tile * kTileRows, left = n - first;
  const int count = left < kTileRows ? static_cast<int>(left) : kTileRows;
  if (count < kTileRows) std::memset(to, 0, static_cast<size_t>(tile_bytes(rows.cols)));
  const __mmask16 there = mask_first(count).m;
  const __m512i stride = _mm512_mullo_epi32(_mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0),
                                            _mm512_set1_epi32(static_cast<int>(blocks * (sizeof(BlockMeta) / 4))));
  for (int64_t b = 0; b < blocks; ++b) {
    for (int i = 0; i < count; ++i) std::memcpy(out[b].q[i], rows.row(first + i) + 32 * b, 32);
    const BlockMeta* meta = rows.row_meta(first) + b;
    const auto column = [&](const void* field) { return _mm512_mask_i32gather_epi32(_mm512_setzero_si512(), there, stride, field, 4); };
    const F32x16 scale{_mm512_castsi512_ps(column(&meta->scale))};
    store(out[b].scale, scale);
    store(out[b].sums[0], F32x16{_mm512_castsi512_ps(column(&meta->scaled_sum))});
    if (!halves) continue;
    const __m512i negative_half = column(&meta->negative_half), negative_sum = column(&meta->negative_sum), zero = _mm512_setzero_si512();
    store(out[b].sums[1], scale * to_float(I32x16{_mm512_sub_epi32(zero, negative_half)}));
    store(out[b].sums[2], scale * to_float(I32x16{_mm512_sub_epi32(negative_half, negative_sum)}));
  }
}

}  // namespace amx
}  // namespace hw
