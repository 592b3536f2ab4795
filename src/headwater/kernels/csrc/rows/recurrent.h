// Layers with a state per sequence: sequential float32 updates in token order (ADR 001, 5). Tasks are channels or heads, never tokens.
#pragma once

#include <cstdint>

#include "common/isa.h"
#include "common/pool.h"
#include "common/step.h"

namespace hw {

struct ShortConv {
  const float* x = nullptr;       // [n][x_stride]
  int64_t x_stride = 0;
  const float* weight = nullptr;  // [dim][width], the last tap meets the newest input
  int64_t dim = 0;
  int width = 0;
  float* state = nullptr;         // of this layer: [slots][dim][width - 1], oldest first
  bool activation = false;        // silu afterwards
  float* out = nullptr;
  int64_t out_stride = 0;
};

struct GatedDeltaRule {
  const float *q = nullptr, *k = nullptr, *v = nullptr, *beta = nullptr, *decay = nullptr;  // token rows
  int64_t q_stride = 0, k_stride = 0, v_stride = 0, beta_stride = 0, decay_stride = 0;
  const float *a_log = nullptr, *dt_bias = nullptr;  // [value_heads]
  int key_heads = 0, value_heads = 0, key_dim = 0, value_dim = 0;
  float* state = nullptr;  // of this layer: [slots][value_heads][value_dim][key_dim]
  float* out = nullptr;    // [n][value_heads * value_dim]
  int64_t out_stride = 0;
};

HW_DECLARE(
    // Channels [first, last) of all rows of the step.
    void short_conv_channels(const Step& step, const ShortConv& conv, int64_t first, int64_t last);
    // One value head of one row. alpha, beta: [tokens of the row], already exp(-exp(a_log) softplus(...)) and sigmoid(...). scratch: two keys, and
    // behind them a head's state where the row writes none.
    void gated_delta_head(const Step& step, const GatedDeltaRule& rule, int row, int head, const float* alpha, const float* beta, float* scratch);)

void short_conv(ThreadPool& pool, const Step& step, const ShortConv& conv);
void gated_delta(ThreadPool& pool, const Step& step, const GatedDeltaRule& rule);

}  // namespace hw
