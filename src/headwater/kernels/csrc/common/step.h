// One engine step as flat arrays, and the paged key-value cache of one layer group. Plain structs: nothing here owns memory.
#pragma once

#include <cstdint>

namespace hw {

class ThreadPool;

constexpr int kBlockTokens = 16;  // positions per cache block; also the number of logical lanes (ADR 001)

// Row r owns the flat tokens [row_start[r], row_start[r + 1]); `reads` are flat token indices whose hidden state is wanted.
struct Step {
  const int32_t* tokens = nullptr;     // [n_tokens]
  const int32_t* positions = nullptr;  // [n_tokens] absolute
  const int32_t* row_start = nullptr;  // [n_rows + 1]
  const int32_t* reads = nullptr;      // [n_reads]
  const int32_t* state_in = nullptr;   // [n_rows] slot read by recurrent layers, -1 = zero state
  const int32_t* state_out = nullptr;  // [n_rows] slot written by recurrent layers, -1 = none: the row's state stays what it was
  int n_tokens = 0, n_rows = 0, n_reads = 0;
};

// k: [layers][n_blocks][kv_heads][head_dim][16] f16, v: [layers][n_blocks][kv_heads][16][head_dim] f16.
// table[r * table_width + position / 16] is the block that holds the position of row r, or -1.
struct KVGroup {
  uint16_t* k = nullptr;
  uint16_t* v = nullptr;
  int64_t n_blocks = 0;
  int layers = 0, kv_heads = 0, head_dim = 0, format = 0;
  bool rotated = false;  // keys and values are stored through a Hadamard matrix (attend/hadamard_isa.h)
  const int32_t* table = nullptr;
  int table_width = 0;
};

struct AttendSpec {
  int group = 0, layer = 0, heads = 0, kv_heads = 0, head_dim = 0;
  int window = 0;       // 0 = none; else a query sees the last `window` positions, itself included
  float scale = 1.0f;
  float softcap = 0.0f;  // 0 = none
  bool causal = true;
};

// Writes the step's keys and values to the cache (rounded to f16 before any query reads them), then attends.
void attend(ThreadPool& pool, const Step& step, const KVGroup& kv, const AttendSpec& spec, const float* q, int64_t q_stride,
            const float* k, int64_t k_stride, const float* v, int64_t v_stride, float* out, int64_t out_stride);

}  // namespace hw
