// Products of many rows on AMX tiles.
#include <immintrin.h>

#include <cstring>

#include "common/simd16.h"
#include "linear/linear.h"
#include "linear/sink.h"
#include "linear/tile_amx.h"

namespace hw {
namespace amx {
namespace {

constexpr int kLeastRows = 24;     // below, the last tile would be mostly padding and unpacking is not paid back
constexpr int kChunkTokens = 240;  // input rows that stay in L2 while all groups pass over them
constexpr int kGroupStep = 4;

// At most kGroupStep groups: their panels are unpacked once, then every tile of input rows meets all of them, so that neighbouring columns of
// a row are written together.
template <int ID>
void block_part(const Sink& sink, const uint8_t* tiles, int64_t first, int64_t end, int64_t row, int64_t row_end, uint8_t* scratch) {
  const int64_t blocks = sink.part.cols / 32;
  configure(kLayouts[ID].gran);
  for (int64_t g = first; g < end; ++g) SignedPanel<ID>(scratch + (g - first) * panel_bytes(blocks), blocks).fill(sink.part.group(g), blocks);
  __asm__ volatile("" ::: "memory");  // tile loads do not tell the compiler what they read
  // The packed bytes of the groups after these are asked for bit by bit behind the products: unpacking would wait for memory otherwise.
  const int64_t next_end = end + kGroupStep < sink.part.groups() ? end + kGroupStep : sink.part.groups();
  const uint8_t *next = sink.part.group(end), *const next_stop = sink.part.group(next_end);
  const int64_t products = (end - first) * ((row_end - row + kTileRows - 1) / kTileRows);
  const int64_t share = ((next_stop - next) / products + 63) / 64 * 64;
  for (int64_t r = row; r < row_end; r += kTileRows) {
    alignas(64) float sums[kGroupStep][kTileRows * kLanes];
    const auto* at = reinterpret_cast<const TileBlock*>(tiles) + r / kTileRows * blocks;
    const int64_t rows = row_end - r < kTileRows ? row_end - r : kTileRows;
    for (int64_t g = first; g < end; ++g) {
      sink.ahead(r, rows, g);
      for (const uint8_t* stop = next + share < next_stop ? next + share : next_stop; next < stop; next += 64) __builtin_prefetch(next, 0, 2);
      tile_product<ID>(at, SignedPanel<ID>(scratch + (g - first) * panel_bytes(blocks), blocks), blocks, sums[g - first]);
    }
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
