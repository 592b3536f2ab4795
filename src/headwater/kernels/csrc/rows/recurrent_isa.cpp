#include "rows/recurrent.h"

#include "common/simd16.h"

namespace hw {
namespace HW_ISA {
namespace {

// q or k of one head, l2-normalised: x / sqrt(sum(x^2) + 1e-6), times factor.
HW_INLINE void normalise(const float* x, int dim, float factor, float* out) {
  F32x16 squares = zero16();
  for (int i = 0; i < dim; i += kLanes) {
    const F32x16 v = load_n(x + i, dim - i);
    squares = fma(v, v, squares);
  }
  const F32x16 scale = splat(factor) / sqrt(splat(sum_lanes(squares) + 1e-6f));
  for (int i = 0; i < dim; i += kLanes) store_n(out + i, load_n(x + i, dim - i) * scale, dim - i);
}

}  // namespace

void short_conv_channels(const Step& step, const ShortConv& conv, int64_t first, int64_t last) {
  const int past = conv.width - 1;
  for (int r = 0; r < step.n_rows; ++r) {
    const float* from = step.state_in[r] < 0 ? nullptr : conv.state + step.state_in[r] * conv.dim * past;
    float* to = step.state_out[r] < 0 ? nullptr : conv.state + step.state_out[r] * conv.dim * past;
    const int begin = step.row_start[r], end = step.row_start[r + 1];
    for (int64_t c = first; c < last; ++c) {
      float window[64];  // the last width inputs of this channel, oldest first
      for (int i = 0; i < past; ++i) window[i] = from ? from[c * past + i] : 0.0f;
      for (int t = begin; t < end; ++t) {
        window[past] = conv.x[t * conv.x_stride + c];
        float sum = 0.0f;
        for (int i = 0; i <= past; ++i) sum = __builtin_fmaf(window[i], conv.weight[c * conv.width + i], sum);
        conv.out[t * conv.out_stride + c] = sum;
        for (int i = 0; i < past; ++i) window[i] = window[i + 1];
      }
      for (int i = 0; to && i < past; ++i) to[c * past + i] = window[i];
    }
  }
  if (!conv.activation) return;
  for (int t = 0; t < step.n_tokens; ++t) {
    for (int64_t c = first; c < last; c += kLanes) {
      const int lanes = last - c < kLanes ? static_cast<int>(last - c) : kLanes;
      float* at = conv.out + t * conv.out_stride + c;
      store_n(at, silu16(load_n(at, lanes)), lanes);
    }
  }
}

void gated_delta_head(const Step& step, const GatedDeltaRule& rule, int row, int head, const float* alpha, const float* beta, float* scratch) {
  const int keys = rule.key_dim, values = rule.value_dim, key_head = head / (rule.value_heads / rule.key_heads);
  const int64_t size = static_cast<int64_t>(values) * keys;
  float* state = scratch + 2 * keys;  // where nothing is to be written
  if (step.state_out[row] >= 0) state = rule.state + (static_cast<int64_t>(step.state_out[row]) * rule.value_heads + head) * size;
  if (step.state_in[row] < 0) {
    std::memset(state, 0, static_cast<size_t>(size) * sizeof(float));
  } else if (step.state_in[row] != step.state_out[row]) {
    std::memcpy(state, rule.state + (static_cast<int64_t>(step.state_in[row]) * rule.value_heads + head) * size, static_cast<size_t>(size) * sizeof(float));
  }
  float *q = scratch, *k = scratch + keys;
  float root[kLanes];
  store(root, splat(1.0f) / sqrt(splat(static_cast<float>(keys))));
  for (int t = step.row_start[row], i = 0; t < step.row_start[row + 1]; ++t, ++i) {
    normalise(rule.q + t * rule.q_stride + static_cast<int64_t>(key_head) * keys, keys, root[0], q);
    normalise(rule.k + t * rule.k_stride + static_cast<int64_t>(key_head) * keys, keys, 1.0f, k);
    const float* v = rule.v + t * rule.v_stride + static_cast<int64_t>(head) * values;
    float* out = rule.out + t * rule.out_stride + static_cast<int64_t>(head) * values;
    const F32x16 keep = splat(alpha[i]);
    for (int c = 0; c < values; ++c) {
      float* s = state + static_cast<int64_t>(c) * keys;
      F32x16 seen = zero16(), result = zero16();
      for (int j = 0; j < keys; j += kLanes) {
        const F32x16 decayed = load_n(s + j, keys - j) * keep;
        store_n(s + j, decayed, keys - j);
        seen = fma(decayed, load_n(k + j, keys - j), seen);
      }
      const F32x16 update = splat(beta[i] * (v[c] - sum_lanes(seen)));
      for (int j = 0; j < keys; j += kLanes) {
        const F32x16 fresh = fma(update, load_n(k + j, keys - j), load_n(s + j, keys - j));
        store_n(s + j, fresh, keys - j);
        result = fma(fresh, load_n(q + j, keys - j), result);
      }
      out[c] = sum_lanes(result);
    }
  }
}

}  // namespace HW_ISA
}  // namespace hw
