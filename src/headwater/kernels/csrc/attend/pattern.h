// Attention of prompts that leaves out parts of the cache (kernels/pattern.py). What the queries of a tile read is decided from samples: one
// query of every block, kept beside the block's keys. So it depends on absolute positions and on what lies before the tile alone.
#pragma once

#include <vector>

#include "attend/attend.h"

namespace hw {

enum PatternKind : int { kCrisp = 1, kVerticalSlash = 2, kXAttention = 3, kPatternKinds = 4 };
enum PatternRoute : int { kByMass = 0, kByDivergence = 1, kAlwaysSlash = 2, kAlwaysPooled = 3, kPatternRoutes = 4 };

constexpr int kMostSamples = 128;  // that decide for a tile

struct PatternSpec {
  int kind = 0;
  int tile = 512;        // queries decided for together
  int block = 128;       // keys kept or left out together
  int rows = 128;        // queries of a tile that share a set of keys: distances are taken from all of them
  int queries = 16;      // samples that decide
  int sinks = 128;       // first positions that are read in any case
  int local = 128;       // newest positions before a run of `rows` queries that are read in any case
  int dense_layers = 0;  // first layers that read everything
  int route = kByMass;
  int least = 8;         // crisp: fewest blocks per direction
  int vertical = 0;      // vertical slash: positions kept by column
  int slash = 0;         // vertical slash: distances kept
  bool coverage = false;  // crisp: keep by share of the mass instead of above the floor
  bool whole = false;    // decide once per row and step, from its own last queries
  double tau = 0.2, alpha = 1.0, gamma = 0.95;
};

// A step's view. Row r: its queries before until[r] follow the pattern, others read everything.
struct Pattern {
  PatternSpec spec;
  const int32_t* until = nullptr;  // [n_rows]
  uint16_t* samples = nullptr;     // f16 [layers - dense_layers][n_blocks][heads][padded]
  int64_t* stats = nullptr;        // [4] or null: (query, head, block of 16) in sight, left out; (tile, head) decided by columns and distances, by means
  double* mass = nullptr;          // [layers][heads][2] or null: answers stay dense; sums of captured soft-max mass, queries
};

// What the samples say of the keys before a tile, per 16 positions, for one head. Masses are means over the samples.
struct Evidence {
  int blocks;
  const float* vertical;  // [blocks] mass of each block
  const float* slash;     // [blocks] mass at distances [16 o, 16 o + 16)
  const float* pooled;    // [blocks] mean score, base 2
  const float* strided;   // [blocks] xattention: mass of its antidiagonals
};

// Which blocks of 16 are read wherever the query, and at which distances [16 o, 16 o + 16). pooled: the head was decided by means.
struct Choice {
  std::vector<uint8_t> vertical, slash;
  bool pooled = false;
};

Choice choose_crisp(const PatternSpec& spec, const Evidence& e);
Choice choose_vertical_slash(const PatternSpec& spec, const Evidence& e);
Choice choose_xattention(const PatternSpec& spec, const Evidence& e);
Choice choose_pattern(const PatternSpec& spec, const Evidence& e);

// Bit b of mask[c]: queries [first, first + rows) read block 16 c + b; blocks from `first` on are always read. choice null: all.
void pattern_mask(const PatternSpec& spec, const Choice* choice, int start, int first, uint16_t* mask, int chunks);

// Which position of block b is sampled: chunks of 256 hold one sample of every residue, so that antidiagonals see every key.
static inline int sample_slot(int block) { return kBlockTokens - 1 - block % kBlockTokens; }

// One tile (or, whole, one row's part of a step) of one row: the keys before `start` are judged by `samples` queries.
struct Judged {
  int row, start, samples;
  int token;  // whole: flat token of the first sample, which are neighbours; else -1
};

static inline size_t evidence_scratch(const PatternSpec& spec, int head_dim, int start) {
  const size_t blocks = static_cast<size_t>(start) / kBlockTokens + 2, n = static_cast<size_t>(spec.queries), dim = static_cast<size_t>(head_dim);
  const size_t rows = 8 * (kChunkTokens + 16) + n * blocks * kBlockTokens, turned = n * dim + n * (blocks + 32);
  return 4 * (blocks + 16) + n * dim + 64 + (rows > turned ? rows : turned);
}

// attend() under a pattern. lse as in attend_with_lse.
void attend_patterned(ThreadPool& pool, const Step& step, const KVGroup& kv, const AttendSpec& spec, const Pattern& pattern, const float* q,
                      int64_t q_stride, const float* k, int64_t k_stride, const float* v, int64_t v_stride, float* out, int64_t out_stride,
                      float* lse);

HW_DECLARE(
    // Keeps the sampled queries of one head among tokens [first, last) of a row.
    void store_samples(const AttendJob& job, const Pattern& pattern, int row, int first, int last, int head);
    // scratch: evidence_scratch() floats, which the result points into.
    Evidence pattern_evidence(const AttendJob& job, const Pattern& pattern, const Judged& judged, int head, float* scratch);
    // Queries of one segment and one head over the blocks in `mask`, one word per chunk. scratch: attend_scratch() floats.
    void pattern_task(const AttendJob& job, const TileSegment& segment, int head, const uint16_t* mask, float* scratch);)

}  // namespace hw
