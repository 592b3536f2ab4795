// Attention over a paged cache: what the planner (attend.cpp) hands to the code of one instruction set (attend_isa.cpp).
//
// A tile is a set of query tokens, of one row or of neighbouring rows that share blocks. A task is one tile, one kv head and a range of
// chunks of 256 absolute positions. Tiles and tasks only change the order of loops: every (query, head) gets one partial per chunk, merged
// in position order (ADR 001), whatever the tile holds.
#pragma once

#include <cstddef>
#include <cstdint>

#include "attend/i16.h"
#include "common/isa.h"
#include "common/step.h"

namespace hw {

// kQ8: int8, a half-precision scale per 32 channels of a token. kFp4: E2M1, an E4M3 scale per 16. kInt4: 0..15, half-precision scale and minimum per
// 32. Codes of four bits: in each run of sixteen numbers byte i holds number i (low half) and number i + 8.
// kK8V4: keys as kQ8, values as kInt4.
// kI16: whole numbers of 15 bits and a float scale per vector, i16.h.
enum KVFormat : int { kF16 = 0, kQ8 = 1, kFp4 = 2, kInt4 = 3, kK8V4 = 4, kI16 = 8 };

static inline bool known_format(int format) { return (format >= kF16 && format <= kK8V4) || format == kI16; }

static inline int key_format(int format) { return format == kK8V4 ? kQ8 : format; }
static inline int value_format(int format) { return format == kK8V4 ? kInt4 : format; }

// Python's format numbers: these, plus kRotated where keys and values are rotated.
constexpr int kRotated = 16;
constexpr int kWidestRotated = 1024;  // head_dim

// Splits such a number; false if there is no such format.
static inline bool set_format(KVGroup& group, int number) {
  group.format = number & ~kRotated;
  group.rotated = (number & kRotated) != 0;
  return number >= 0 && known_format(group.format) && !(group.rotated && group.format == kI16);
}

constexpr int kChunkTokens = 256;
constexpr int kChunkBlocks = kChunkTokens / kBlockTokens;
constexpr int kQ8Channels = 32;  // channels of a token that share one scale in format q8
constexpr int kScoreRows = 48;   // query rows whose scores are alive at a time
constexpr int kTileRows = 192;   // query rows (tokens x heads of the group) of a tile, unless one token alone has more

// Consecutive tokens of one row.
struct TileSegment {
  int row, token, count;  // cache row, first flat token, how many
  int position, end;      // absolute position of the first token; one past the last position of the row
};

struct AttendTile {
  const TileSegment* segments;
  int n_segments;
  int rows;                // tokens x heads per kv head
  int chunk_lo, chunk_hi;  // chunks that any of its queries may see
};

struct AttendJob {
  Step step;
  KVGroup kv;
  AttendSpec spec;
  const float *q, *k, *v;
  int64_t q_stride, k_stride, v_stride;
  float* out;
  int64_t out_stride;
  float* lse;          // [n_tokens][heads] natural log-sum-exp, or null
  int group;           // query heads per kv head
  int padded;          // head_dim rounded up to 16
  int64_t key_bytes, value_bytes;  // of one kv head of one block
  float skip = 0.0f;    // below 0: a chunk whose best score lies this far (base 2) below the row's best so far is left out
  int64_t* stats = nullptr;  // [2] of row-chunks: computed, left out; or null
};

static inline int64_t padded_rows(int rows) { return (rows + 15) / 16 * 16; }

// Partials of one chunk and `rows` query rows: unnormalised outputs [rows][padded], then maxima (base 2) and sums, [padded_rows(rows)] each.
static inline int64_t partial_floats(const AttendJob& job, int rows) { return int64_t{rows} * job.padded + 2 * padded_rows(rows); }

// Positions [lo, hi) that a query sees.
static inline void visible_range(const AttendSpec& spec, int position, int end, int& lo, int& hi) {
  lo = spec.window > 0 && position >= spec.window ? position - spec.window + 1 : 0;
  hi = position + 1;
  if (!spec.causal) hi = spec.window > 0 && spec.window < end - position ? position + spec.window : end;
}

static inline int64_t q8_groups(int head_dim) { return (head_dim + kQ8Channels - 1) / kQ8Channels; }

// Bytes of one kv head of one block of keys, or of values, in the format of either (key_format, value_format).
static inline int64_t block_bytes(int format, int head_dim) {
  switch (format) {
    case kQ8: return kBlockTokens * (head_dim + 2 * q8_groups(head_dim));
    case kFp4: return kBlockTokens * (head_dim / 2 + head_dim / 16);
    case kInt4: return kBlockTokens * (head_dim / 2 + head_dim / 8);
    case kI16: return i16_block_bytes(head_dim);
    default: return int64_t{2} * kBlockTokens * head_dim;
  }
}

// Where one kv head of a block begins in k and in v.
static inline int64_t block_index(const AttendJob& job, int block, int kv_head) {
  return (static_cast<int64_t>(job.spec.layer) * job.kv.n_blocks + block) * job.spec.kv_heads + kv_head;
}
static inline const char* key_block(const AttendJob& job, int block, int kv_head) {
  return reinterpret_cast<const char*>(job.kv.k) + block_index(job, block, kv_head) * job.key_bytes;
}
static inline const char* value_block(const AttendJob& job, int block, int kv_head) {
  return reinterpret_cast<const char*>(job.kv.v) + block_index(job, block, kv_head) * job.value_bytes;
}

// Floats between converted value rows: not a power of two, or they fight for cache sets.
static inline int value_stride(int padded) { return padded + 16; }

// Floats of scratch that attend_task wants for a tile of `rows` query rows; merge_task wants less.
static inline size_t attend_scratch(int rows, int padded) {
  const size_t r = static_cast<size_t>(rows + 15) / 16 * 16;
  return r * (3 * static_cast<size_t>(padded) + 8) + static_cast<size_t>(padded + value_stride(padded)) * kChunkTokens +
         size_t{kScoreRows} * (kChunkTokens + 16);
}

// The same of attend_i16.
static inline size_t i16_scratch(int rows, int padded) {
  return attend_scratch(rows, padded) + size_t{kScoreRows} * (kChunkTokens + 16) + size_t{kScoreRows} * 160 + size_t{2 * kScoreRows} * padded;
}

// Grows on demand, 64-byte aligned, one per thread and `slot`.
float* thread_scratch(int slot, size_t floats);

// attend() that also returns the natural log-sum-exp of every (token, head) when lse is not null. until [n_rows], if given: tokens from that
// position on are stored and do not attend. skip, stats: see AttendJob. from [n_rows], if given: tokens before that position are stored and do not
// attend. Throws std::invalid_argument naming the row and position when the table lacks a block that a query may see.
void attend_with_lse(ThreadPool& pool, const Step& step, const KVGroup& kv, const AttendSpec& spec, const float* q, int64_t q_stride,
                     const float* k, int64_t k_stride, const float* v, int64_t v_stride, float* out, int64_t out_stride, float* lse,
                     const int32_t* until = nullptr, float skip = 0.0f, int64_t* stats = nullptr, const int32_t* from = nullptr);

// k, v: whole caches. Copies blocks in every layer; pairs[2i] -> pairs[2i + 1], in order.
void copy_blocks(ThreadPool& pool, const KVGroup& kv, const int32_t* pairs, int n_pairs);

// outs [parts][rows][dim], lses [parts][rows] natural logarithms -> out [rows][dim], lse [rows]. Parts with lse -inf are skipped.
void merge_parts(ThreadPool& pool, int parts, int64_t rows, int dim, const float* outs, const float* lses, float* out, float* lse);

HW_DECLARE(
    // Rounds keys and values of tokens [first, last) of one kv head and stores them.
    void store_kv(const AttendJob& job, int kv_head, const int32_t* row_of, int first, int last);
    // Attends over chunks [chunk_lo, chunk_hi). partials null: merges as it goes and writes the result; else stores
    // the partials of chunk c at (c - tile.chunk_lo) * partial_floats(). scratch: attend_scratch() floats.
    void attend_task(const AttendJob& job, const AttendTile& tile, int kv_head, int chunk_lo, int chunk_hi, float* partials, float* scratch);
    // attend_task for format i16; scratch: i16_scratch() floats.
    void attend_i16(const AttendJob& job, const AttendTile& tile, int kv_head, int chunk_lo, int chunk_hi, float* partials, float* scratch);
    // Merges all partials of a tile and kv head in position order and writes the result.
    void merge_task(const AttendJob& job, const AttendTile& tile, int kv_head, const float* partials, float* scratch);
    void merge_rows(int parts, int64_t rows, int64_t first, int64_t last, int dim, const float* outs, const float* lses, float* out, float* lse);)

}  // namespace hw
