// Plans attention under a pattern: which tokens follow it, which tiles are judged, what every run of queries reads.
#include "attend/pattern.h"

#include <algorithm>
#include <cmath>

#include "common/pool.h"

namespace hw {
namespace {

// Consecutive queries of one tile and row that read the same blocks per head.
struct Unit {
  TileSegment segment;
  int judged;  // index of the judgement, -1 = everything is read
  int first;   // absolute position where the run of `rows` queries begins
};

struct Plan {
  std::vector<Judged> judged;
  std::vector<Unit> units;
};

// Token range [first, last) of each row that follows the pattern. A row whose queries can all see everything is left to the dense kernel.
std::vector<int32_t> dense_from(const Step& step, const Pattern& pattern) {
  std::vector<int32_t> from(static_cast<size_t>(step.n_rows), 0);
  for (int r = 0; r < step.n_rows; ++r) {
    if (step.row_start[r] == step.row_start[r + 1]) continue;
    const int end = std::min(step.positions[step.row_start[r + 1] - 1] + 1, pattern.until[r]);
    from[static_cast<size_t>(r)] = end > pattern.spec.tile ? pattern.until[r] : 0;
  }
  return from;
}

int judge(Plan& plan, const PatternSpec& spec, int row, int tile_start, const TileSegment& all) {
  if (spec.whole) {  // one judgement for the row's part of the step, by its last queries
    const int n = std::min(spec.queries, all.count);
    plan.judged.push_back({row, all.position + all.count, n, all.token + all.count - n});
  } else {
    plan.judged.push_back({row, tile_start, std::min(spec.queries, tile_start / kBlockTokens), -1});
  }
  return static_cast<int>(plan.judged.size()) - 1;
}

Plan make_plan(const Step& step, const PatternSpec& spec, const std::vector<int32_t>& from) {
  Plan plan;
  for (int r = 0; r < step.n_rows; ++r) {
    const int token = step.row_start[r];
    if (token == step.row_start[r + 1]) continue;
    const int position = step.positions[token], end = position + step.row_start[r + 1] - token;
    const TileSegment all{r, token, std::min(end, from[static_cast<size_t>(r)]) - position, position, end};
    if (all.count <= 0) continue;
    int judged = -1, of = -1;
    for (int p = position; p < position + all.count;) {
      const int first = p / spec.rows * spec.rows, tile = p / spec.tile;
      const int stop = std::min(first + spec.rows, position + all.count);
      if (spec.whole ? of < 0 : tile > 0 && tile != of) {
        judged = judge(plan, spec, r, tile * spec.tile, all);
        of = tile;
      }
      plan.units.push_back({{r, token + p - position, stop - p, p, end}, judged, first});
      p = stop;
    }
  }
  return plan;
}

int count_bits(unsigned x) { return __builtin_popcount(x); }

// Blocks that the first query of a unit may see, and those of them that it reads.
void count_blocks(const Unit& unit, const uint16_t* mask, int64_t& seen, int64_t& read) {
  seen = unit.segment.position / kBlockTokens + 1;
  read = 0;
  for (int b = 0; b < seen; b += kChunkBlocks) {
    const int n = std::min<int>(kChunkBlocks, static_cast<int>(seen) - b);
    read += count_bits(mask[b / kChunkBlocks] & ((1u << n) - 1u));
  }
}

void add(int64_t* to, int64_t x) { __atomic_fetch_add(to, x, __ATOMIC_RELAXED); }

// What dense attention and the pattern see of the soft-max of each query; answers stay the dense ones.
void measure(ThreadPool& pool, const AttendJob& job, const Pattern& pattern) {
  const auto n = static_cast<size_t>(job.step.n_tokens), heads = static_cast<size_t>(job.spec.heads);
  const size_t width = heads * static_cast<size_t>(job.spec.head_dim);
  std::vector<float> out(n * width), part(n * heads), whole(n * heads);
  Pattern plain = pattern;
  plain.mass = nullptr;
  attend_patterned(pool, job.step, job.kv, job.spec, plain, job.q, job.q_stride, job.k, job.k_stride, job.v, job.v_stride, out.data(),
                   static_cast<int64_t>(width), part.data());
  attend_with_lse(pool, job.step, job.kv, job.spec, job.q, job.q_stride, job.k, job.k_stride, job.v, job.v_stride, job.out, job.out_stride,
                  whole.data());
  double* mass = pattern.mass + static_cast<int64_t>(job.spec.layer) * job.spec.heads * 2;
  for (int r = 0; r < job.step.n_rows; ++r) {
    for (int t = job.step.row_start[r]; t < job.step.row_start[r + 1]; ++t) {
      if (job.step.positions[t] >= pattern.until[r] || job.step.positions[t] < pattern.spec.tile) continue;
      for (size_t h = 0; h < heads; ++h) {
        const size_t i = static_cast<size_t>(t) * heads + h;
        mass[2 * h] += std::exp(static_cast<double>(part[i]) - static_cast<double>(whole[i]));
        mass[2 * h + 1] += 1.0;
      }
    }
  }
}

}  // namespace

void attend_patterned(ThreadPool& pool, const Step& step, const KVGroup& kv, const AttendSpec& spec, const Pattern& pattern, const float* q,
                      int64_t q_stride, const float* k, int64_t k_stride, const float* v, int64_t v_stride, float* out, int64_t out_stride,
                      float* lse) {
  if (kv.format == kI16) throw std::invalid_argument("pattern: the cache has format i16, of which no parts are read");
  if (spec.window > 0 || spec.softcap > 0 || !spec.causal || spec.layer < pattern.spec.dense_layers) {
    return attend_with_lse(pool, step, kv, spec, q, q_stride, k, k_stride, v, v_stride, out, out_stride, lse);
  }
  const AttendJob job{step, kv, spec, q, k, v, q_stride, k_stride, v_stride, out, out_stride, lse, spec.heads / spec.kv_heads,
                      (spec.head_dim + 15) / 16 * 16, block_bytes(key_format(kv.format), spec.head_dim),
                      block_bytes(value_format(kv.format), spec.head_dim)};
  if (pattern.mass) return measure(pool, job, pattern);
  const std::vector<int32_t> from = dense_from(step, pattern);
  attend_with_lse(pool, step, kv, spec, q, q_stride, k, k_stride, v, v_stride, out, out_stride, lse, nullptr, 0.0f, nullptr, from.data());
  const auto keep = HW_SELECT(store_samples);
  pool.parallel_for(step.n_rows * spec.heads, [&](int i, int) {
    const int r = i / spec.heads;
    keep(job, pattern, r, step.row_start[r], step.row_start[r + 1], i % spec.heads);
  });
  const Plan plan = make_plan(step, pattern.spec, from);
  if (plan.units.empty()) return;
  std::vector<Choice> choices(plan.judged.size() * static_cast<size_t>(spec.heads));
  const auto evidence = HW_SELECT(pattern_evidence);
  pool.parallel_for(static_cast<int>(choices.size()), [&](int i, int) {
    const Judged& judged = plan.judged[static_cast<size_t>(i / spec.heads)];
    float* scratch = thread_scratch(2, evidence_scratch(pattern.spec, spec.head_dim, judged.start));
    Choice& choice = choices[static_cast<size_t>(i)];
    choice = choose_pattern(pattern.spec, evidence(job, pattern, judged, i % spec.heads, scratch));
    if (pattern.stats) add(pattern.stats + (choice.pooled ? 3 : 2), 1);
  });
  struct Task {
    int unit, head, chunks;
    int64_t mask, cost;
  };
  std::vector<Task> tasks;
  std::vector<uint16_t> masks;
  int64_t all = 0, left = 0;
  for (size_t u = 0; u < plan.units.size(); ++u) {
    const Unit& unit = plan.units[u];
    const int chunks = (unit.first + pattern.spec.rows - 1) / kChunkTokens + 1;
    for (int h = 0; h < spec.heads; ++h) {
      const auto at = static_cast<int64_t>(masks.size());
      masks.resize(masks.size() + static_cast<size_t>(chunks));
      const size_t chosen = static_cast<size_t>(std::max(unit.judged, 0)) * static_cast<size_t>(spec.heads) + static_cast<size_t>(h);
      const int start = unit.judged < 0 ? 0 : plan.judged[static_cast<size_t>(unit.judged)].start;
      pattern_mask(pattern.spec, unit.judged < 0 ? nullptr : &choices[chosen], start, unit.first, masks.data() + at, chunks);
      int64_t seen, read;
      count_blocks(unit, masks.data() + at, seen, read);
      all += seen * unit.segment.count;
      left += (seen - read) * unit.segment.count;
      tasks.push_back({static_cast<int>(u), h, chunks, at, read * (unit.segment.count + 4)});
    }
  }
  if (pattern.stats) {
    add(pattern.stats, all);
    add(pattern.stats + 1, left);
  }
  std::stable_sort(tasks.begin(), tasks.end(), [](const Task& a, const Task& b) { return a.cost > b.cost; });
  const auto run = HW_SELECT(pattern_task);
  pool.parallel_for(static_cast<int>(tasks.size()), [&](int i, int) {
    const Task& t = tasks[static_cast<size_t>(i)];
    const Unit& unit = plan.units[static_cast<size_t>(t.unit)];
    run(job, unit.segment, t.head, masks.data() + t.mask, thread_scratch(0, attend_scratch(unit.segment.count, job.padded)));
  });
}

}  // namespace hw
