#include "linear/linear.h"

#include "common/simd16.h"
#include "linear/sink.h"
#include "linear/source.h"
#include "linear/tile.h"

namespace hw {
namespace HW_ISA {
namespace {

// Up to kDirectRows input rows, tiles of at most kDirectTokens read the packed layout directly (taking q apart costs little next to the memory
// traffic); beyond, a panel of kPanelGroups groups is unpacked once and swept by tiles of kPanelTokens. Sizes fill the register file and
// never change bits.
#if defined(HW_ISA_avx512)
constexpr int kDirectRows = 8, kDirectTokens = 8, kPanelTokens = 6, kPanelGroups = 2;
#elif defined(HW_ISA_avx2)
constexpr int kDirectRows = 2, kDirectTokens = 2, kPanelTokens = 4, kPanelGroups = 1;
#else
constexpr int kDirectRows = 1, kDirectTokens = 1, kPanelTokens = 1, kPanelGroups = 1;
#endif
static_assert(kDirectRows <= kMostDirectRows, "their sums of blocks are not there");
constexpr int kStreams = 4;        // groups that one thread streams at once: one stream gets half the bandwidth
constexpr int kChunkTokens = 240;  // activation rows that stay in L2 while all panels pass over them

struct Element32 {
  static constexpr int kBytes = 4;
  HW_INLINE F32x16 load16(const uint8_t* p) { return load(reinterpret_cast<const float*>(p)); }
};
struct ElementF16 {
  static constexpr int kBytes = 2;
  HW_INLINE F32x16 load16(const uint8_t* p) { return load_f16(reinterpret_cast<const uint16_t*>(p)); }
};
struct ElementBF16 {
  static constexpr int kBytes = 2;
  HW_INLINE F32x16 load16(const uint8_t* p) { return load_bf16(reinterpret_cast<const uint16_t*>(p)); }
};

template <int ID, int T, int G>
void direct(const Sink& sink, int64_t group, int64_t row) {
  Packed<ID> source[G];
  for (int g = 0; g < G; ++g) source[g].base = sink.part.group(group + g);
  F32x16 sums[T][G];
  tile<Packed<ID>, T, G>(source, sink.part.cols / 32, sink.job.quant, row, sums);
  sink.put_tile(row, group, sums);
}

template <int ID, int T>
void direct_groups(const Sink& sink, int64_t first, int64_t end, int64_t row) {
  constexpr int G = kDirectTokens == 1 ? 1 : T <= 2 ? kStreams : T <= 4 ? kStreams / 2 : 1;
  int64_t g = first;
  for (; g + G <= end; g += G) direct<ID, T, G>(sink, g, row);
  for (; g < end; ++g) direct<ID, T, 1>(sink, g, row);
}

template <int ID, int T>
void direct_rows(const Sink& sink, int64_t first, int64_t end, int64_t row, int64_t row_end) {
  if constexpr (T > 0) {
    if (row_end - row == T) {
      direct_groups<ID, T>(sink, first, end, row);
    } else {
      direct_rows<ID, T - 1>(sink, first, end, row, row_end);
    }
  }
}

template <int T>
HW_INLINE void panel_tile(const Sink& sink, const Panel* panels, int64_t group, int groups, int64_t row) {
  const QuantRows& quant = sink.job.quant;
  const int16_t* pairs = reinterpret_cast<const int16_t*>(sink.job.packed) + row * quant.cols;
  F32x16 sums[T][kPanelGroups];
  tile_of_panels<T, kPanelGroups>(panels, quant.cols / 32, pairs, quant.scales + row * quant.spans(), sums);
  sink.put_tile(row, group, sums, groups);
}

// The last T or fewer rows.
template <int T>
void sweep_rest(const Sink& sink, const Panel* panels, int64_t group, int groups, int64_t row, int64_t end) {
  if constexpr (T > 0) {
    if (end - row == T) {
      panel_tile<T>(sink, panels, group, groups, row);
    } else {
      sweep_rest<T - 1>(sink, panels, group, groups, row, end);
    }
  }
}

// Whole codes over the input rows [row, end).
void sweep(const Sink& sink, const Panel* panels, int64_t group, int groups, int64_t row, int64_t end) {
  for (; row + kPanelTokens <= end; row += kPanelTokens) panel_tile<kPanelTokens>(sink, panels, group, groups, row);
  sweep_rest<kPanelTokens - 1>(sink, panels, group, groups, row, end);
}

template <int ID>
void through_panels(const Sink& sink, const Piece& piece, uint8_t* scratch) {
  const int64_t blocks = sink.part.cols / 32;
  for (int64_t group = piece.first; group < piece.end; group += kPanelGroups) {
    Panel panels[kPanelGroups];
    const int groups = piece.end - group < kPanelGroups ? static_cast<int>(piece.end - group) : kPanelGroups;
    for (int g = 0; g < kPanelGroups; ++g) {
      if (g >= groups) {
        panels[g] = panels[0];  // an odd last group is computed twice and stored once
        continue;
      }
      Packed<ID> source;
      source.base = sink.part.group(group + g);
      panels[g].place(scratch + g * Panel::bytes(blocks), blocks);
      panels[g].fill(source, blocks);
    }
    sweep(sink, panels, group, groups, piece.row, piece.row_end);
  }
}

template <int ID>
void block_part(const Sink& sink, const Piece& piece, uint8_t* scratch) {
  if (sink.job.packed) return through_panels<ID>(sink, piece, scratch);
  int64_t row = piece.row;
  for (int64_t tiles = (piece.row_end - row + kDirectTokens - 1) / kDirectTokens; tiles > 0; --tiles) {  // tiles of nearly one size
    const int64_t next = row + (piece.row_end - row + tiles - 1) / tiles;
    direct_rows<ID, kDirectTokens>(sink, piece.first, piece.end, row, next);
    row = next;
  }
}

template <class E, int T, int G>
HW_INLINE void float_tile(const Sink& sink, int64_t group, int64_t row) {
  const uint8_t* groups[G];
  for (int g = 0; g < G; ++g) groups[g] = sink.part.group(group + g);
  F32x16 sums[T][G];
  tile_float<E, T, G>(groups, sink.part.cols, sink.job.x + row * sink.job.x_stride, sink.job.x_stride, sums);
  sink.put_tile(row, group, sums);
}

template <class E, int G>
void float_rows(const Sink& sink, int64_t group, int64_t row, int64_t row_end) {
  constexpr int T = G == 4 ? 1 : kPanelTokens;
  for (; row + T <= row_end; row += T) float_tile<E, T, G>(sink, group, row);
  for (; row < row_end; ++row) float_tile<E, 1, G>(sink, group, row);
}

template <class E>
void float_part(const Sink& sink, const Piece& piece) {
  int64_t g = piece.first;
  if (piece.row_end - piece.row == 1) {
    for (; g + 4 <= piece.end; g += 4) float_rows<E, 4>(sink, g, piece.row, piece.row_end);
  }
  for (; g + 2 <= piece.end; g += 2) float_rows<E, 2>(sink, g, piece.row, piece.row_end);
  for (; g < piece.end; ++g) float_rows<E, 1>(sink, g, piece.row, piece.row_end);
}

void part_range(const Sink& sink, const Piece& piece, uint8_t* scratch) {
  switch (sink.part.layout) {
    case kPackedF32: return float_part<Element32>(sink, piece);
    case kPackedF16: return float_part<ElementF16>(sink, piece);
    case kPackedBF16: return float_part<ElementBF16>(sink, piece);
    case kPackedQ8: return block_part<kPackedQ8>(sink, piece, scratch);
    case kPackedQ4: return block_part<kPackedQ4>(sink, piece, scratch);
    case kPackedQ4M: return block_part<kPackedQ4M>(sink, piece, scratch);
    case kPackedQ5: return block_part<kPackedQ5>(sink, piece, scratch);
    case kPackedQ5M: return block_part<kPackedQ5M>(sink, piece, scratch);
    case kPackedQ8S: return block_part<kPackedQ8S>(sink, piece, scratch);
    case kPackedQ4K: return block_part<kPackedQ4K>(sink, piece, scratch);
    case kPackedQ5K: return block_part<kPackedQ5K>(sink, piece, scratch);
    case kPackedQ6K: return block_part<kPackedQ6K>(sink, piece, scratch);
    case kPackedQ2K: return block_part<kPackedQ2K>(sink, piece, scratch);
    default: return;
  }
}

template <int ID>
void gather_block_row(const uint8_t* group, int lane, int64_t cols, float* out) {
  using P = Packed<ID>;
  P source;
  source.base = group;
  for (int64_t b = 0; b < cols / 32; ++b) {
    alignas(64) uint8_t codes[512];
    float scales[2][kLanes], minima[2][kLanes] = {};
    for (int p = 0; p < 4; ++p) {
      U8x64 w0, w1;
      source.pair(b, p, w0, w1);
      store_bytes(codes + 128 * p, w0);
      store_bytes(codes + 128 * p + 64, w1);
    }
    for (int half = 0; half < P::HALVES; ++half) {
      store(scales[half], source.scale(b, half));
      if constexpr (P::HAS_MIN) store(minima[half], source.minimum(b, half));
    }
    for (int c = 0; c < 32; ++c) {
      const int half = c / P::GRAN;
      const float value = static_cast<float>(codes[64 * (c / 4) + 4 * lane + c % 4] - P::L.offset()) * scales[half][lane];
      out[32 * b + c] = P::HAS_MIN ? value + minima[half][lane] : value;
    }
  }
}

template <class E>
void gather_float_row(const uint8_t* group, int lane, int64_t cols, float* out) {
  for (int64_t k = 0; k < cols; ++k) {
    float lanes[kLanes];
    store(lanes, E::load16(group + k * kLanes * E::kBytes));
    out[k] = lanes[lane];
  }
}

}  // namespace

void plan_linear(LinearJob& job) {
  if (job.n <= kDirectRows) {  // units of 4 to 8 groups, as many as a multiple of the threads: a lone unit at the end would idle the others
    int64_t groups = 0;
    for (int p = 0; p < job.weight.n_parts; ++p) groups += job.weight.parts[p].groups();
    const int64_t units = job.threads * ((groups + 8 * job.threads - 1) / (8 * job.threads));
    const int64_t step = (groups + units - 1) / units;
    return job.cut(static_cast<int>(step < kStreams ? kStreams : step), job.n);
  }
  const int chunks = (job.n + kChunkTokens - 1) / kChunkTokens;  // of nearly one size, whole tiles each
  job.cut(2 * kPanelGroups, ((job.n + chunks - 1) / chunks + kPanelTokens - 1) / kPanelTokens * kPanelTokens);
  if (!job.quant.high) return;
  job.scratch_bytes = kPanelGroups * Panel::bytes(job.weight.cols / 32);
  job.packed_bytes = kLanes * job.weight.cols * static_cast<int64_t>(sizeof(int16_t));
}

void pack_rows(const QuantRows& rows, int64_t n, int64_t tile, uint8_t* to) {
  auto* out = reinterpret_cast<int16_t*>(to);
  for (int64_t i = kLanes * tile; i < n && i < kLanes * (tile + 1); ++i) {
    const int8_t *high = rows.high + i * rows.cols, *low = rows.low + i * rows.cols;
    for (int64_t c = 0; c < rows.cols; c += 4, out += 4) {
      const auto code = [&](int64_t k) { return static_cast<int16_t>(128 * high[c + k] + low[c + k]); };
      out[0] = code(0);
      out[1] = code(2);
      out[2] = code(1);
      out[3] = code(3);
    }
  }
}

void run_linear_unit(const LinearJob& job, int unit, uint8_t* scratch) {
  const Piece piece = locate(job, unit);
  part_range(Sink{job, *piece.part}, piece, scratch);
}

void run_linear_row(const LinearJob& job, const int32_t* ids, int j) {
  for (int p = 0; p < job.weight.n_parts; ++p) {
    PartView part = job.weight.parts[p];
    const int64_t in_part = ids[j] - part.first_row;
    if (in_part < 0 || in_part >= part.rows) continue;
    const int64_t group = in_part / kLanes;
    const int lane = static_cast<int>(in_part % kLanes);
    part.data = part.group(group);
    part.rows = kLanes;
    part.first_row = 0;
    LinearJob one = job;
    one.bias = nullptr;
    one.residual = nullptr;
    one.out_stride = kLanes;
    for (int i = 0; i < job.n; ++i) {
      float lanes[kLanes];
      one.out = lanes - i * kLanes;  // the sink writes row i
      part_range(Sink{one, part}, {&part, 0, 1, i, i + 1}, nullptr);
      job.out[i * job.out_stride + j] = job.bias ? lanes[lane] + job.bias[ids[j]] : lanes[lane];
    }
    return;
  }
}

void gather_row(const WeightView& weight, int64_t id, float* out) {
  for (int p = 0; p < weight.n_parts; ++p) {
    const PartView& part = weight.parts[p];
    const int64_t in_part = id - part.first_row;
    if (in_part < 0 || in_part >= part.rows) continue;
    const uint8_t* group = part.group(in_part / kLanes);
    const int lane = static_cast<int>(in_part % kLanes);
    switch (part.layout) {
      case kPackedF32: return gather_float_row<Element32>(group, lane, part.cols, out);
      case kPackedF16: return gather_float_row<ElementF16>(group, lane, part.cols, out);
      case kPackedBF16: return gather_float_row<ElementBF16>(group, lane, part.cols, out);
      case kPackedQ8: return gather_block_row<kPackedQ8>(group, lane, part.cols, out);
      case kPackedQ4: return gather_block_row<kPackedQ4>(group, lane, part.cols, out);
      case kPackedQ4M: return gather_block_row<kPackedQ4M>(group, lane, part.cols, out);
      case kPackedQ5: return gather_block_row<kPackedQ5>(group, lane, part.cols, out);
      case kPackedQ5M: return gather_block_row<kPackedQ5M>(group, lane, part.cols, out);
      case kPackedQ8S: return gather_block_row<kPackedQ8S>(group, lane, part.cols, out);
      case kPackedQ4K: return gather_block_row<kPackedQ4K>(group, lane, part.cols, out);
      case kPackedQ5K: return gather_block_row<kPackedQ5K>(group, lane, part.cols, out);
      case kPackedQ6K: return gather_block_row<kPackedQ6K>(group, lane, part.cols, out);
      case kPackedQ2K: return gather_block_row<kPackedQ2K>(group, lane, part.cols, out);
      default: return;
    }
  }
}

}  // namespace HW_ISA
}  // namespace hw
