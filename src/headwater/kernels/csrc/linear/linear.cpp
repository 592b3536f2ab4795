#include "linear/linear.h"

#include <memory>
#include <mutex>
#include <new>
#include <vector>

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

uint8_t* unit_scratch(int64_t bytes) {
  struct Free {
    void operator()(uint8_t* p) const { ::operator delete(p, std::align_val_t(64)); }
  };
  thread_local std::unique_ptr<uint8_t, Free> memory;
  thread_local int64_t size = 0;
  if (bytes > size) {
    memory.reset(static_cast<uint8_t*>(::operator new(static_cast<size_t>(bytes), std::align_val_t(64))));
    size = bytes;
  }
  return memory.get();
}

void linear(ThreadPool& pool, LinearJob job) {
  if (job.n <= 0) return;
  job.threads = pool.threads();
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
