// One chunk of attention in format i16 for rows that share blocks. `Products` says who multiplies codes: vectors (i16_task_isa.cpp) or matrix
// tiles (i16_amx.cpp); everything else, and every bit, is the same.
#pragma once

#include "attend/i16_soften_isa.h"

namespace hw {
namespace HW_ISA {

// The scratch of a task beyond that of Work, whose keys and values become the panels of matrix tiles.
struct CodeWork {
  QueryCodes q;
  ChunkScales chunk;
  int8_t* weights;  // [kScoreRows][kWeightStride]
  int32_t* mixed;   // [kScoreRows][kScoreStride]
  int32_t* sums;    // [2][kScoreRows][padded]
};

inline CodeWork carve_codes(const Work& w, float* scratch, int rows, int padded) {
  CodeWork c;
  c.q = {reinterpret_cast<char*>(w.q), int64_t{4} * padded, padded};  // codes take the place of the queries, row by row
  float* at = scratch + attend_scratch(rows, padded);
  c.chunk.key = at;
  c.chunk.exponent = at + kChunkTokens;
  c.chunk.inverse = at + 2 * kChunkTokens;
  c.mixed = reinterpret_cast<int32_t*>(at + 3 * kChunkTokens);
  c.sums = c.mixed + int64_t{kScoreRows} * kScoreStride;
  c.weights = reinterpret_cast<int8_t*>(c.sums + int64_t{2} * kScoreRows * padded);
  return c;
}

inline void code_queries(const QueryCodes& q, int rows) {
  for (int r = 0; r < rows; ++r) {
    alignas(64) float x[kI16Widest];
    std::memcpy(x, q.high(r), static_cast<size_t>(q.n) * sizeof(float));
    CodeSums sums;
    const float scale = 128.0f * scaled_codes(x, q.n, {}, q.high(r), q.low(r), sums);
    q.meta(r) = {scale, -sum_lanes(sums.high), -sum_lanes(sums.low)};
  }
}

// Does one of n rows see something of blocks [from, to)?
HW_INLINE bool any_sees(const Work& w, int r, int n, int from, int to) {
  for (int i = r; i < r + n; ++i)
    if (w.lo[i] < to * kLanes && w.hi[i] > from * kLanes && w.lo[i] < w.hi[i]) return true;
  return false;
}

// w.scores becomes u (i16_soften_isa.h) in all blocks that a row touches, w.top its maximum. score(offset into w.scores, block): products of codes
// times the keys' scales.
template <class Score>
HW_INLINE void lift_rows(const AttendJob& job, const Work& w, const CodeWork& c, int r0, int r1, Score score) {
  for (int r = r0; r < r1; ++r) {
    if (w.lo[r] < w.hi[r]) {
      w.top[r] = lift_row(w.scores + (r - r0) * kScoreStride, w.lo[r], w.hi[r], c.q.meta(r).scale, job.spec.softcap, c.chunk,
                          [&](int b) { return score((r - r0) * int64_t{kScoreStride} + b * kLanes, b); });
    }
  }
}

// The partial of rows [r0, r1) over blocks [b0, b1) of the chunk.
template <class Products>
inline void code_group(const Work& w, const CodeWork& c, const Products& products, int r0, int r1, int b0, int b1) {
  const int from = b0 / 4 * 64, to = (b1 + 3) / 4 * 64;
  for (; r0 < r1; r0 += Products::kRows) {
    const int stop = r0 + Products::kRows < r1 ? r0 + Products::kRows : r1;
    products.scores(r0, stop);
    for (int r = r0; r < stop; ++r) {
      int8_t* codes = c.weights + (r - r0) * kWeightStride;
      const float reference = std::floor(w.top[r] + 0x1p-10f) - static_cast<float>(kWeightBits - 1), scale = c.q.meta(r).scale;
      const bool seen = w.lo[r] < w.hi[r];
      const bool broken = seen && (!(std::fabs(reference) < kWidestReference) || scale != scale || c.chunk.broken_between(w.lo[r], w.hi[r]));
      if (!seen || broken) {
        w.top[r] = 0.0f;
        w.sum[r] = broken ? std::nanf("") : 0.0f;
        std::memset(codes, 0, 2 * kChunkTokens);
        continue;
      }
      w.top[r] = reference + static_cast<float>(kWeightUnit);
      w.sum[r] = code_weights(w.scores + (r - r0) * kScoreStride, w.lo[r], w.hi[r], reference, c.chunk, codes, from, to);
    }
    products.values(r0, stop);
  }
}

template <class Rows>
inline void i16_task(const AttendJob& job, const AttendTile& tile, int kv_head, int chunk_lo, int chunk_hi, float* partials, float* scratch, Rows&& rows) {
  const Work w = carve(scratch, tile.rows, job.padded);
  CodeWork c = carve_codes(w, scratch, tile.rows, job.padded);
  load_queries(job, tile, kv_head, w.q);
  code_queries(c.q, tile.rows);
  each_chunk(job, tile, w, kv_head, chunk_lo, chunk_hi, partials, [&](int chunk, bool more) {
    each_group(job, tile, w, chunk, more, [&](const int32_t* table, const int32_t* next, int r0, int r1, int b0, int b1) {
      rows(w, c, table, next, r0, r1, b0, b1);
    });
  });
}

// The blocks of a group and those to ask for ahead.
struct CodeBlocks {
  const char *keys[kChunkBlocks + kAhead] = {}, *values[kChunkBlocks + kAhead] = {};
  CodeBlocks(const AttendJob& job, const int32_t* table, const int32_t* next, int kv_head, int b0, int b1) {
    for (int b = b0; b < b1; ++b) {
      keys[b] = key_block(job, table[b], kv_head);
      values[b] = value_block(job, table[b], kv_head);
    }
    for (int i = 0; i < kAhead; ++i) {  // after the last block: keys, then values, then the next chunk's keys
      keys[b1 + i] = values[b0 + i < b1 ? b0 + i : b1 - 1];
      values[b1 + i] = key_block(job, next ? next[i] : table[b1 - 1], kv_head);
    }
  }
};

// Products on vectors, straight from the cache.
struct VectorProducts {
  static constexpr int kRows = kScoreRows;
  const AttendJob& job;
  const Work& w;
  CodeWork& c;
  const CodeBlocks& blocks;
  int b0, b1;

  // w.scores: u of every row (i16_soften_isa.h); w.top: its maximum.
  void scores(int r0, int r1) const {
    const int step = code_vectors(r1 - r0 < kCodeRows ? r1 - r0 : kCodeRows);
    for (int b = b0; b < b1; b += step) {  // these blocks stay near while all rows pass over them
      const int nb = b + step < b1 ? step : b1 - b;
      for (int r = r0; r < r1; r += kCodeRows) {
        const int n = r + kCodeRows < r1 ? kCodeRows : r1 - r;
        if (!any_sees(w, r, n, b, b + nb)) continue;
        with_rows(n, [&](auto rows) {
          code_scores_of<decltype(rows)::value>(c.q, r, blocks.keys + b, nb, w.scores + (r - r0) * kScoreStride + b * kLanes);
        });
      }
    }
    c.chunk.fill(blocks.keys, blocks.values, job.padded, b0, b1);  // only now: in decoding, the lines that hold scales are on their way
    lift_rows(job, w, c, r0, r1, [&](int64_t at, int) { return load(w.scores + at); });
  }
  void values(int r0, int r1) const {
    for (int r = r0; r < r1; r += kCodeRows) {
      with_rows(r + kCodeRows < r1 ? kCodeRows : r1 - r, [&](auto rows) {
        code_values_of<decltype(rows)::value>(c.weights + (r - r0) * kWeightStride, blocks.values, b0, b1, job.padded,
                                              w.acc + static_cast<int64_t>(r) * job.padded);
      });
    }
  }
};

inline void vector_rows(const AttendJob& job, const Work& w, CodeWork& c, int kv_head, const int32_t* table, const int32_t* next, int r0, int r1, int b0,
                        int b1) {
  const CodeBlocks blocks(job, table, next, kv_head, b0, b1);
  for (int b = b0; b < b1; ++b) {
    prefetch(blocks.keys[b] + 2 * i16_plane(job.padded));
    prefetch(blocks.values[b] + 2 * i16_plane(job.padded));
  }
  code_group(w, c, VectorProducts{job, w, c, blocks, b0, b1}, r0, r1, b0, b1);
}

}  // namespace HW_ISA
}  // namespace hw
