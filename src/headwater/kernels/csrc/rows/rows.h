// Operations that work on one row at a time: norms, gates, elementwise. No row sees another, so nothing depends on the batch.
#pragma once

#include <cstdint>

#include "common/isa.h"

namespace hw {

enum class Gate : int { silu = 0, gelu_tanh = 1 };

HW_DECLARE(
    // Each head of `width` channels by itself: x / sqrt(mean(x^2) + eps) * weight[width]; width divides dim. out may be x.
    void rms_norm_row(const float* x, const float* weight, int64_t dim, int64_t width, float eps, float* out);
    // (x - mean) / sqrt(variance + eps) * weight + bias. out may be x.
    void layer_norm_row(const float* x, const float* weight, const float* bias, int64_t dim, float eps, float* out);
    // gate(x[:dim]) * x[dim:2 dim]
    void gate_row(Gate gate, const float* x, int64_t dim, float* out);
    // Exact gelu, x / 2 (1 + erf(x / sqrt 2)); erf with an absolute error below 2e-7. out may be x.
    void gelu_row(const float* x, int64_t dim, float* out);
    void add_row(const float* a, const float* b, int64_t dim, float* out);
    void scale_row(const float* x, float factor, int64_t dim, float* out);
    // cap * tanh(x * scale / cap); cap 0 = x * scale
    void softcap_row(const float* x, float scale, float cap, int64_t dim, float* out);
    // x * sigmoid(gate)
    void sigmoid_mul_row(const float* x, const float* gate, int64_t dim, float* out);
    // rms_norm_row(x) * silu(gate)
    void gated_rms_norm_row(const float* x, const float* gate, const float* weight, int64_t dim, int64_t width, float eps, float* out);)

}  // namespace hw
