// One selective query of one kv head: scan the index, read what it chooses, estimate some of the rest (kernels/select.py).
#include "attend/select.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "attend/partial_isa.h"
#include "attend/transpose_isa.h"
#include "rope.h"

namespace hw {
namespace HW_ISA {
namespace {

// One query of one kv head and what it needs to find the index.
struct Reader {
  const AttendJob& job;
  const Selection& sel;
  const SelectQuery& query;
  int kv_head;
  Work w;
  IndexLayout layout;
  int clusters;             // of all indexed segments
  float *z, *share, *lift;  // [group][stride], [stride], [group][head_dim]: scores, share of each cluster in the group, squared query
  int32_t *chosen, *order, *nodes;  // [stride]: 0 not read, 1 estimated, 2 read; cluster ids by share; tree: nodes that are looked at
  int64_t stride;

  const char* slot(int segment) const {
    const int id = sel.table[static_cast<int64_t>(query.row) * sel.table_width + segment];
    return reinterpret_cast<const char*>(index_slot(job, sel, layout.bytes, id, kv_head));
  }
  const int32_t* blocks(int segment) const {
    return job.kv.table + static_cast<int64_t>(query.row) * job.kv.table_width + segment * (sel.spec.segment / kBlockTokens);
  }
  const uint16_t* starts(int segment) const { return reinterpret_cast<const uint16_t*>(slot(segment) + layout.starts); }
  int size(int cluster) const {
    const uint16_t* s = starts(cluster / sel.spec.vectors()) + cluster % sel.spec.vectors();
    return s[1] - s[0];
  }
};

void add_partial(const Reader& r) { merge_chunk(r.w, r.job.group, r.job.padded, r.w.acc, r.job.padded, r.w.top, r.w.sum); }

void see(const Reader& r, int hi) {
  for (int g = 0; g < r.job.group; ++g) {
    r.w.lo[g] = 0;
    r.w.hi[g] = hi;
  }
}

// Whole blocks, or the first `positions` of them, as one partial; at most sixteen.
void read_blocks(const Reader& r, const int32_t* table, int n, int positions) {
  see(r, positions);
  with_source(r.job.kv.format,
              [&](auto source) { partial_rows<decltype(source)>(r.job, r.w, table, nullptr, 0, r.job.group, r.kv_head, 0, n); });
  add_partial(r);
}

// z[g][cluster] = rows[g] . vectors at `offset` of every segment's slot.
void scan(const Reader& r, const float* rows, int64_t offset, float* z) {
  const int dim = r.job.spec.head_dim, per = r.sel.spec.vectors(), n = per / kLanes, segments = r.clusters / per;
  const int64_t step = int64_t{2} * dim * kLanes;
  const char* blocks[kChunkBlocks + kAhead];
  for (int s = 0; s < segments; ++s) {
    const char *base = r.slot(s) + offset, *next = s + 1 < segments ? r.slot(s + 1) + offset : base;
    for (int b = 0; b < n; ++b) blocks[b] = base + b * step;
    for (int i = 0; i < kAhead; ++i) blocks[n + i] = next + (i < n ? i : n - 1) * step;
    for (int g = 0; g < r.job.group; g += kRegisterRows) {
      const int rows_now = g + kRegisterRows < r.job.group ? kRegisterRows : r.job.group - g;
      score_rows<F16Source>(rows_now, rows + static_cast<int64_t>(g) * dim, dim, blocks, n, r.w.scores);
      for (int i = 0; i < rows_now; ++i) {
        std::memcpy(z + (g + i) * r.stride + s * per, r.w.scores + i * kScoreStride, static_cast<size_t>(per) * sizeof(float));
      }
    }
  }
}

// Upper bounds of q . k over the keys of a page: sum over channels of max(q · minimum, q · maximum) (Quest, 2406.10774).
void scan_bounds(const Reader& r) {
  const int dim = r.job.spec.head_dim, per = r.sel.spec.vectors();
  for (int c = 0; c < r.clusters; c += kLanes) {
    const auto* box = reinterpret_cast<const uint16_t*>(r.slot(c / per)) + int64_t{2} * (c % per) * dim;
    for (int g = 0; g < r.job.group; ++g) {
      const float* q = r.w.q + static_cast<int64_t>(g) * dim;
      F32x16 bound = zero16();
      for (int d = 0; d < dim; ++d) {
        const F32x16 x = splat(q[d]);
        bound = bound + max(x * load_f16(box + d * 2 * kLanes), x * load_f16(box + (d * 2 + 1) * kLanes));
      }
      store(r.z + g * r.stride + c, bound);
    }
  }
}

// share[cluster] = sum over the heads of the group of soft-max over all `n` clusters (RetroInfer, 2505.02922). Scores of empty ones are -inf, and so
// are those behind the last one up to the next sixteen.
void rank(const Reader& r, int n) {
  for (int c = 0; c < n; c += kLanes) store(r.share + c, zero16());
  for (int g = 0; g < r.job.group; ++g) {
    float* z = r.z + g * r.stride;
    F32x16 peak = splat(-HUGE_VALF), total = zero16();
    for (int c = 0; c < n; c += kLanes) peak = max(load(z + c), peak);
    const F32x16 top = splat(fold_max(peak));
    for (int c = 0; c < n; c += kLanes) total = total + exp2_16(load(z + c) - top);
    const F32x16 scale = splat(1.0f / fold_sum(total));
    for (int c = 0; c < n; c += kLanes) store(r.share + c, fma(exp2_16(load(z + c) - top), scale, load(r.share + c)));
  }
}

// Marks the `most` clusters with the largest share (ties: the lower id) among `candidates` ids in r.order: the first `read` of them 2, others 1.
void choose(const Reader& r, int candidates, int read, int most) {
  most = most < candidates ? most : candidates;
  read = read < most ? read : most;
  const float* share = r.share;
  const auto before = [share](int32_t a, int32_t b) { return share[a] > share[b] || (share[a] == share[b] && a < b); };
  if (most < candidates) std::nth_element(r.order, r.order + most, r.order + candidates, before);
  if (read < most) std::nth_element(r.order, r.order + read, r.order + most, before);
  for (int i = 0; i < most; ++i) r.chosen[r.order[i]] = i < read ? 2 : 1;
}

// Positions of the cache, gathered into scratch: member i is row `slot` of a block of keys (in value layout) and of a block of values.
struct Gather {
  const char *keys[kChunkTokens], *values[kChunkTokens];
  int slots[kChunkTokens];
  int n = 0;
};

// Key rows and value rows of half-precision numbers become blocks of the cache's own layout.
void pack_halves(const Reader& r, const Gather& list, const char** keys, const char** values) {
  const int dim = r.job.spec.head_dim;
  auto* key = reinterpret_cast<uint16_t*>(r.w.keys);
  auto* value = reinterpret_cast<uint16_t*>(r.w.values);
  alignas(64) uint16_t tile[kLanes * kLanes] = {};
  for (int b = 0; b * kLanes < list.n; ++b, key += kLanes * dim, value += kLanes * dim) {
    const int first = b * kLanes, count = list.n - first < kLanes ? list.n - first : kLanes;
    keys[b] = reinterpret_cast<const char*>(key);
    values[b] = reinterpret_cast<const char*>(value);
    for (int c = 0; c < dim; c += kLanes) {
      for (int i = 0; i < count; ++i) std::memcpy(tile + i * kLanes, list.keys[first + i] + 2 * (list.slots[first + i] * dim + c), 2 * kLanes);
      transpose16(tile, key + c * kLanes);
    }
    for (int i = 0; i < count; ++i) {
      std::memcpy(value + i * dim, list.values[first + i] + 2 * list.slots[first + i] * dim, 2 * static_cast<size_t>(dim));
    }
  }
}

// The same for formats with scales, which are left behind: float32 numbers.
template <class Source>
void pack_floats(const Reader& r, const Gather& list, const char** keys, const char** values) {
  using Keys = typename Source::Keys;
  const int dim = r.job.spec.head_dim, stride = value_stride(r.job.padded);
  float lanes[kLanes];
  for (int i = 0; i < list.n; ++i) {
    float* key = r.w.keys + static_cast<int64_t>(i / kLanes) * dim * kLanes + i % kLanes;
    float* value = r.w.values + static_cast<int64_t>(i) * stride;
    for (int c = 0; c < dim; c += kLanes) {
      store(lanes, Keys::value(list.keys[i], dim, list.slots[i], c, Keys::value_scale(list.keys[i], dim, list.slots[i], c)));
      for (int l = 0; l < kLanes; ++l) key[(c + l) * kLanes] = lanes[l];
      store(value + c, Source::value(list.values[i], dim, list.slots[i], c, Source::value_scale(list.values[i], dim, list.slots[i], c)));
    }
  }
  for (int b = 0; b * kLanes < list.n; ++b) {
    keys[b] = reinterpret_cast<const char*>(r.w.keys + static_cast<int64_t>(b) * dim * kLanes);
    values[b] = reinterpret_cast<const char*>(r.w.values + static_cast<int64_t>(b) * kLanes * stride);
  }
}

void flush(const Reader& r, Gather& list) {
  if (list.n == 0) return;
  const int n = (list.n + kLanes - 1) / kLanes;
  const char *keys[kChunkBlocks + kAhead] = {}, *values[kChunkBlocks + kAhead] = {};
  see(r, list.n);
  if (r.job.kv.format != kF16) {
    with_source(r.job.kv.format, [&](auto source) { pack_floats<decltype(source)>(r, list, keys, values); });
    partial_group<F32Source>(r.job, r.w, 0, r.job.group, keys, values, 0, n);
  } else {
    pack_halves(r, list, keys, values);
    for (int i = 0; i < kAhead; ++i) {
      keys[n + i] = keys[n - 1];
      values[n + i] = values[n - 1];
    }
    partial_group<F16Source>(r.job, r.w, 0, r.job.group, keys, values, 0, n);
  }
  add_partial(r);
  list.n = 0;
}

// Members of the chosen clusters, clusters in order.
int64_t read_clusters(const Reader& r) {
  const int per = r.sel.spec.vectors();
  const int64_t key_row = r.job.key_bytes / kBlockTokens, value_row = r.job.value_bytes / kBlockTokens;  // near enough, for every format
  int64_t read = 0;
  Gather list;
  for (int c = 0; c < r.clusters; ++c) {
    if (r.chosen[c] != 2) continue;
    const int segment = c / per;
    const char* slot = r.slot(segment);
    const auto* order = reinterpret_cast<const uint16_t*>(slot + r.layout.order);
    const uint16_t* starts = r.starts(segment) + c % per;
    for (int i = starts[0]; i < starts[1]; ++i) {
      const int block = order[i] / kBlockTokens;
      list.keys[list.n] = slot + r.layout.keys + block * r.job.key_bytes;
      list.values[list.n] = value_block(r.job, r.blocks(segment)[block], r.kv_head);
      list.slots[list.n] = order[i] % kBlockTokens;
      for (int64_t at = 0; at < key_row; at += 64) prefetch(list.keys[list.n] + list.slots[list.n] * key_row + at);
      for (int64_t at = 0; at < value_row; at += 64) prefetch(list.values[list.n] + list.slots[list.n] * value_row + at);
      ++list.n;
      if (list.n == kChunkTokens) flush(r, list);
    }
    read += starts[1] - starts[0];
  }
  flush(r, list);
  return read;
}

// At most 256 clusters as one partial: each counts as its size times its centroid's weight, with its mean value.
void estimate(const Reader& r, const int32_t* ids, int n) {
  const int per = r.sel.spec.vectors(), dim = r.job.spec.head_dim;
  const uint16_t* means[kChunkTokens];
  float log_size[kChunkTokens];
  for (int i = 0; i < n; ++i) {
    means[i] = reinterpret_cast<const uint16_t*>(r.slot(ids[i] / per) + r.layout.means) + static_cast<int64_t>(ids[i] % per) * dim;
    log_size[i] = static_cast<float>(std::log2(static_cast<double>(r.size(ids[i]))));
  }
  for (int g = 0; g < r.job.group; ++g) {
    float* weight = r.w.scores;
    for (int i = 0; i < n; ++i) weight[i] = r.z[g * r.stride + ids[i]] + log_size[i];
    r.w.top[g] = peak_of(weight, 0, n, 0.0f);
    r.w.sum[g] = soften(weight, 0, n, r.w.top[g]);
    for (int c = 0; c < dim; c += kLanes) {
      F32x16 even = zero16(), odd = zero16();  // two chains: one would wait for itself
      int i = 0;
      for (; i + 2 <= n; i += 2) {
        even = fma(splat(weight[i]), load_f16(means[i] + c), even);
        odd = fma(splat(weight[i + 1]), load_f16(means[i + 1] + c), odd);
      }
      if (i < n) even = fma(splat(weight[i]), load_f16(means[i] + c), even);
      store(r.w.acc + static_cast<int64_t>(g) * r.job.padded + c, even + odd);
    }
  }
  add_partial(r);
}

int64_t estimate_clusters(const Reader& r) {
  int n = 0;
  int64_t all = 0;
  for (int c = 0; c < r.clusters; ++c) {
    if (r.chosen[c] != 1) continue;
    r.order[n++] = c;
    ++all;
    if (n == kChunkTokens) {
      estimate(r, r.order, n);
      n = 0;
    }
  }
  if (n) estimate(r, r.order, n);
  return all;
}

// The second term of the cumulant expansion: scores grow by half the variance of the members along the query, times its weight.
void add_variance(const Reader& r) {
  const int dim = r.job.spec.head_dim;
  const F32x16 factor = splat(static_cast<float>(0.5 * r.sel.spec.second) / kLog2e);
  for (int i = 0; i < r.job.group * dim; i += kLanes) {
    const F32x16 q = load(r.w.q + i);
    store(r.lift + i, q * q * factor);
  }
  const int per = r.sel.spec.vectors(), n = per / kLanes;
  const char* blocks[kChunkBlocks + kAhead];
  for (int s = 0; s < r.clusters / per; ++s) {
    const char* base = r.slot(s) + r.layout.variances;
    for (int b = 0; b < n + kAhead; ++b) blocks[b] = base + int64_t{2} * dim * kLanes * (b < n ? b : n - 1);
    for (int g = 0; g < r.job.group; ++g) {
      score_rows<F16Source>(1, r.lift + static_cast<int64_t>(g) * dim, dim, blocks, n, r.w.scores);
      float* z = r.z + g * r.stride + s * per;
      for (int c = 0; c < per; c += kLanes) store(z + c, load(z + c) + load(r.w.scores + c));
    }
  }
}

void wave(const Reader& r, int64_t* stats) {
  const SelectSpec& spec = r.sel.spec;
  scan(r, r.w.q, r.layout.centroids, r.z);
  if (spec.second > 0) add_variance(r);
  int candidates = 0;
  for (int first = 0; first < r.clusters; first += spec.vectors()) {
    const uint16_t* starts = r.starts(first / spec.vectors());
    for (int j = 0; j < spec.vectors(); ++j) {
      r.chosen[first + j] = 0;
      if (starts[j + 1] > starts[j]) {
        r.order[candidates++] = first + j;
        continue;
      }
      for (int g = 0; g < r.job.group; ++g) r.z[g * r.stride + first + j] = -HUGE_VALF;
    }
  }
  rank(r, r.clusters);
  const int read = std::max(1, static_cast<int>(std::nearbyint(spec.retrieve * r.clusters)));
  choose(r, candidates, read, read + static_cast<int>(std::nearbyint(spec.estimate * r.clusters)));
  stats[1] += read_clusters(r);
  stats[2] += r.clusters * (spec.second > 0 ? 2 : 1);
  stats[3] += estimate_clusters(r);
}

// Pages marked 2, in order; returns their positions.
int64_t read_pages(const Reader& r) {
  int32_t pages[kChunkBlocks];
  int n = 0;
  int64_t all = 0;
  for (int c = 0; c < r.clusters; ++c) {
    if (r.chosen[c] == 2) {
      pages[n++] = r.blocks(0)[c];
      ++all;
    }
    if (n == kChunkBlocks || (n && c + 1 == r.clusters)) {
      read_blocks(r, pages, n, n * kBlockTokens);
      n = 0;
    }
  }
  return kBlockTokens * all;
}

void quest(const Reader& r, int64_t* stats) {
  const SelectSpec& spec = r.sel.spec;
  scan_bounds(r);
  rank(r, r.clusters);
  const int first = (spec.sinks + kBlockTokens - 1) / kBlockTokens;  // pages that are read in any case
  int candidates = 0;
  for (int c = 0; c < r.clusters; ++c) {
    r.chosen[c] = c < first ? 2 : 0;
    if (c >= first) r.order[candidates++] = c;
  }
  const int read = std::max(1, static_cast<int>(std::nearbyint(spec.retrieve * r.clusters)));
  choose(r, candidates, read, read);
  stats[1] += read_pages(r);
  stats[2] += 2 * r.clusters;
}

// z[g][i] = score of node r.nodes[i] of a level, i < n: the bound of q . k, or the mean score and half the variance of scores.
void score_nodes(const Reader& r, const TreeLevels& levels, int level, int n) {
  const int dim = r.job.spec.head_dim, count = levels.count[level];
  const F32x16 half = splat(0.5f / kLog2e);  // scores are in base 2: the second cumulant is quadratic in log2(e)
  for (int i = 0; i < n; ++i) {
    const int id = r.nodes[i];
    const auto* box = reinterpret_cast<const uint16_t*>(r.slot(id / count)) + int64_t{2} * (levels.offset[level] + id % count) * dim;
    for (int g = 0; g < r.job.group; ++g) {
      const float* q = r.w.q + static_cast<int64_t>(g) * dim;
      F32x16 sum = zero16();
      for (int c = 0; c < dim; c += kLanes) {
        const F32x16 x = load(q + c), first = load_f16(box + c), second = load_f16(box + dim + c);
        sum = r.sel.spec.mass ? fma(x * x * half, second, fma(x, first, sum)) : sum + max(x * first, x * second);
      }
      r.z[g * r.stride + i] = fold_sum(sum);
    }
  }
  for (int i = n; i % kLanes; ++i)
    for (int g = 0; g < r.job.group; ++g) r.z[g * r.stride + i] = -HUGE_VALF;
}

// The `most` nodes with the largest share (ties: the lower id) of those whose ids are in r.order, in order of ids, into r.order.
int keep_best(const Reader& r, int candidates, int most) {
  const float* share = r.share;
  const auto before = [share](int32_t a, int32_t b) { return share[a] > share[b] || (share[a] == share[b] && a < b); };
  if (most < candidates) std::nth_element(r.order, r.order + most, r.order + candidates, before);
  const int kept = std::min(most, candidates);
  std::sort(r.order, r.order + kept);
  return kept;
}

// From the finest level of at most 2 · beam nodes down: the best `beam` nodes of a level are opened, of the pages found the best are read.
void tree(const Reader& r, int64_t* stats) {
  const SelectSpec& spec = r.sel.spec;
  const TreeLevels levels(spec);
  const int segments = r.clusters / spec.vectors(), always = (spec.sinks + kBlockTokens - 1) / kBlockTokens;
  int level = levels.n - 1;
  while (level > 0 && segments * levels.count[level - 1] <= 2 * spec.beam) --level;
  int n = segments * levels.count[level];
  for (int i = 0; i < n; ++i) r.nodes[i] = i;
  for (;; --level) {
    score_nodes(r, levels, level, n);
    rank(r, n);
    stats[2] += 2 * n;
    int candidates = 0;
    for (int i = 0; i < n; ++i)
      if (level > 0 || r.nodes[i] >= always) r.order[candidates++] = i;
    if (level == 0) {
      const int kept = keep_best(r, candidates, std::max(1, static_cast<int>(std::nearbyint(spec.retrieve * r.clusters))));
      for (int c = 0; c < r.clusters; ++c) r.chosen[c] = c < always ? 2 : 0;
      for (int i = 0; i < kept; ++i) r.chosen[r.nodes[r.order[i]]] = 2;
      stats[1] += read_pages(r);
      return;
    }
    const int kept = keep_best(r, candidates, spec.beam);
    for (int i = 0; i < kept; ++i) r.order[i] = r.nodes[r.order[i]];
    n = 0;
    for (int i = 0; i < kept; ++i)
      for (int child = 0; child < spec.fanout; ++child) r.nodes[n++] = r.order[i] * spec.fanout + child;
  }
}

// Positions [from, to) as partials of at most 256.
void read_range(const Reader& r, int from, int to) {
  for (int at = from; at < to; at += kChunkTokens) {
    const int n = std::min(to - at, kChunkTokens);
    read_blocks(r, r.blocks(0) + at / kBlockTokens, (n + kBlockTokens - 1) / kBlockTokens, n);
  }
}

// The query turned to another position: rotations add up, so the one that it has is gone on with.
void move_query(const Reader& r, int position) {
  const int64_t n = int64_t{r.job.group} * r.job.spec.head_dim;
  rope_token(position - r.query.position, r.job.q + r.query.token * r.job.q_stride + r.kv_head * n, r.job.group, r.job.spec.head_dim, r.sel.inv_freq,
             r.sel.rope_dims, r.sel.interleaved, 1.0f, r.lift);
  load_query(r.job, r.lift, r.w.q);
}

// Keys before the near ones, seen from positions that were trained: the sinks from the end of the cache (StreamingLLM, 2309.17453), whole chunks
// as if they came right before the last trained position (Dual Chunk Attention, 2402.17463).
void read_far(const Reader& r, int near, int64_t* stats) {
  const SelectSpec& s = r.sel.spec;
  if (s.kind == kStream) {
    move_query(r, std::min(r.query.position, s.sinks + s.local - 1));
    read_range(r, 0, std::min(s.sinks, near));
    stats[1] += std::min(s.sinks, near);
    return;
  }
  for (int first = 0; first < near; first += s.segment) {
    move_query(r, first + s.trained - 1);
    read_range(r, first, first + s.segment);
  }
  stats[1] += near;
}

}  // namespace

void select_task(const AttendJob& job, const Selection& sel, const SelectQuery& query, int kv_head, int part, float* partial, float* scratch,
                 float* lists) {
  const int end = indexed_end(sel.spec, query.position), p = query.position;
  const TileSegment segment{query.row, query.token, 1, p, p + 1};
  const AttendTile tile{&segment, 1, job.group, 0, p / kChunkTokens + 1};
  Reader r{job, sel, query, kv_head, carve(scratch, job.group, job.padded), IndexLayout(sel.spec, job.kv.format, job.spec.head_dim), 0, nullptr, nullptr,
           nullptr, nullptr, nullptr, nullptr, 0};
  r.clusters = end / sel.spec.segment * sel.spec.vectors();
  r.stride = r.clusters + kLanes;
  r.z = lists;
  r.share = r.z + r.stride * job.group;
  r.chosen = reinterpret_cast<int32_t*>(r.share + r.stride);
  r.order = r.chosen + r.stride;
  r.nodes = r.order + r.stride;
  r.lift = reinterpret_cast<float*>(r.nodes + r.stride);
  load_queries(job, tile, kv_head, r.w.q);
  std::memset(r.w.state_sum, 0, static_cast<size_t>(job.group) * sizeof(float));
  int64_t stats[4] = {};
  if (part == 0) {
    stats[0] = 1;
    if (sel.spec.moves()) read_far(r, near_from(sel.spec, p), stats);
    const int sinks = std::min(sel.spec.sinks, sel.spec.kind == kWindow ? p + 1 : end);
    if (sel.spec.kind == kWindow || sel.spec.kind == kWave) {
      read_range(r, 0, sinks);
      stats[1] = sinks;
    }
    if (end > 0 && sel.spec.kind == kWave) wave(r, stats);
    if (end > 0 && sel.spec.kind == kQuest) quest(r, stats);
    if (end > 0 && sel.spec.kind == kTree) tree(r, stats);
  } else {
    const int from = sel.spec.kind == kWindow ? std::max(p + 1 - sel.spec.local, std::min(sel.spec.sinks, p + 1))
                     : sel.spec.moves()         ? near_from(sel.spec, p)
                                                : end;
    AttendJob newest = job;
    newest.spec.window = p + 1 - from;
    stats[1] = p + 1 - from;
    for (int chunk = from / kChunkTokens; from <= p && chunk <= p / kChunkTokens; ++chunk) {
      partial_chunk(newest, tile, r.w, kv_head, chunk, chunk < p / kChunkTokens);
      add_partial(r);
    }
  }
  const size_t row = static_cast<size_t>(job.group) * sizeof(float);
  std::memcpy(partial, r.w.state, row * static_cast<size_t>(job.padded));
  partial += static_cast<int64_t>(job.group) * job.padded;
  std::memcpy(partial, r.w.state_top, row);
  std::memcpy(partial + padded_rows(job.group), r.w.state_sum, row);
  for (int i = 0; i < 4 && sel.stats; ++i) __atomic_fetch_add(sel.stats + i, stats[i], __ATOMIC_RELAXED);
}

}  // namespace HW_ISA
}  // namespace hw
