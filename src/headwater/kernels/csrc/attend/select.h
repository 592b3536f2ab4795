// Attention that reads part of the cache: which parts, from what index, and how the rest is estimated. Meaning: kernels/select.py.
//
// A query at position p reads three zones: the first `sinks` positions; the indexed segments [0, S), S = the last multiple of `segment` at or
// below p + 1 - local, of which an index chooses; and everything from S to p. What is read depends on p, the keys before it and the
// query alone, so chunks, forks and the cache cannot change it.
#pragma once

#include "attend/attend.h"

namespace hw {

enum SelectKind : int { kWindow = 1, kQuest = 2, kWave = 3, kBlasst = 4, kTree = 20, kDualChunk = 21, kStream = 22 };

struct SelectSpec {
  int kind = 0;
  int sinks = 0;
  int local = 0;         // window: newest positions that are read; else the least number of newest positions that no index covers
  int segment = 1024;    // positions that are indexed together, alone
  int centroid = 16;     // wave: positions per centroid
  int iterations = 0;    // wave: rounds of k-means
  int dense_layers = 0;  // first layers that read everything
  double retrieve = 0;   // share of clusters or pages that are read
  double estimate = 0;   // wave: share of clusters that are estimated
  double second = 0;     // wave: weight of the variance in an estimate
  double threshold = 0;  // blasst: chunks whose best weight is below this share of the best so far are left out, in every query

  int fanout = 4;        // tree: children of a node
  int beam = 0;          // tree: nodes of a level whose children are looked at
  int trained = 0;       // dual chunk: positions that the model was made for; `segment` is the chunk
  bool mass = false;     // tree: nodes are scored by mean and variance, not by bounds

  bool paged() const { return kind == kQuest || kind == kTree; }
  bool moves() const { return kind == kDualChunk || kind == kStream; }  // far keys are seen from another position
  bool indexed() const { return paged() || kind == kWave; }
  int vectors() const { return segment / (paged() ? kBlockTokens : centroid); }  // clusters or pages of a segment
};

// The step's view of it. Row r: its queries from position exact_until[r] on are selective.
struct Selection {
  SelectSpec spec;
  const int32_t* exact_until = nullptr;  // [n_rows]
  uint8_t* index = nullptr;              // [layers - dense_layers][slots][kv_heads][slot bytes]
  int64_t slots = 0;
  const int32_t* table = nullptr;        // [n_rows][table_width]: slot of each segment of a row, -1 = none
  int table_width = 0;
  const int32_t* builds = nullptr;       // [n_builds][3]: row, segment, slot to fill in this step
  int n_builds = 0;
  const float* inv_freq = nullptr;       // [rope_dims / 2], of policies that move positions
  int rope_dims = 0;
  bool interleaved = false;
  int64_t* stats = nullptr;              // [4] of (query, kv head): how many, positions read, index vectors scanned, clusters estimated; blasst: see AttendJob
};

// The levels of a segment's tree: pages first, then nodes of `fanout` of the level below, as long as they divide it.
struct TreeLevels {
  int n = 0, count[12] = {}, offset[12] = {}, nodes = 0;

  explicit TreeLevels(const SelectSpec& s) {
    for (int at = s.vectors();; at /= s.fanout) {
      count[n] = at;
      offset[n++] = nodes;
      nodes += at;
      if (at < s.fanout || at % s.fanout) return;
    }
  }
};

// Where the parts of a slot lie, in bytes from its start, for one kv head.
struct IndexLayout {
  int64_t keys = 0;       // wave: keys in the layout of value blocks
  int64_t centroids = 0;  // f16 [vectors / 16][head_dim][16]; quest: [vectors / 16][head_dim][2][16], minimum and maximum; tree: f16 [nodes][2][head_dim]
  int64_t means = 0;      // wave: f16 [vectors][head_dim], mean values
  int64_t variances = 0;  // wave with second: f16 [vectors / 16][head_dim][16]
  int64_t order = 0;      // wave: uint16 [segment], members by cluster
  int64_t starts = 0;     // wave: uint16 [vectors + 1]
  int64_t bytes = 0;

  IndexLayout(const SelectSpec& s, int format, int head_dim) {
    const int64_t matrix = int64_t{2} * s.vectors() * head_dim;
    if (s.kind == kQuest) {
      bytes = 2 * matrix;
    } else if (s.kind == kTree) {
      bytes = int64_t{4} * TreeLevels(s).nodes * head_dim;
    } else if (s.kind == kWave) {
      centroids = s.segment / kBlockTokens * block_bytes(key_format(format), head_dim);
      means = centroids + matrix;
      variances = means + matrix;
      order = variances + (s.second > 0 ? matrix : 0);
      starts = order + 2 * s.segment;
      bytes = starts + 2 * (s.vectors() + 1);
    }
    bytes = (bytes + 63) / 64 * 64;
  }
};

struct SelectQuery {
  int row, token, position;
};

// First key that a query sees from its own position (policies that move positions).
static inline int near_from(const SelectSpec& s, int position) {
  if (s.kind == kStream) return position < s.sinks + s.local ? 0 : position + 1 - s.local;
  const int chunk = position / s.segment, previous = chunk > 0 ? chunk - 1 : 0;
  return (position - previous * s.segment < s.trained ? previous : chunk) * s.segment;
}

// First position that the index does not cover for a query at `position`.
static inline int indexed_end(const SelectSpec& s, int position) {
  return !s.indexed() || position + 1 < s.local ? 0 : (position + 1 - s.local) / s.segment * s.segment;
}

static inline uint8_t* index_slot(const AttendJob& job, const Selection& sel, int64_t slot_bytes, int slot, int kv_head) {
  return sel.index + (((job.spec.layer - sel.spec.dense_layers) * sel.slots + slot) * job.spec.kv_heads + kv_head) * slot_bytes;
}

static inline size_t build_scratch(const SelectSpec& s, int head_dim) {
  return (static_cast<size_t>(s.segment) + 4 * static_cast<size_t>(s.vectors()) + 32) * static_cast<size_t>(head_dim) +
         3 * static_cast<size_t>(s.segment) + 16 * static_cast<size_t>(kChunkTokens + 16);
}

static inline size_t query_scratch(const SelectSpec& s, int group, int head_dim, int clusters) {
  return static_cast<size_t>(clusters + 16) * static_cast<size_t>(group + 4) + (s.second > 0 || s.moves() ? static_cast<size_t>(group * head_dim) : 0);
}

// attend() under a selection: stores, attends densely where it must, builds what the step completed, then answers selective queries.
void attend_selected(ThreadPool& pool, const Step& step, const KVGroup& kv, const AttendSpec& spec, const Selection& selection, const float* q,
                     int64_t q_stride, const float* k, int64_t k_stride, const float* v, int64_t v_stride, float* out, int64_t out_stride);

HW_DECLARE(
    // Fills one slot for one kv head from the segment's keys and values.
    void build_index(const AttendJob& job, const Selection& sel, const int32_t* build, int kv_head, float* scratch);
    // Part 0 of a query: sinks and what the index chooses; part 1: the newest positions. Writes one partial of job.group rows.
    void select_task(const AttendJob& job, const Selection& sel, const SelectQuery& query, int kv_head, int part, float* partial, float* scratch,
                     float* lists);)

}  // namespace hw
