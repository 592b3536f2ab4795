#include "linear/linear.h"

#include "common/simd16.h"
#include "linear/sink.h"
#include "linear/source.h"
#include "linear/tile.h"

namespace hw {
namespace HW_ISA {
namespace {

// Up to kDirectRows input rows, tiles of at most kDirectTokens read the packed layout directly (unpacking costs little next to the memory
// traffic); beyond, a panel of kPanelGroups groups is unpacked once and swept by tiles of kPanelTokens. Sizes fill the register file and
// never change bits.
#if defined(HW_ISA_avx512)
constexpr int kDirectRows = 16, kDirectTokens = 8, kPanelTokens = 6, kPanelGroups = 2;
#elif defined(HW_ISA_avx2)
constexpr int kDirectRows = 4, kDirectTokens = 4, kPanelTokens = 4, kPanelGroups = 1;
#else
constexpr int kDirectRows = 1, kDirectTokens = 1, kPanelTokens = 1, kPanelGroups = 1;
#endif
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

template <class P, int T>
HW_INLINE void panel_tile(const Sink& sink, const P* panels, int64_t blocks, int64_t group, int groups, int64_t row) {
  F32x16 sums[T][kPanelGroups];
  tile<P, T, kPanelGroups>(panels, blocks, sink.job.quant, row, sums);
  sink.put_tile(row, group, sums, groups);
}

// The last T or fewer rows.
template <class P, int T>
void sweep_rest(const Sink& sink, const P* panels, int64_t blocks, int64_t group, int groups, int64_t row, int64_t end) {
  if constexpr (T > 0) {
    if (end - row == T) {
      panel_tile<P, T>(sink, panels, blocks, group, groups, row);
    } else {
      sweep_rest<P, T - 1>(sink, panels, blocks, group, groups, row, end);
    }
  }
}

// Panels of one arithmetic kind over the input rows [row, end).
template <class P>
void sweep(const Sink& sink, const P* panels, int64_t blocks, int64_t group, int groups, int64_t row, int64_t end) {
  for (; row + kPanelTokens <= end; row += kPanelTokens) panel_tile<P, kPanelTokens>(sink, panels, blocks, group, groups, row);
  sweep_rest<P, kPanelTokens - 1>(sink, panels, blocks, group, groups, row, end);
}

template <int ID>
using PanelOf = Panel<Kind<kLayouts[ID].bits, kLayouts[ID].gran, kLayouts[ID].offset_log2, kLayouts[ID].has_min>>;

template <int ID>
void through_panels(const Sink& sink, int64_t first, int64_t end, int64_t row, int64_t row_end, uint8_t* scratch) {
  using P = PanelOf<ID>;
  const int64_t blocks = sink.part.cols / 32;
  for (int64_t group = first; group < end; group += kPanelGroups) {
    P panels[kPanelGroups];
    const int groups = end - group < kPanelGroups ? static_cast<int>(end - group) : kPanelGroups;
    for (int g = 0; g < kPanelGroups; ++g) {
      if (g >= groups) {
        panels[g] = panels[0];  // an odd last group is computed twice and stored once
        continue;
      }
      Packed<ID> source;
      source.base = sink.part.group(group + g);
      panels[g].place(scratch + g * P::bytes(blocks), blocks);
      panels[g].fill(source, blocks);
    }
    sweep<P>(sink, panels, blocks, group, groups, row, row_end);
  }
}

template <int ID>
void block_part(const Sink& sink, int64_t first, int64_t end, int64_t row, int64_t row_end, uint8_t* scratch) {
  if (row_end - row > kDirectRows) return through_panels<ID>(sink, first, end, row, row_end, scratch);
  for (int64_t tiles = (row_end - row + kDirectTokens - 1) / kDirectTokens; tiles > 0; --tiles) {  // tiles of nearly one size
    const int64_t next = row + (row_end - row + tiles - 1) / tiles;
    direct_rows<ID, kDirectTokens>(sink, first, end, row, next);
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
void float_part(const Sink& sink, int64_t first, int64_t end, int64_t row, int64_t row_end) {
  int64_t g = first;
  if (row_end - row == 1) {
    for (; g + 4 <= end; g += 4) float_rows<E, 4>(sink, g, row, row_end);
  }
  for (; g + 2 <= end; g += 2) float_rows<E, 2>(sink, g, row, row_end);
  for (; g < end; ++g) float_rows<E, 1>(sink, g, row, row_end);
}

void part_range(const Sink& sink, int64_t first, int64_t end, int64_t row, int64_t row_end, uint8_t* scratch) {
  switch (sink.part.layout) {
    case kPackedF32: return float_part<Element32>(sink, first, end, row, row_end);
    case kPackedF16: return float_part<ElementF16>(sink, first, end, row, row_end);
    case kPackedBF16: return float_part<ElementBF16>(sink, first, end, row, row_end);
    case kPackedQ8: return block_part<kPackedQ8>(sink, first, end, row, row_end, scratch);
    case kPackedQ4: return block_part<kPackedQ4>(sink, first, end, row, row_end, scratch);
    case kPackedQ4M: return block_part<kPackedQ4M>(sink, first, end, row, row_end, scratch);
    case kPackedQ5: return block_part<kPackedQ5>(sink, first, end, row, row_end, scratch);
    case kPackedQ5M: return block_part<kPackedQ5M>(sink, first, end, row, row_end, scratch);
    case kPackedQ8S: return block_part<kPackedQ8S>(sink, first, end, row, row_end, scratch);
    case kPackedQ4K: return block_part<kPackedQ4K>(sink, first, end, row, row_end, scratch);
    case kPackedQ5K: return block_part<kPackedQ5K>(sink, first, end, row, row_end, scratch);
    case kPackedQ6K: return block_part<kPackedQ6K>(sink, first, end, row, row_end, scratch);
    case kPackedQ2K: return block_part<kPackedQ2K>(sink, first, end, row, row_end, scratch);
    default: return;
  }
}

template <int ID>
void gather_block_row(const uint8_t* group, int lane, int64_t cols, float* out) {
  using P = PanelOf<ID>;
  Packed<ID> source;
  source.base = group;
  alignas(64) uint8_t memory[P::bytes(1)];
  P panel;
  panel.place(memory, 1);
  for (int64_t b = 0; b < cols / 32; ++b) {
    for (int p = 0; p < 4; ++p) {
      U8x64 w0, w1;
      source.pair(b, p, w0, w1);
      store_bytes(panel.codes + 128 * p, w0);
      store_bytes(panel.codes + 128 * p + 64, w1);
    }
    for (int c = 0; c < 32; ++c) {
      const int half = c / P::GRAN;
      float scale[kLanes], minimum[kLanes] = {};
      if (c % P::GRAN == 0) {
        store(panel.scales + half * kLanes, source.scale(b, half));
        if constexpr (P::HAS_MIN) store(panel.minima + half * kLanes, source.minimum(b, half));
      }
      scale[lane] = panel.scales[half * kLanes + lane];
      if constexpr (P::HAS_MIN) minimum[lane] = panel.minima[half * kLanes + lane];
      const int code = panel.codes[64 * (c / 4) + 4 * lane + c % 4] - kLayouts[ID].offset();
      const float value = static_cast<float>(code) * scale[lane];
      out[32 * b + c] = P::HAS_MIN ? value + minimum[lane] : value;
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
  const bool few = job.n <= kDirectRows;
  int64_t groups = 0;
  for (int p = 0; p < job.weight.n_parts; ++p) groups += job.weight.parts[p].groups();
  if (few) {  // units of 4 to 8 groups, as many as a multiple of the threads: a lone unit at the end would idle the others
    const int64_t units = job.threads * ((groups + 8 * job.threads - 1) / (8 * job.threads));
    const int64_t step = (groups + units - 1) / units;
    job.group_step = static_cast<int>(step < kStreams ? kStreams : step);
    job.chunk = job.n;
  } else {    // chunks of nearly one size, whole tiles each
    const int chunks = (job.n + kChunkTokens - 1) / kChunkTokens;
    job.group_step = 2 * kPanelGroups;
    job.chunk = ((job.n + chunks - 1) / chunks + kPanelTokens - 1) / kPanelTokens * kPanelTokens;
  }
  job.units_per_chunk = 0;
  for (int p = 0; p < job.weight.n_parts; ++p)
    job.units_per_chunk += static_cast<int>((job.weight.parts[p].groups() + job.group_step - 1) / job.group_step);
  job.scratch_bytes = few ? 0 : kPanelGroups * (job.weight.cols / 32) * (512 + 2 * 128);
}

void run_linear_unit(const LinearJob& job, int unit, uint8_t* scratch) {
  const int64_t row = static_cast<int64_t>(unit / job.units_per_chunk) * job.chunk;
  const int64_t row_end = row + job.chunk < job.n ? row + job.chunk : job.n;
  int64_t first = static_cast<int64_t>(unit % job.units_per_chunk) * job.group_step;
  for (int p = 0; p < job.weight.n_parts; ++p) {
    const PartView& part = job.weight.parts[p];
    const int64_t span = (part.groups() + job.group_step - 1) / job.group_step * job.group_step;
    if (first < span) {
      const int64_t end = first + job.group_step < part.groups() ? first + job.group_step : part.groups();
      part_range(Sink{job, part}, first, end, row, row_end, scratch);
      if (has_rest(job, part)) {
        const LinearJob rest = rest_of(job);
        part_range(Sink{rest, part}, first, end, row, row_end, scratch);
      }
      return;
    }
    first -= span;
  }
}

void run_linear_row(const LinearJob& job, const int32_t* ids, int n_ids, int j) {
  for (int p = 0; p < job.weight.n_parts; ++p) {
    PartView part = job.weight.parts[p];
    const int64_t in_part = ids[j] - part.first_row;
    if (in_part < 0 || in_part >= part.rows) continue;
    const int64_t group = in_part / kLanes;
    const int lane = static_cast<int>(in_part % kLanes);
    for (int i = 0; i < job.n; ++i) {
      float lanes[kLanes];
      LinearJob one = job;
      one.bias = nullptr;
      one.residual = nullptr;
      one.out = lanes - i * kLanes;  // the sink writes row i
      one.out_stride = kLanes;
      part.data = job.weight.parts[p].group(group);
      part.rows = kLanes;
      part.first_row = 0;
      part_range(Sink{one, part}, 0, 1, i, i + 1, nullptr);
      float value = job.bias ? lanes[lane] + job.bias[ids[j]] : lanes[lane];
      if (has_rest(job, part)) {
        one.quant = job.rest;
        part_range(Sink{one, part}, 0, 1, i, i + 1, nullptr);
        value = value + lanes[lane];
      }
      job.out[i * job.out_stride + j] = value;
    }
    return;
  }
  (void)n_ids;
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
