#include "linear/linear.h"

#include <new>

#include "linear/tiles.h"

namespace hw {

bool needs_quant(const WeightView& weight) {
  for (int p = 0; p < weight.n_parts; ++p)
    if (!kLayouts[weight.parts[p].layout].is_float()) return true;
  return false;
}

bool needs_floats(const WeightView& weight) {
  for (int p = 0; p < weight.n_parts; ++p)
    if (kLayouts[weight.parts[p].layout].is_float()) return true;
  return false;
}

namespace {

class Scratch {
 public:
  ~Scratch() { release(); }
  uint8_t* get(int64_t bytes) {
    if (bytes > size_) {
      release();
      memory_ = static_cast<uint8_t*>(::operator new(static_cast<size_t>(bytes), std::align_val_t(64)));
      size_ = bytes;
    }
    return memory_;
  }

 private:
  void release() {
    ::operator delete(memory_, std::align_val_t(64));
    memory_ = nullptr;
    size_ = 0;
  }
  uint8_t* memory_ = nullptr;
  int64_t size_ = 0;
};

#if defined(HW_HAS_AMX)
void linear_on_tiles(ThreadPool& pool, LinearJob job) {
  amx::plan_linear(job);
  const int64_t tiles = (job.n + kTileRows - 1) / kTileRows, each = tile_bytes(job.weight.cols);
  uint8_t* memory = tile_scratch(tiles * each * (job.rest.q ? 2 : 1));
  uint8_t* rest = memory + tiles * each;
  const bool halves = amx::wants_halves(job.weight);
  pool.parallel_for(static_cast<int>(tiles), [&](int tile, int) {
    amx::pack_tile(job.quant, job.n, tile, halves, memory + tile * each);
    if (job.rest.q) amx::pack_tile(job.rest, job.n, tile, halves, rest + tile * each);
  });
  job.tiles = memory;
  if (job.rest.q) job.rest_tiles = rest;
  const int chunks = (job.n + job.chunk - 1) / job.chunk;
  pool.parallel_for(chunks * job.units_per_chunk, [&](int unit, int) { amx::run_linear_unit(job, unit, unit_scratch(job.scratch_bytes)); });
}
#endif

}  // namespace

uint8_t* unit_scratch(int64_t bytes) {
  thread_local Scratch scratch;
  return scratch.get(bytes);
}

uint8_t* tile_scratch(int64_t bytes) {
  thread_local Scratch scratch;
  return scratch.get(bytes);
}

void linear(ThreadPool& pool, LinearJob job) {
  if (job.n <= 0) return;
  job.threads = pool.threads();
#if defined(HW_HAS_AMX)
  if (active_isa() == Isa::amx && amx::takes(job)) return linear_on_tiles(pool, job);
#endif
  HW_SELECT(plan_linear)(job);
  const auto run = HW_SELECT(run_linear_unit);
  const int chunks = (job.n + job.chunk - 1) / job.chunk;
  pool.parallel_for(chunks * job.units_per_chunk, [&](int unit, int) { run(job, unit, unit_scratch(job.scratch_bytes)); });
}

void linear_rows(ThreadPool& pool, const LinearJob& job, const int32_t* ids, int n_ids) {
  const auto run = HW_SELECT(run_linear_row);
  pool.parallel_for(n_ids, [&](int j, int) { run(job, ids, n_ids, j); });
}

}  // namespace hw
