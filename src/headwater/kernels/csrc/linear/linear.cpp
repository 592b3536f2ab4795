#include "linear/linear.h"

#include <new>

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

// 64-byte aligned memory of the calling thread: what a unit works with, and rows in an order of their own.
uint8_t* unit_scratch(int64_t bytes) {
  thread_local Scratch scratch;
  return scratch.get(bytes);
}

uint8_t* packed_scratch(int64_t bytes) {
  thread_local Scratch scratch;
  return scratch.get(bytes);
}

struct Path {
  decltype(&portable::plan_linear) plan;
  decltype(&portable::pack_rows) pack;
  decltype(&portable::run_linear_unit) run;
};

Path path_of(const LinearJob& job) {
#if defined(HW_HAS_AMX)
  if (active_isa() == Isa::amx && amx::takes(job)) return {&amx::plan_linear, &amx::pack_rows, &amx::run_linear_unit};
#endif
  (void)job;
  return {HW_SELECT(plan_linear), HW_SELECT(pack_rows), HW_SELECT(run_linear_unit)};
}

}  // namespace

void LinearJob::cut(int step, int rows) {
  group_step = step;
  chunk = rows;
  units_per_chunk = 0;
  for (int p = 0; p < weight.n_parts; ++p) units_per_chunk += static_cast<int>((weight.parts[p].groups() + step - 1) / step);
}

Piece locate(const LinearJob& job, int unit) {
  const int64_t row = static_cast<int64_t>(unit / job.units_per_chunk) * job.chunk, step = job.group_step;
  int64_t first = static_cast<int64_t>(unit % job.units_per_chunk) * step;
  const PartView* part = job.weight.parts;
  for (; first >= (part->groups() + step - 1) / step * step; ++part) first -= (part->groups() + step - 1) / step * step;
  return {part, first, first + step < part->groups() ? first + step : part->groups(), row, row + job.chunk < job.n ? row + job.chunk : job.n};
}

void linear(ThreadPool& pool, LinearJob job) {
  if (job.n <= 0) return;
  job.threads = pool.threads();
  const Path path = path_of(job);
  path.plan(job);
  if (job.packed_bytes) {
    const int tiles = (job.n + 15) / 16;
    uint8_t* memory = packed_scratch(tiles * job.packed_bytes);
    pool.parallel_for(tiles, [&](int tile, int) { path.pack(job.quant, job.n, tile, memory + tile * job.packed_bytes); });
    job.packed = memory;
  }
  const int chunks = (job.n + job.chunk - 1) / job.chunk;
  pool.parallel_for(chunks * job.units_per_chunk, [&](int unit, int) { path.run(job, unit, unit_scratch(job.scratch_bytes)); });
}

void linear_rows(ThreadPool& pool, const LinearJob& job, const int32_t* ids, int n_ids) {
  const auto run = HW_SELECT(run_linear_row);
  pool.parallel_for(n_ids, [&](int j, int) { run(job, ids, j); });
}

}  // namespace hw
