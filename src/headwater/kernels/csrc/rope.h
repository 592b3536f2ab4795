// Rotary embedding.
#pragma once

#include <cstdint>

#include "common/isa.h"
#include "common/step.h"

namespace hw {

// x, out: [n_tokens][heads * head_dim] with row strides; may be the same array. inv_freq: [dims / 2]; the first `dims` channels of each head
// turn by position · inv_freq (a float32 product), pairs (2i, 2i + 1) when interleaved, else (i, i + dims / 2). mscale multiplies cos and sin.
void rope(ThreadPool& pool, const Step& step, const float* x, int64_t x_stride, int heads, int head_dim, const float* inv_freq, int dims,
          bool interleaved, float mscale, float* out, int64_t out_stride);

HW_DECLARE(void rope_token(int32_t position, const float* x, int heads, int head_dim, const float* inv_freq, int dims, bool interleaved,
                           float mscale, float* out);)

}  // namespace hw
