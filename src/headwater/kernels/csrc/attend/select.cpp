// Plans selective attention: which tokens of a step are dense, which segments are indexed now, which queries select.
#include "attend/select.h"

#include <atomic>
#include <cmath>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/pool.h"

namespace hw {
namespace {

[[noreturn]] void fail(const std::string& what) { throw std::invalid_argument("attend: " + what); }

// Every segment that a query may choose from has a slot; every slot lies in the index.
void check(const Step& step, const Selection& sel, const std::vector<SelectQuery>& queries) {
  for (int i = 0; i < sel.n_builds; ++i) {
    const int32_t* b = sel.builds + 3 * i;
    if (b[0] < 0 || b[0] >= step.n_rows || b[1] < 0 || b[2] < 0 || b[2] >= sel.slots) fail("an index to build lies outside the step or the index");
  }
  for (const SelectQuery& q : queries) {
    const int segments = indexed_end(sel.spec, q.position) / sel.spec.segment;
    if (segments > sel.table_width) fail("the index table ends before the segments of row " + std::to_string(q.row));
    for (int s = 0; s < segments; ++s) {
      const int slot = sel.table[static_cast<int64_t>(q.row) * sel.table_width + s];
      if (slot < 0 || slot >= sel.slots) fail("row " + std::to_string(q.row) + " has no index for segment " + std::to_string(s));
    }
  }
}

void check_builds(const Step& step, const KVGroup& kv, const Selection& sel) {
  const int blocks = sel.spec.segment / kBlockTokens;
  for (int i = 0; i < sel.n_builds; ++i) {
    const int32_t* b = sel.builds + 3 * i;
    if ((b[1] + 1) * blocks > kv.table_width) fail("the table ends before an indexed segment of row " + std::to_string(b[0]));
    for (int j = b[1] * blocks; j < (b[1] + 1) * blocks; ++j) {
      const int block = kv.table[static_cast<int64_t>(b[0]) * kv.table_width + j];
      if (block < 0 || block >= kv.n_blocks) fail("row " + std::to_string(b[0]) + " lacks a block of an indexed segment");
    }
  }
  (void)step;
}

}  // namespace

void attend_selected(ThreadPool& pool, const Step& step, const KVGroup& kv, const AttendSpec& spec, const Selection& sel, const float* q,
                     int64_t q_stride, const float* k, int64_t k_stride, const float* v, int64_t v_stride, float* out, int64_t out_stride) {
  if (kv.format == kI16) fail("the cache has format i16, of which no parts are read");
  if (spec.window > 0 || spec.softcap > 0 || !spec.causal || spec.layer < sel.spec.dense_layers) {
    return attend_with_lse(pool, step, kv, spec, q, q_stride, k, k_stride, v, v_stride, out, out_stride, nullptr);
  }
  if (sel.spec.kind == kBlasst) {
    const auto skip = static_cast<float>(std::log2(sel.spec.threshold));
    return attend_with_lse(pool, step, kv, spec, q, q_stride, k, k_stride, v, v_stride, out, out_stride, nullptr, nullptr, skip, sel.stats);
  }
  std::vector<SelectQuery> queries;
  for (int r = 0; r < step.n_rows; ++r) {
    for (int t = step.row_start[r]; t < step.row_start[r + 1]; ++t) {
      if (step.positions[t] >= sel.exact_until[r]) queries.push_back({r, t, step.positions[t]});
    }
  }
  check(step, sel, queries);
  attend_with_lse(pool, step, kv, spec, q, q_stride, k, k_stride, v, v_stride, out, out_stride, nullptr, sel.exact_until);
  if (queries.empty() && sel.n_builds == 0) return;
  check_builds(step, kv, sel);
  const AttendJob job{step, kv, spec, q, k, v, q_stride, k_stride, v_stride, out, out_stride, nullptr, spec.heads / spec.kv_heads,
                      (spec.head_dim + 15) / 16 * 16, block_bytes(key_format(kv.format), spec.head_dim),
                      block_bytes(value_format(kv.format), spec.head_dim)};
  const auto build = HW_SELECT(build_index);
  pool.parallel_for(sel.n_builds * spec.kv_heads, [&](int i, int) {
    build(job, sel, sel.builds + 3 * (i / spec.kv_heads), i % spec.kv_heads, thread_scratch(2, build_scratch(sel.spec, spec.head_dim)));
  });
  const int n = static_cast<int>(queries.size()) * spec.kv_heads;
  if (n == 0) return;
  const int64_t floats = partial_floats(job, job.group);
  float* partials = thread_scratch(1, static_cast<size_t>(2 * floats * n));
  const std::unique_ptr<std::atomic<int>[]> done(new std::atomic<int>[static_cast<size_t>(n)]());
  const auto select = HW_SELECT(select_task);
  const auto merge = HW_SELECT(merge_task);
  pool.parallel_for(2 * n, [&](int i, int) {
    const int unit = i / 2, kv_head = unit % spec.kv_heads;
    const SelectQuery& query = queries[static_cast<size_t>(unit / spec.kv_heads)];
    float* own = partials + 2 * floats * unit;
    float* scratch = thread_scratch(0, attend_scratch(job.group, job.padded));
    const int clusters = indexed_end(sel.spec, query.position) / sel.spec.segment * sel.spec.vectors();
    select(job, sel, query, kv_head, i % 2, own + (i % 2) * floats, scratch, thread_scratch(2, query_scratch(sel.spec, job.group, spec.head_dim, clusters)));
    if (done[unit].fetch_add(1, std::memory_order_acq_rel) == 1) {
      const TileSegment segment{query.row, query.token, 1, query.position, query.position + 1};
      merge(job, AttendTile{&segment, 1, job.group, 0, 2}, kv_head, own, scratch);
    }
  });
}

}  // namespace hw
