// Prompts under a pattern: samples are kept, judge the keys before a tile, and queries read the blocks that were chosen.
#include "attend/pattern.h"

#include <cmath>
#include <cstring>

#include "attend/partial_isa.h"

namespace hw {
namespace HW_ISA {
namespace {

constexpr int64_t up16(int64_t n) { return (n + 15) / 16 * 16; }

uint16_t* sample_of(const AttendJob& job, const Pattern& pattern, int block, int head) {
  const int64_t layer = job.spec.layer - pattern.spec.dense_layers;
  return pattern.samples + ((layer * job.kv.n_blocks + block) * job.spec.heads + head) * job.padded;
}

// Sampled queries [samples][head_dim], scaled to base 2; at[i]: the position of each.
void load_samples(const AttendJob& job, const Pattern& pattern, const Judged& judged, int head, float* q, int* at) {
  const int dim = job.spec.head_dim, last = judged.start / kBlockTokens;
  const int32_t* table = job.kv.table + static_cast<int64_t>(judged.row) * job.kv.table_width;
  const F32x16 scale = splat(job.spec.scale * kLog2e);
  for (int i = 0; i < judged.samples; ++i) {
    const int block = last - judged.samples + i;
    const bool live = judged.token >= 0;
    const float* own = live ? job.q + (judged.token + i) * job.q_stride + static_cast<int64_t>(head) * dim : nullptr;
    const uint16_t* kept = live ? nullptr : sample_of(job, pattern, table[block], head);
    at[i] = live ? judged.start - judged.samples + i : block * kBlockTokens + sample_slot(block);
    for (int c = 0; c < dim; c += kLanes) {
      const F32x16 x = live ? load_n(own + c, dim - c) : load_f16(kept + c);
      store_n(q + static_cast<int64_t>(i) * dim + c, x * scale, dim - c);
    }
    if (job.kv.rotated) hadamard(q + static_cast<int64_t>(i) * dim, dim);
  }
}

// f(first block, blocks, pointers) over the keys before the tile, a chunk at a time.
template <class F>
void each_chunk(const AttendJob& job, const Judged& judged, int kv_head, int blocks, F&& f) {
  const int32_t* table = job.kv.table + static_cast<int64_t>(judged.row) * job.kv.table_width;
  const char* keys[kChunkBlocks + kAhead];
  for (int first = 0; first < blocks; first += kChunkBlocks) {
    const int n = first + kChunkBlocks < blocks ? kChunkBlocks : blocks - first;
    for (int b = 0; b < n + kAhead; ++b) keys[b] = key_block(job, table[first + b < blocks ? first + b : blocks - 1], kv_head);
    f(first, n, keys);
  }
}

// Mass by block and by distance, mean scores by block.
void weigh(const Judged& judged, const int* at, float* z, int64_t stride, int blocks, float* vertical, float* slash, float* pooled) {
  const float each = 1.0f / static_cast<float>(judged.samples);
  for (int i = 0; i < judged.samples; ++i, z += stride) {
    const int seen = at[i] + 1, own = at[i] / kBlockTokens;
    for (int b = 0; b <= own; ++b) {
      const int n = seen - b * kLanes < kLanes ? seen - b * kLanes : kLanes;
      pooled[b] += fold_sum(select(mask_first(n), load(z + b * kLanes), zero16())) / static_cast<float>(n);
    }
    const float top = peak_of(z, 0, seen, 0.0f), inverse = each / soften(z, 0, seen, top);
    const auto upto = mask_first(at[i] % kBlockTokens + 1);  // lanes whose distance is a whole number of blocks and what is left
    for (int b = 0; b <= own; ++b) {
      const F32x16 p = load(z + b * kLanes);
      const float far = fold_sum(select(upto, p, zero16())) * inverse, near = fold_sum(select(upto, zero16(), p)) * inverse;
      vertical[b] += far + near;
      slash[own - b] += far;
      if (b < own) slash[own - b - 1] += near;
    }
  }
  // samples before the last block saw fewer keys: what a block's mean counts is how many saw it
  for (int b = 0; b < blocks; ++b) {
    int saw = 0;
    for (int i = 0; i < judged.samples; ++i) saw += at[i] / kBlockTokens >= b;
    pooled[b] /= static_cast<float>(saw > 0 ? saw : 1);
  }
}

template <class Source>
void scan_rows(const AttendJob& job, const Judged& judged, int kv_head, const float* q, int blocks, float* z, int64_t stride, float* tile) {
  const int dim = job.spec.head_dim;
  each_chunk(job, judged, kv_head, blocks, [&](int first, int n, const char* const* keys) {
    for (int r = 0; r < judged.samples; r += kRegisterRows) {
      const int rows = r + kRegisterRows < judged.samples ? kRegisterRows : judged.samples - r;
      score_rows<Source>(rows, q + static_cast<int64_t>(r) * dim, dim, keys, n, tile);
      for (int i = 0; i < rows; ++i) {
        std::memcpy(z + (r + i) * stride + first * kLanes, tile + i * kScoreStride, static_cast<size_t>(n) * kLanes * sizeof(float));
      }
    }
  });
}

// Antidiagonals: sixteen neighbouring samples have sixteen residues, key l of a block meets the sample of residue 15 - l (XAttention, 2503.16428).
template <class Source>
void scan_antidiagonals(const AttendJob& job, const Judged& judged, int kv_head, const float* q, const int* at, int blocks, float* turned, float* row,
                        float* strided) {
  const int dim = job.spec.head_dim, sets = judged.samples / kLanes;
  for (int s = 0; s < sets; ++s) {
    for (int i = 0; i < kLanes; ++i) {
      const int lane = kLanes - 1 - at[s * kLanes + i] % kBlockTokens;
      for (int d = 0; d < dim; ++d) turned[(s * dim + d) * kLanes + lane] = q[(s * kLanes + i) * dim + d];
    }
  }
  const int before = at[0] / kBlockTokens;  // from the first sample's block on not every pair is causal; those keys are near and read anyway
  if (before <= 0 || sets == 0) return;
  const F32x16 share = splat(1.0f / kLanes);
  const int64_t stride = up16(blocks) + kLanes;
  each_chunk(job, judged, kv_head, before, [&](int first, int n, const char* const* keys) {
    for (int b = 0; b < n; ++b) {
      for (int s = 0; s < sets; ++s) {
        F32x16 sum = zero16();
        for (int d = 0; d < dim; ++d) {
          sum = fma(load(turned + (s * dim + d) * kLanes), Source::key(keys[b], d, Source::key_scale(keys[b], dim, d / kQ8Channels * kQ8Channels)), sum);
        }
        row[s * stride + first + b] = fold_sum(sum * share);
      }
    }
  });
  for (int s = 0; s < sets; ++s, row += stride) {
    const float inverse = 1.0f / (soften(row, 0, before, peak_of(row, 0, before, 0.0f)) * static_cast<float>(sets));
    for (int b = 0; b < before; ++b) strided[b] += row[b] * inverse;
  }
}

}  // namespace

void store_samples(const AttendJob& job, const Pattern& pattern, int row, int first, int last, int head) {
  const int dim = job.spec.head_dim;
  const int32_t* table = job.kv.table + static_cast<int64_t>(row) * job.kv.table_width;
  for (int t = first; t < last; ++t) {
    const int block = job.step.positions[t] / kBlockTokens;
    if (job.step.positions[t] % kBlockTokens != sample_slot(block)) continue;
    const float* q = job.q + t * job.q_stride + static_cast<int64_t>(head) * dim;
    uint16_t* to = sample_of(job, pattern, table[block], head);
    for (int c = 0; c < dim; c += kLanes) store_f16(to + c, load_n(q + c, dim - c));
  }
}

Evidence pattern_evidence(const AttendJob& job, const Pattern& pattern, const Judged& judged, int head, float* scratch) {
  const int dim = job.spec.head_dim, blocks = (judged.start + kBlockTokens - 1) / kBlockTokens, kv_head = head / job.group;
  const int64_t width = up16(blocks + 1), stride = int64_t{blocks + 1} * kBlockTokens;
  float *vertical = scratch, *slash = vertical + width, *pooled = slash + width, *strided = pooled + width, *q = strided + width;
  float* tile = q + up16(int64_t{judged.samples} * dim);
  float* z = tile + kRegisterRows * kScoreStride;
  std::memset(vertical, 0, 4 * static_cast<size_t>(width) * sizeof(float));
  int at[kMostSamples];
  load_samples(job, pattern, judged, head, q, at);
  with_source(job.kv.format, [&](auto source) {
    using Source = decltype(source);
    if (pattern.spec.kind == kXAttention) {
      float* turned = tile;
      return scan_antidiagonals<Source>(job, judged, kv_head, q, at, blocks, turned, turned + int64_t{judged.samples} * dim, strided);
    }
    scan_rows<Source>(job, judged, kv_head, q, blocks, z, stride, tile);
    weigh(judged, at, z, stride, blocks, vertical, slash, pooled);
  });
  return {blocks, vertical, slash, pooled, strided};
}

void pattern_task(const AttendJob& job, const TileSegment& segment, int head, const uint16_t* mask, float* scratch) {
  AttendJob one = job;  // of this head alone
  one.group = 1;
  one.q += static_cast<int64_t>(head) * job.spec.head_dim;
  one.out += static_cast<int64_t>(head) * job.spec.head_dim;
  if (one.lse) one.lse += head;
  const AttendTile tile{&segment, 1, segment.count, 0, (segment.position + segment.count - 1) / kChunkTokens + 1};
  const Work w = carve(scratch, tile.rows, job.padded);
  load_queries(one, tile, 0, w.q);
  std::memset(w.state_sum, 0, static_cast<size_t>(tile.rows) * sizeof(float));
  const int32_t* table = job.kv.table + static_cast<int64_t>(segment.row) * job.kv.table_width;
  for (int chunk = 0; chunk < tile.chunk_hi; ++chunk) {
    if (mask[chunk] == 0) continue;
    visible_rows(one, tile, chunk, w.lo, w.hi);
    const int seen = (w.hi[tile.rows - 1] + kBlockTokens - 1) / kBlockTokens;  // the last query sees most
    int32_t blocks[kChunkBlocks];
    int n = 0;
    for (int b = 0; b < seen; ++b) {
      if (mask[chunk] >> b & 1) blocks[n++] = table[chunk * kChunkBlocks + b];
    }
    if (n == 0) continue;
    // blocks that are left out lie before every query of the segment: what follows them moves up
    const int gone = (seen - n) * kBlockTokens;
    for (int r = 0; r < tile.rows && gone; ++r) w.hi[r] -= gone;
    with_source(job.kv.format, [&](auto source) { partial_rows<decltype(source)>(one, w, blocks, nullptr, 0, tile.rows, head / job.group, 0, n); });
    merge_chunk(w, tile.rows, job.padded, w.acc, job.padded, w.top, w.sum);
  }
  finish(one, tile, 0, w);
}

}  // namespace HW_ISA
}  // namespace hw
