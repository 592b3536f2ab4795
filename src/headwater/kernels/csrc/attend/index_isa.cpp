// The index of one segment of one kv head: spherical k-means over its keys, or the bounding box of each page (kernels/select.py).
#include <cmath>
#include <cstring>

#include "attend/partial_isa.h"
#include "attend/select.h"

namespace hw {
namespace HW_ISA {
namespace {

// One segment: where its blocks are and scratch for its clustering.
struct Segment {
  const AttendJob& job;
  const SelectSpec& spec;
  const int32_t* blocks;  // physical blocks of the segment
  int kv_head, first;     // first: members before it are sinks and belong to no cluster
  float *x, *centre, *sums, *mean;  // [segment][head_dim] keys less their mean, [vectors / 16][head_dim][16], [vectors][head_dim], [head_dim]
  float* scores;                    // [kRegisterRows][kScoreStride]
  int32_t *assigned, *count;        // [segment], [vectors]

  const char* key_block(int b) const { return hw::key_block(job, blocks[b], kv_head); }
  const char* value_block(int b) const { return hw::value_block(job, blocks[b], kv_head); }
};

template <class Source>
void load_keys(const Segment& s) {
  const int dim = s.job.spec.head_dim;
  float lanes[kLanes];
  for (int b = 0; b < s.spec.segment / kBlockTokens; ++b) {
    const char* block = s.key_block(b);
    float* rows = s.x + static_cast<int64_t>(b) * kBlockTokens * dim;
    for (int d = 0; d < dim; ++d) {
      store(lanes, Source::key(block, d, Source::key_scale(block, dim, d / kQ8Channels * kQ8Channels)));
      for (int l = 0; l < kLanes; ++l) rows[l * dim + d] = lanes[l];
    }
  }
}

// out[c..] = mean of rows [first, segment)
void mean_of(const Segment& s, float* out) {
  const int dim = s.job.spec.head_dim;
  const F32x16 share = splat(1.0f / static_cast<float>(s.spec.segment - s.first));
  for (int c = 0; c < dim; c += kLanes) {
    F32x16 sum = zero16();
    for (int i = s.first; i < s.spec.segment; ++i) sum = sum + load(s.x + static_cast<int64_t>(i) * dim + c);
    store(out + c, sum * share);
  }
}

// Cluster j becomes row / |row|; a zero row leaves it as it is.
void set_centre(const Segment& s, int j, const float* row) {
  const int dim = s.job.spec.head_dim;
  F32x16 squares = zero16();
  for (int c = 0; c < dim; c += kLanes) squares = fma(load(row + c), load(row + c), squares);
  const float norm = fold_sum(squares);
  if (!(norm > 0)) return;
  float inverse[kLanes];
  store(inverse, splat(1.0f) / sqrt(splat(norm)));
  float* centre = s.centre + static_cast<int64_t>(j / kLanes) * dim * kLanes + j % kLanes;
  for (int d = 0; d < dim; ++d) centre[d * kLanes] = row[d] * inverse[0];
}

// Every member joins the centre with the largest inner product (ties: the lower id); sums and counts follow.
void assign(const Segment& s) {
  const int dim = s.job.spec.head_dim, vectors = s.spec.vectors(), n = vectors / kLanes;
  const char* blocks[kChunkBlocks + kAhead] = {};
  for (int b = 0; b < n; ++b) blocks[b] = reinterpret_cast<const char*>(s.centre + static_cast<int64_t>(b) * dim * kLanes);
  std::memset(s.sums, 0, static_cast<size_t>(vectors) * static_cast<size_t>(dim) * sizeof(float));
  std::memset(s.count, 0, static_cast<size_t>(vectors) * sizeof(int32_t));
  for (int i = s.first; i < s.spec.segment; i += kRegisterRows) {
    const int rows = i + kRegisterRows < s.spec.segment ? kRegisterRows : s.spec.segment - i;
    score_rows<F32Source>(rows, s.x + static_cast<int64_t>(i) * dim, dim, blocks, n, s.scores);
    for (int r = 0; r < rows; ++r) {
      const float* score = s.scores + r * kScoreStride;
      F32x16 peak = load(score);
      for (int j = kLanes; j < vectors; j += kLanes) peak = max(load(score + j), peak);
      const float best = fold_max(peak);
      int at = 0;
      while (at + 1 < vectors && score[at] != best) ++at;
      s.assigned[i + r] = at;
      ++s.count[at];
      float* sum = s.sums + static_cast<int64_t>(at) * dim;
      const float* x = s.x + static_cast<int64_t>(i + r) * dim;
      for (int c = 0; c < dim; c += kLanes) store(sum + c, load(sum + c) + load(x + c));
    }
  }
}

// Spherical k-means from evenly spread seeds; the last round only assigns.
void cluster(const Segment& s) {
  const int dim = s.job.spec.head_dim, vectors = s.spec.vectors();
  const int64_t members = s.spec.segment - s.first;
  mean_of(s, s.mean);
  for (int i = s.first; i < s.spec.segment; ++i) {
    float* x = s.x + static_cast<int64_t>(i) * dim;
    for (int c = 0; c < dim; c += kLanes) store(x + c, load(x + c) - load(s.mean + c));
  }
  std::memset(s.centre, 0, static_cast<size_t>(vectors) * static_cast<size_t>(dim) * sizeof(float));
  for (int j = 0; j < vectors; ++j) set_centre(s, j, s.x + (s.first + (2 * j + 1) * members / (2 * vectors)) * dim);
  for (int round = 0; round < s.spec.iterations; ++round) {
    if (round) {
      for (int j = 0; j < vectors; ++j) set_centre(s, j, s.sums + static_cast<int64_t>(j) * dim);
    }
    assign(s);
  }
}

// A row of numbers as column j of [.. / 16][head_dim][16] in f16.
void put_column(uint16_t* out, int j, int dim, const float* row) {
  out += static_cast<int64_t>(j / kLanes) * dim * kLanes + j % kLanes;
  uint16_t half[kLanes];
  for (int c = 0; c < dim; c += kLanes) {
    store_f16(half, load(row + c));
    for (int l = 0; l < kLanes; ++l) out[(c + l) * kLanes] = half[l];
  }
}

// Number i of a run of sixteen four-bit codes.
int nibble(const char* run, int i) { return static_cast<uint8_t>(run[i % 8]) >> (i < 8 ? 0 : 4) & 15; }

// out[i][j] = in[j][i] for tables of `size`-byte entries: in is [rows][16], out [16][rows].
void turn(const char* in, char* out, int rows, int size) {
  for (int j = 0; j < rows; ++j)
    for (int i = 0; i < kBlockTokens; ++i) std::memcpy(out + (i * rows + j) * size, in + (j * kBlockTokens + i) * size, static_cast<size_t>(size));
}

// Stored keys of block b, codes and scales as they are, in the layout of value blocks.
void copy_keys(const Segment& s, int b, char* to) {
  const char* from = s.key_block(b);
  const int dim = s.job.spec.head_dim, format = key_format(s.job.kv.format);
  if (format == kF16) return turn(from, to, dim, 2);
  if (format == kQ8) {
    turn(from, to, dim, 1);
    return turn(from + kBlockTokens * dim, to + kBlockTokens * dim, static_cast<int>(q8_groups(dim)), 2);
  }
  for (int i = 0; i < kBlockTokens; ++i) {
    for (int d = 0; d < dim; ++d) {
      char* byte = to + i * dim / 2 + d / 16 * 8 + d % 8;
      const int code = nibble(from + d * 8, i);
      *byte = static_cast<char>(d % 16 < 8 ? code : (*byte & 15) | code << 4);
    }
  }
  from += kBlockTokens * dim / 2;
  to += kBlockTokens * dim / 2;
  if (format == kFp4) return turn(from, to, dim / 16, 1);
  for (int i = 0; i < kBlockTokens; ++i) {  // [groups][scale, minimum][16] -> [16][groups][scale, minimum]
    for (int g = 0; g < 2 * (dim / 32); ++g) std::memcpy(to + (i * 2 * (dim / 32) + g) * 2, from + (g * kBlockTokens + i) * 2, 2);
  }
}

// Mean values and, where wanted, variances of keys per cluster. s.sums is taken over; s.centre is free by now.
template <class Source>
void summarise(const Segment& s, const IndexLayout& layout, char* slot) {
  const int dim = s.job.spec.head_dim, vectors = s.spec.vectors();
  auto* means = reinterpret_cast<uint16_t*>(slot + layout.means);
  float* squares = s.centre;
  std::memset(squares, 0, static_cast<size_t>(vectors) * static_cast<size_t>(dim) * sizeof(float));
  for (int i = s.first; i < s.spec.segment; ++i) {  // deviations from the cluster's own mean
    const int j = s.assigned[i];
    const F32x16 share = splat(1.0f / static_cast<float>(s.count[j]));
    for (int c = 0; c < dim; c += kLanes) {
      const F32x16 x = load(s.x + static_cast<int64_t>(i) * dim + c) - load(s.sums + static_cast<int64_t>(j) * dim + c) * share;
      float* square = squares + static_cast<int64_t>(j) * dim + c;
      store(square, fma(x * share, x, load(square)));
    }
  }
  for (int j = 0; j < vectors && s.spec.second > 0; ++j) {
    put_column(reinterpret_cast<uint16_t*>(slot + layout.variances), j, dim, squares + static_cast<int64_t>(j) * dim);
  }
  std::memset(s.sums, 0, static_cast<size_t>(vectors) * static_cast<size_t>(dim) * sizeof(float));
  for (int i = s.first; i < s.spec.segment; ++i) {
    float* sum = s.sums + static_cast<int64_t>(s.assigned[i]) * dim;
    const char* block = s.value_block(i / kBlockTokens);
    for (int c = 0; c < dim; c += kLanes) {
      store(sum + c, load(sum + c) + Source::value(block, dim, i % kBlockTokens, c, Source::value_scale(block, dim, i % kBlockTokens, c)));
    }
  }
  for (int j = 0; j < vectors; ++j) {
    const F32x16 share = splat(s.count[j] ? 1.0f / static_cast<float>(s.count[j]) : 0.0f);
    for (int c = 0; c < dim; c += kLanes) {
      store_f16(means + static_cast<int64_t>(j) * dim + c, load(s.sums + static_cast<int64_t>(j) * dim + c) * share);
    }
  }
}

template <class Source>
void build_wave(const Segment& s, const IndexLayout& layout, char* slot) {
  const int dim = s.job.spec.head_dim, vectors = s.spec.vectors();
  load_keys<Source>(s);
  cluster(s);
  float* row = s.scores;  // a centroid: the mean of its members' keys
  for (int j = 0; j < vectors; ++j) {
    const F32x16 share = splat(s.count[j] ? 1.0f / static_cast<float>(s.count[j]) : 0.0f);
    for (int c = 0; c < dim; c += kLanes) store(row + c, fma(load(s.sums + static_cast<int64_t>(j) * dim + c), share, load(s.mean + c)));
    put_column(reinterpret_cast<uint16_t*>(slot + layout.centroids), j, dim, row);
  }
  auto* starts = reinterpret_cast<uint16_t*>(slot + layout.starts);
  auto* order = reinterpret_cast<uint16_t*>(slot + layout.order);
  starts[0] = 0;
  for (int j = 0; j < vectors; ++j) starts[j + 1] = static_cast<uint16_t>(starts[j] + s.count[j]);
  summarise<Source>(s, layout, slot);
  for (int j = 0; j < vectors; ++j) s.count[j] = starts[j];
  for (int i = s.first; i < s.spec.segment; ++i) order[s.count[s.assigned[i]]++] = static_cast<uint16_t>(i);
  for (int b = 0; b < s.spec.segment / kBlockTokens; ++b) copy_keys(s, b, slot + layout.keys + b * s.job.key_bytes);
}

template <class Source>
void build_quest(const Segment& s, char* slot) {
  const int dim = s.job.spec.head_dim;
  for (int b = 0; b < s.spec.segment / kBlockTokens; ++b) {
    const char* block = s.key_block(b);
    auto* box = reinterpret_cast<uint16_t*>(slot) + static_cast<int64_t>(b / kLanes) * dim * 2 * kLanes + b % kLanes;
    for (int d = 0; d < dim; ++d) {
      const F32x16 key = Source::key(block, d, Source::key_scale(block, dim, d / kQ8Channels * kQ8Channels));
      uint16_t low[kLanes], high[kLanes];
      store_f16(low, splat(-fold_max(zero16() - key)));
      store_f16(high, splat(fold_max(key)));
      box[d * 2 * kLanes] = low[0];
      box[(d * 2 + 1) * kLanes] = high[0];
    }
  }
}

// One page of the tree: bounds of its keys per channel, or their mean and variance; box is [2][head_dim].
template <class Source>
void page_summary(const char* block, int dim, bool mass, float* box) {
  for (int d = 0; d < dim; ++d) {
    const F32x16 key = Source::key(block, d, Source::key_scale(block, dim, d / kQ8Channels * kQ8Channels));
    if (mass) {
      const F32x16 share = splat(1.0f / kBlockTokens);
      box[d] = fold_sum(key * share);
      const F32x16 away = key - splat(box[d]);
      box[dim + d] = fold_sum(away * away * share);
    } else {
      box[d] = -fold_max(zero16() - key);
      box[dim + d] = fold_max(key);
    }
  }
}

// A node's summary from those of its `n` children, which lie behind each other.
void join_summaries(const float* children, int n, int dim, bool mass, float* box) {
  const F32x16 share = splat(1.0f / static_cast<float>(n));
  for (int c = 0; c < dim; c += kLanes) {
    F32x16 first = load(children + c), second = load(children + dim + c);
    for (int i = 1; i < n; ++i) {
      const F32x16 a = load(children + 2 * i * dim + c), b = load(children + (2 * i + 1) * dim + c);
      first = mass ? first + a : zero16() - max(zero16() - first, zero16() - a);
      second = mass ? second + b : max(second, b);
    }
    if (mass) {
      first = first * share;
      second = second * share;
      for (int i = 0; i < n; ++i) {
        const F32x16 away = load(children + 2 * i * dim + c) - first;
        second = fma(away * away, share, second);
      }
    }
    store(box + c, first);
    store(box + dim + c, second);
  }
}

// Pages of sinks are read in any case: nodes above them look at their other pages only.
template <class Source>
void build_tree(const Segment& s, char* slot) {
  const TreeLevels levels(s.spec);
  const int dim = s.job.spec.head_dim, always = (s.first + kBlockTokens - 1) / kBlockTokens, fanout = s.spec.fanout;
  float* boxes = s.x;
  for (int b = 0; b < levels.count[0]; ++b) page_summary<Source>(s.key_block(b), dim, s.spec.mass, boxes + int64_t{2} * b * dim);
  for (int level = 1, from = always; level < levels.n; ++level, from /= fanout) {
    for (int j = 0; j < levels.count[level]; ++j) {
      const int last = (j + 1) * fanout, first = from < last ? (from > j * fanout ? from : j * fanout) : j * fanout;
      join_summaries(boxes + int64_t{2} * (levels.offset[level - 1] + first) * dim, last - first, dim, s.spec.mass,
                     boxes + int64_t{2} * (levels.offset[level] + j) * dim);
    }
  }
  const F32x16 most = splat(65504.0f);
  for (int64_t i = 0; i < int64_t{2} * levels.nodes * dim; i += kLanes) {
    store_f16(reinterpret_cast<uint16_t*>(slot) + i, max(zero16() - most, min(load(boxes + i), most)));
  }
}

}  // namespace

void build_index(const AttendJob& job, const Selection& sel, const int32_t* build, int kv_head, float* scratch) {
  const int dim = job.spec.head_dim, n = sel.spec.segment, vectors = sel.spec.vectors();
  const IndexLayout layout(sel.spec, job.kv.format, dim);
  const int first = sel.spec.sinks - build[1] * n;
  Segment s{job, sel.spec, job.kv.table + static_cast<int64_t>(build[0]) * job.kv.table_width + build[1] * (n / kBlockTokens), kv_head,
            first < 0 ? 0 : first, scratch, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr};
  s.centre = s.x + static_cast<int64_t>(n) * dim;
  s.sums = s.centre + static_cast<int64_t>(vectors) * dim;
  s.mean = s.sums + static_cast<int64_t>(vectors) * dim;
  s.scores = s.mean + (dim + kLanes - 1) / kLanes * kLanes;
  s.assigned = reinterpret_cast<int32_t*>(s.scores + 16 * (kChunkTokens + kLanes));
  s.count = s.assigned + n;
  char* slot = reinterpret_cast<char*>(index_slot(job, sel, layout.bytes, build[2], kv_head));
  if (sel.spec.kind == kTree) {
    return with_source(job.kv.format, [&](auto source) { build_tree<decltype(source)>(s, slot); });
  }
  if (sel.spec.kind == kQuest) {
    return with_source(job.kv.format, [&](auto source) { build_quest<decltype(source)>(s, slot); });
  }
  return with_source(job.kv.format, [&](auto source) { build_wave<decltype(source)>(s, layout, slot); });
}

}  // namespace HW_ISA
}  // namespace hw
