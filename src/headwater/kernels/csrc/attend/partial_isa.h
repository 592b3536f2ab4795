// One partial of attention: scores, weights and outputs of a few query rows over up to 256 stored positions, and how partials merge.
// Scores live in base 2: q is scaled by scale · log2(e) first.
#pragma once

#include <cmath>
#include <cstring>

#include "attend/attend.h"
#include "attend/hadamard_isa.h"
#include "attend/tiles_isa.h"
#include "common/simd16.h"

namespace hw {
namespace HW_ISA {

// Positions and channels of values that stay in the first-level cache while all rows pass over them.
constexpr int kHalf = kChunkTokens / 2, kSlabChannels = 64;
constexpr int kDirectRows = 2 * kRegisterRows;  // up to here blocks are converted in registers, above once into scratch

// The scratch of one task; rows is the tile's, rounded up to 16.
struct Work {
  float *q, *acc, *state;                    // [rows][head_dim], [rows][padded] twice
  float *top, *sum, *state_top, *state_sum;  // [rows]; sum 0 = no visible position
  float *old_factor, *new_factor;            // [rows] of a merge
  int *lo, *hi;                              // [rows] visible positions relative to the chunk
  float* scores;                             // [kScoreRows][kScoreStride]
  float *keys, *values;                      // [16][head_dim][16], [kChunkTokens][value_stride(padded)]
};

inline Work carve(float* scratch, int rows, int padded) {
  const int64_t r = (rows + 15) / 16 * 16;
  Work w;
  w.keys = scratch;
  w.values = w.keys + int64_t{kChunkTokens} * padded;
  w.scores = w.values + int64_t{kChunkTokens} * value_stride(padded);
  w.q = w.scores + int64_t{kScoreRows} * kScoreStride;
  w.acc = w.q + r * padded;
  w.state = w.acc + r * padded;
  w.top = w.state + r * padded;
  w.sum = w.top + r;
  w.state_top = w.sum + r;
  w.state_sum = w.state_top + r;
  w.old_factor = w.state_sum + r;
  w.new_factor = w.old_factor + r;
  w.lo = reinterpret_cast<int*>(w.new_factor + r);
  w.hi = w.lo + r;
  return w;
}

// The queries of one token and kv head, which lie at `from`, scaled and, for rotated formats, rotated.
inline void load_query(const AttendJob& job, const float* from, float* q) {
  const AttendSpec& spec = job.spec;
  const F32x16 scale = splat(spec.softcap > 0 ? spec.scale / spec.softcap : spec.scale * kLog2e);
  const int n = job.group * spec.head_dim;  // the heads of a group are neighbours
  for (int i = 0; i < n; i += kLanes) store_n(q + i, load_n(from + i, n - i) * scale, n - i);
  for (int i = 0; i < n && job.kv.rotated; i += spec.head_dim) hadamard(q + i, spec.head_dim);
}

inline void load_queries(const AttendJob& job, const AttendTile& tile, int kv_head, float* q) {
  const int n = job.group * job.spec.head_dim;
  for (int s = 0; s < tile.n_segments; ++s) {
    const TileSegment& segment = tile.segments[s];
    for (int t = 0; t < segment.count; ++t) {
      load_query(job, job.q + (segment.token + t) * job.q_stride + static_cast<int64_t>(kv_head) * n, q);
      q += n;
    }
  }
}

// Visible positions of every row of the tile relative to the chunk; lo == hi when it sees none.
inline void visible_rows(const AttendJob& job, const AttendTile& tile, int chunk, int* lo, int* hi) {
  const int base = chunk * kChunkTokens;
  int r = 0;
  for (int s = 0; s < tile.n_segments; ++s) {
    const TileSegment& segment = tile.segments[s];
    for (int t = 0; t < segment.count; ++t) {
      int from, to;
      visible_range(job.spec, segment.position + t, segment.end, from, to);
      from = from < base ? 0 : from - base;
      to = to < base ? 0 : to - base > kChunkTokens ? kChunkTokens : to - base;
      if (from > to) from = to;
      for (int g = 0; g < job.group; ++g, ++r) {
        lo[r] = from;
        hi[r] = to;
      }
    }
  }
}

// The maximum over the visible positions of one row; scores outside them become -inf in the blocks that the row touches.
HW_INLINE float peak_of(float* scores, int lo, int hi, float softcap) {
  const F32x16 nothing = splat(-HUGE_VALF);
  const int first = lo / kLanes, last = (hi - 1) / kLanes;
  F32x16 peak = nothing;
  for (int b = first; b <= last; ++b) {
    F32x16 s = load(scores + b * kLanes);
    if (softcap > 0 || b == first || b == last) {
      if (softcap > 0) s = tanh16(s) * splat(softcap * kLog2e);
      if (b == last) s = select(mask_first(hi - b * kLanes), s, nothing);
      if (b == first) s = select(mask_first(lo - b * kLanes), nothing, s);
      store(scores + b * kLanes, s);
    }
    peak = max(s, peak);
  }
  return fold_max(peak);
}

// Scores become weights 2^(score - top), 0 outside the visible positions; returns their sum in sixteen lanes, folded.
HW_INLINE float soften(float* scores, int lo, int hi, float top) {
  const F32x16 shift = splat(top);
  const int first = lo / kLanes, last = (hi - 1) / kLanes;
  F32x16 total = zero16();
  for (int b = first; b <= last; ++b) {
    F32x16 p = exp2_16(load(scores + b * kLanes) - shift);
    if (b == last) p = select(mask_first(hi - b * kLanes), p, zero16());
    if (b == first) p = select(mask_first(lo - b * kLanes), zero16(), p);
    store(scores + b * kLanes, p);
    total = total + p;
  }
  return fold_sum(total);
}

// Scores of rows [r0, r1) against blocks [b0, b1) of the chunk.
template <class Source>
inline void score_group(const AttendJob& job, const Work& w, int r0, int r1, const char* const* blocks, int b0, int b1) {
  const int step = vectors_for(r1 - r0 < kRegisterRows ? r1 - r0 : kRegisterRows);
  for (int b = b0; b < b1; b += step) {  // these blocks stay near while all rows pass over them
    const int nb = b + step < b1 ? step : b1 - b;
    for (int r = r0; r < r1; r += kRegisterRows) {
      const int n = r + kRegisterRows < r1 ? kRegisterRows : r1 - r;
      bool seen = false;
      for (int i = r; i < r + n; ++i) seen = seen || (w.lo[i] < (b + nb) * kLanes && w.hi[i] > b * kLanes && w.lo[i] < w.hi[i]);
      if (!seen) continue;
      score_rows<Source>(n, w.q + static_cast<int64_t>(r) * job.spec.head_dim, job.spec.head_dim, blocks + b, nb,
                         w.scores + (r - r0) * kScoreStride + b * kLanes);
    }
  }
}

// A piece of the chunk's values: positions [j0, j1), channels [c0, c1).
struct Slab {
  const char* const* blocks;
  int stride, j0, j1, c0, c1;
};

// Adds a slab to the outputs of rows [r, r + n): what all of them see together, the ragged ends one by one.
template <class Source>
inline void add_values(const AttendJob& job, const Work& w, int r, int n, const float* weights, const Slab& slab) {
  int common_lo = slab.j0, common_hi = slab.j1;
  for (int i = r; i < r + n; ++i) {
    common_lo = w.lo[i] > common_lo ? w.lo[i] : common_lo;
    common_hi = w.hi[i] < common_hi ? w.hi[i] : common_hi;
  }
  if (common_lo > common_hi) common_lo = common_hi = slab.j1;  // nothing in common: every row alone, in one piece
  const auto alone = [&](int i, int from, int to) {
    from = w.lo[i] > from ? w.lo[i] : from;
    to = w.hi[i] < to ? w.hi[i] : to;
    if (from < to) {
      value_rows<Source>(1, weights + (i - r) * kScoreStride, slab.blocks, slab.stride, from, to, slab.c0, slab.c1,
                         w.acc + static_cast<int64_t>(i) * job.padded, job.padded);
    }
  };
  for (int i = r; i < r + n && common_lo > slab.j0; ++i) alone(i, slab.j0, common_lo);
  if (common_lo < common_hi) {
    value_rows<Source>(n, weights, slab.blocks, slab.stride, common_lo, common_hi, slab.c0, slab.c1,
                       w.acc + static_cast<int64_t>(r) * job.padded, job.padded);
  }
  for (int i = r; i < r + n && common_hi < slab.j1; ++i) alone(i, common_hi, slab.j1);
}

// Rows whose best score in this chunk lies too far below their best so far (BLASST, 2512.12087): their weights are not computed, their sum is 0.
inline void leave_out(const AttendJob& job, const Work& w, int r0, int r1, bool* out) {
  int64_t all = 0, left = 0;
  for (int r = r0; r < r1; ++r) {
    if (w.lo[r] == w.hi[r]) continue;
    ++all;
    out[r - r0] = w.state_sum[r] != 0.0f && w.top[r] < w.state_top[r] + job.skip;
    left += out[r - r0];
  }
  if (!job.stats) return;
  __atomic_fetch_add(job.stats, all, __ATOMIC_RELAXED);
  __atomic_fetch_add(job.stats + 1, left, __ATOMIC_RELAXED);
}

inline bool all_out(const bool* out, int n) {
  for (int i = 0; i < n; ++i)
    if (!out[i]) return false;
  return true;
}

// The partial of rows [r0, r1), whose blocks in this chunk are the same, over blocks [b0, b1) of the chunk.
template <class Source>
inline void partial_group(const AttendJob& job, const Work& w, int r0, int r1, const char* const* keys, const char* const* values, int b0, int b1) {
  const int stride = Source::kScratch ? value_stride(job.padded) : job.spec.head_dim;
  for (; r0 < r1; r0 += kScoreRows) {
    const int stop = r0 + kScoreRows < r1 ? r0 + kScoreRows : r1;
    score_group<Source>(job, w, r0, stop, keys, b0, b1);
    for (int r = r0; r < stop; ++r) {
      if (w.lo[r] < w.hi[r]) w.top[r] = peak_of(w.scores + (r - r0) * kScoreStride, w.lo[r], w.hi[r], job.spec.softcap);
    }
    bool out[kScoreRows] = {};
    if (job.skip < 0) leave_out(job, w, r0, stop, out);
    for (int r = r0; r < stop; ++r) {
      const bool counts = w.lo[r] < w.hi[r] && !out[r - r0];
      w.sum[r] = counts ? soften(w.scores + (r - r0) * kScoreStride, w.lo[r], w.hi[r], w.top[r]) : 0.0f;
    }
    std::memset(w.acc + static_cast<int64_t>(r0) * job.padded, 0, static_cast<size_t>(stop - r0) * static_cast<size_t>(job.padded) * sizeof(float));
    for (int j = b0 * kLanes / kHalf * kHalf; j < b1 * kLanes; j += kHalf) {
      for (int c = 0; c < job.padded; c += kSlabChannels) {
        const Slab slab{values, stride, j, j + kHalf, c, c + kSlabChannels < job.padded ? c + kSlabChannels : job.padded};
        for (int r = r0; r < stop; r += kRegisterRows) {
          const int n = r + kRegisterRows < stop ? kRegisterRows : stop - r;
          if (job.skip < 0 && all_out(out + (r - r0), n)) continue;
          add_values<Source>(job, w, r, r + kRegisterRows < stop ? kRegisterRows : stop - r, w.scores + (r - r0) * kScoreStride, slab);
        }
      }
    }
  }
}

// Converts blocks [b0, b1) of the chunk to scratch, with the same arithmetic as reading them directly.
template <class Source>
inline void unpack(const AttendJob& job, const Work& w, const char** keys, const char** values, int b0, int b1) {
  const int dim = job.spec.head_dim, stride = value_stride(job.padded);
  for (int b = b0; b < b1; ++b) {
    for (int64_t i = 0; i < job.key_bytes; i += 64) prefetch(keys[b + kAhead] + i);
    for (int64_t i = 0; i < job.value_bytes; i += 64) prefetch(values[b + kAhead] + i);
    float* key = w.keys + static_cast<int64_t>(b) * dim * kLanes;
    for (int d0 = 0; d0 < dim; d0 += kQ8Channels) {
      const auto scale = Source::key_scale(keys[b], dim, d0);
      for (int d = d0; d < dim && d < d0 + kQ8Channels; ++d) store(key + d * kLanes, Source::key(keys[b], d, scale));
    }
    float* value = w.values + static_cast<int64_t>(b) * kBlockTokens * stride;
    for (int slot = 0; slot < kBlockTokens; ++slot, value += stride) {
      int c = 0;
      for (; c + kLanes <= dim; c += kLanes) store(value + c, Source::value(values[b], dim, slot, c, Source::value_scale(values[b], dim, slot, c)));
      if (c < dim) {  // the last eight channels: read a whole vector from a copy, not past the end of the cache
        alignas(64) char tail[2 * kLanes] = {};
        const int size = job.kv.format == kQ8 ? 1 : 2;
        std::memcpy(tail, values[b] + size * (slot * dim + c), static_cast<size_t>(size * (dim - c)));
        store(value + c, Source::value(tail, 0, 0, 0, Source::value_scale(values[b], dim, slot, c)));
      }
    }
    keys[b] = reinterpret_cast<const char*>(key);
    values[b] = reinterpret_cast<const char*>(value - static_cast<int64_t>(kBlockTokens) * stride);
  }
}

// next: the row's table entries after this chunk that will be read, or null.
template <class Source>
inline void partial_rows(const AttendJob& job, const Work& w, const int32_t* table, const int32_t* next, int r0, int r1, int kv_head, int b0, int b1) {
  const char *keys[kChunkBlocks + kAhead] = {}, *values[kChunkBlocks + kAhead] = {};
  for (int b = b0; b < b1; ++b) {
    keys[b] = key_block(job, table[b], kv_head);
    values[b] = value_block(job, table[b], kv_head);
  }
  const bool direct = r1 - r0 <= kDirectRows && job.padded == job.spec.head_dim;
  for (int i = 0; i < kAhead; ++i) {  // what is read after the last block: keys, then values, then the next chunk's keys
    const int32_t block = next ? next[i] : table[b1 - 1];
    keys[b1 + i] = direct ? values[b0 + i < b1 ? b0 + i : b1 - 1] : key_block(job, block, kv_head);
    values[b1 + i] = direct ? key_block(job, block, kv_head) : value_block(job, block, kv_head);
  }
  if (direct) return partial_group<Source>(job, w, r0, r1, keys, values, b0, b1);
  unpack<Source>(job, w, keys, values, b0, b1);
  partial_group<F32Source>(job, w, r0, r1, keys, values, b0, b1);
}

// One chunk for all rows of the tile, as group(table, next, r0, r1, b0, b1) for neighbouring segments with the same blocks (see partial_rows).
template <class Group>
inline void each_group(const AttendJob& job, const AttendTile& tile, const Work& w, int chunk, bool more, Group&& group) {
  visible_rows(job, tile, chunk, w.lo, w.hi);
  const auto table_of = [&](int s) {
    return job.kv.table + static_cast<int64_t>(tile.segments[s].row) * job.kv.table_width + chunk * kChunkBlocks;
  };
  for (int s = 0, r0 = 0; s < tile.n_segments;) {
    int r1 = r0, b0 = kChunkBlocks, b1 = 0, to = s;
    for (; to < tile.n_segments; ++to) {
      const int rows = tile.segments[to].count * job.group;
      int lo = kChunkTokens, hi = 0;
      for (int r = r1; r < r1 + rows; ++r) {
        if (w.lo[r] == w.hi[r]) continue;
        lo = w.lo[r] < lo ? w.lo[r] : lo;
        hi = w.hi[r] > hi ? w.hi[r] : hi;
      }
      const int from = lo / kLanes < b0 ? lo / kLanes : b0, upto = (hi + kLanes - 1) / kLanes > b1 ? (hi + kLanes - 1) / kLanes : b1;
      // both tables may be read over the union: an entry that one of them lacks differs from the other's block
      if (to > s && from < upto && tile.segments[to].row != tile.segments[s].row) {
        const int32_t *a = table_of(s), *b = table_of(to);
        const int width = job.kv.table_width - chunk * kChunkBlocks;
        bool same = upto <= width;
        for (int i = from; same && i < upto; ++i) same = a[i] == b[i];
        if (!same) break;
      }
      b0 = from;
      b1 = upto;
      r1 += rows;
    }
    if (b0 < b1) {
      const int32_t* table = table_of(s);
      const int32_t* next = more && (chunk + 1) * kChunkTokens + kAhead * kBlockTokens <= tile.segments[s].end ? table + kChunkBlocks : nullptr;
      group(table, next, r0, r1, b0, b1);
    } else {
      for (int r = r0; r < r1; ++r) w.sum[r] = 0.0f;
    }
    s = to;
    r0 = r1;
  }
}

inline void partial_chunk(const AttendJob& job, const AttendTile& tile, const Work& w, int kv_head, int chunk, bool more) {
  each_group(job, tile, w, chunk, more, [&](const int32_t* table, const int32_t* next, int r0, int r1, int b0, int b1) {
    with_source(job.kv.format, [&](auto source) { partial_rows<decltype(source)>(job, w, table, next, r0, r1, kv_head, b0, b1); });
  });
}

// state <- state + partial for `rows` rows, in position order: one call per chunk. Row r of the partials begins at acc + r * stride.
inline void merge_chunk(const Work& w, int rows, int padded, const float* acc, int64_t stride, const float* top, const float* sum) {
  for (int r = 0; r < rows; r += kLanes) {  // the arrays are padded to 16 rows; lanes without a partial are not used below
    const F32x16 old_top = load(w.state_top + r), new_top = load(top + r), peak = max(old_top, new_top);
    store(w.old_factor + r, exp2_16(old_top - peak));
    store(w.new_factor + r, exp2_16(new_top - peak));
  }
  for (int r = 0; r < rows; ++r) {
    if (sum[r] == 0.0f) continue;
    float* state = w.state + static_cast<int64_t>(r) * padded;
    const float* from = acc + r * stride;
    if (w.state_sum[r] == 0.0f) {
      std::memcpy(state, from, static_cast<size_t>(padded) * sizeof(float));
      w.state_top[r] = top[r];
      w.state_sum[r] = sum[r];
      continue;
    }
    const F32x16 a = splat(w.old_factor[r]), b = splat(w.new_factor[r]);
    for (int c = 0; c < padded; c += kLanes) store(state + c, fma(load(state + c), a, load(from + c) * b));
    w.state_top[r] = w.state_top[r] > top[r] ? w.state_top[r] : top[r];
    w.state_sum[r] = w.state_sum[r] * w.old_factor[r] + sum[r] * w.new_factor[r];
  }
}

inline void finish(const AttendJob& job, const AttendTile& tile, int kv_head, const Work& w) {
  const int dim = job.spec.head_dim;
  int r = 0;
  for (int s = 0; s < tile.n_segments; ++s) {
    const TileSegment& segment = tile.segments[s];
    for (int t = 0; t < segment.count; ++t) {
      const int64_t token = segment.token + t;
      for (int g = 0; g < job.group; ++g, ++r) {
        const int head = kv_head * job.group + g;
        float* out = job.out + token * job.out_stride + static_cast<int64_t>(head) * dim;
        const F32x16 inverse = splat(1.0f / w.state_sum[r]);
        for (int c = 0; c < dim; c += kLanes) store_n(out + c, load(w.state + static_cast<int64_t>(r) * job.padded + c) * inverse, dim - c);
        if (job.kv.rotated) hadamard(out, dim);
        if (job.lse) {
          job.lse[token * job.spec.heads + head] =
              static_cast<float>(0.69314718055994530942 * static_cast<double>(w.state_top[r]) + std::log(static_cast<double>(w.state_sum[r])));
        }
      }
    }
  }
}

// attend_task for queries that are loaded: partial(chunk, more) fills w.acc, w.top and w.sum.
template <class Partial>
inline void each_chunk(const AttendJob& job, const AttendTile& tile, const Work& w, int kv_head, int chunk_lo, int chunk_hi, float* partials,
                       Partial&& partial) {
  std::memset(w.state_sum, 0, static_cast<size_t>(tile.rows) * sizeof(float));
  const size_t row_bytes = static_cast<size_t>(tile.rows) * sizeof(float);
  for (int chunk = chunk_lo; chunk < chunk_hi; ++chunk) {
    partial(chunk, chunk + 1 < chunk_hi);
    if (!partials) {
      merge_chunk(w, tile.rows, job.padded, w.acc, job.padded, w.top, w.sum);
      continue;
    }
    float* to = partials + (chunk - tile.chunk_lo) * partial_floats(job, tile.rows);
    std::memcpy(to, w.acc, row_bytes * static_cast<size_t>(job.padded));
    to += static_cast<int64_t>(tile.rows) * job.padded;
    std::memcpy(to, w.top, row_bytes);
    std::memcpy(to + padded_rows(tile.rows), w.sum, row_bytes);
  }
  if (!partials) finish(job, tile, kv_head, w);
}


}  // namespace HW_ISA
}  // namespace hw
