// Attention of one tile and kv head, chunk by chunk, for one instruction set.
#include "attend/attend.h"

#include <cmath>
#include <cstring>

#include "attend/partial_isa.h"

namespace hw {
namespace HW_ISA {

void attend_task(const AttendJob& job, const AttendTile& tile, int kv_head, int chunk_lo, int chunk_hi, float* partials, float* scratch) {
  const Work w = carve(scratch, tile.rows, job.padded);
  load_queries(job, tile, kv_head, w.q);
  each_chunk(job, tile, w, kv_head, chunk_lo, chunk_hi, partials,
             [&](int chunk, bool more) { partial_chunk(job, tile, w, kv_head, chunk, more); });
}

void merge_task(const AttendJob& job, const AttendTile& tile, int kv_head, const float* partials, float* scratch) {
  const Work w = carve(scratch, tile.rows, job.padded);
  std::memset(w.state_sum, 0, static_cast<size_t>(tile.rows) * sizeof(float));
  for (int chunk = tile.chunk_lo; chunk < tile.chunk_hi; ++chunk) {
    const float* from = partials + (chunk - tile.chunk_lo) * partial_floats(job, tile.rows);
    const float* top = from + static_cast<int64_t>(tile.rows) * job.padded;
    merge_chunk(w, tile.rows, job.padded, from, job.padded, top, top + padded_rows(tile.rows));
  }
  finish(job, tile, kv_head, w);
}

void merge_rows(int parts, int64_t rows, int64_t first, int64_t last, int dim, const float* outs, const float* lses, float* out, float* lse) {
  for (int64_t r = first; r < last; ++r) {
    float peak = -HUGE_VALF;
    for (int p = 0; p < parts; ++p) peak = lses[p * rows + r] > peak ? lses[p * rows + r] : peak;
    std::memset(out + r * dim, 0, static_cast<size_t>(dim) * sizeof(float));
    float total = 0.0f;
    for (int p = 0; p < parts; ++p) {
      const float part = lses[p * rows + r];
      if (part == -HUGE_VALF) continue;
      float weights[kLanes];
      store(weights, exp2_16(splat((part - peak) * kLog2e)));
      const F32x16 weight = splat(weights[0]);
      total = total + weights[0];
      const float* from = outs + (p * rows + r) * dim;
      for (int c = 0; c < dim; c += kLanes) {
        store_n(out + r * dim + c, fma(load_n(from + c, dim - c), weight, load_n(out + r * dim + c, dim - c)), dim - c);
      }
    }
    lse[r] = total == 0.0f ? -HUGE_VALF : static_cast<float>(static_cast<double>(peak) + std::log(static_cast<double>(total)));
    if (total == 0.0f) continue;
    for (int c = 0; c < dim; c += kLanes) store_n(out + r * dim + c, load_n(out + r * dim + c, dim - c) / splat(total), dim - c);
  }
}

}  // namespace HW_ISA
}  // namespace hw
