#include "rows/rows.h"

#include "common/simd16.h"

namespace hw {
namespace HW_ISA {
namespace {

// f(lanes, i) for every sixteen columns; the last may have fewer lanes.
template <class F>
HW_INLINE void each16(int64_t dim, F&& f) {
  for (int64_t i = 0; i < dim; i += kLanes) f(dim - i < kLanes ? static_cast<int>(dim - i) : kLanes, i);
}

// Sixteen sums (lane = column mod 16, columns ascending), folded in the fixed tree.
HW_INLINE float sum_of_squares(const float* x, int64_t dim) {
  F32x16 sum = zero16();
  each16(dim, [&](int lanes, int64_t i) {
    const F32x16 v = load_n(x + i, lanes);
    sum = fma(v, v, sum);
  });
  return sum_lanes(sum);
}

HW_INLINE float reciprocal_root(float x) {
  float lanes[kLanes];
  store(lanes, splat(1.0f) / sqrt(splat(x)));
  return lanes[0];
}

}  // namespace

void rms_norm_row(const float* x, const float* weight, int64_t dim, int64_t width, float eps, float* out) {
  for (int64_t head = 0; head < dim; head += width) {
    const F32x16 factor = splat(reciprocal_root(sum_of_squares(x + head, width) / static_cast<float>(width) + eps));
    each16(width, [&](int lanes, int64_t i) { store_n(out + head + i, load_n(x + head + i, lanes) * factor * load_n(weight + i, lanes), lanes); });
  }
}

void layer_norm_row(const float* x, const float* weight, const float* bias, int64_t dim, float eps, float* out) {
  F32x16 sum = zero16(), squares = zero16();
  each16(dim, [&](int lanes, int64_t i) { sum = sum + load_n(x + i, lanes); });
  const F32x16 mean = splat(sum_lanes(sum) / static_cast<float>(dim));
  each16(dim, [&](int lanes, int64_t i) {
    const F32x16 v = select(mask_first(lanes), load_n(x + i, lanes) - mean, zero16());
    squares = fma(v, v, squares);
  });
  const F32x16 factor = splat(reciprocal_root(sum_lanes(squares) / static_cast<float>(dim) + eps));
  each16(dim, [&](int lanes, int64_t i) {
    store_n(out + i, fma((load_n(x + i, lanes) - mean) * factor, load_n(weight + i, lanes), load_n(bias + i, lanes)), lanes);
  });
}

void gate_row(Gate gate, const float* x, int64_t dim, float* out) {
  if (gate == Gate::silu) {
    each16(dim, [&](int lanes, int64_t i) { store_n(out + i, silu16(load_n(x + i, lanes)) * load_n(x + dim + i, lanes), lanes); });
  } else {
    each16(dim, [&](int lanes, int64_t i) { store_n(out + i, gelu_tanh16(load_n(x + i, lanes)) * load_n(x + dim + i, lanes), lanes); });
  }
}

// erf(x) = 1 - (a1 t + ... + a5 t^5) exp(-x^2), t = 1 / (1 + p |x|): Abramowitz and Stegun 7.1.26.
void gelu_row(const float* x, int64_t dim, float* out) {
  each16(dim, [&](int lanes, int64_t i) {
    const F32x16 v = load_n(x + i, lanes), z = v * splat(0.70710678118654752f), a = abs(z);
    const F32x16 t = splat(1.0f) / fma(a, splat(0.3275911f), splat(1.0f));
    F32x16 p = splat(1.061405429f);
    p = fma(p, t, splat(-1.453152027f));
    p = fma(p, t, splat(1.421413741f));
    p = fma(p, t, splat(-0.284496736f));
    p = fma(p, t, splat(0.254829592f));
    const F32x16 erf = copy_sign(splat(1.0f) - p * t * exp16(sub(zero16(), a * a)), z);
    store_n(out + i, v * splat(0.5f) * (splat(1.0f) + erf), lanes);
  });
}

void add_row(const float* a, const float* b, int64_t dim, float* out) {
  each16(dim, [&](int lanes, int64_t i) { store_n(out + i, load_n(a + i, lanes) + load_n(b + i, lanes), lanes); });
}

void scale_row(const float* x, float factor, int64_t dim, float* out) {
  each16(dim, [&](int lanes, int64_t i) { store_n(out + i, load_n(x + i, lanes) * splat(factor), lanes); });
}

void softcap_row(const float* x, float scale, float cap, int64_t dim, float* out) {
  if (cap == 0.0f) return scale_row(x, scale, dim, out);
  each16(dim, [&](int lanes, int64_t i) {
    store_n(out + i, tanh16(load_n(x + i, lanes) * splat(scale) / splat(cap)) * splat(cap), lanes);
  });
}

void sigmoid_mul_row(const float* x, const float* gate, int64_t dim, float* out) {
  each16(dim, [&](int lanes, int64_t i) {
    const F32x16 e = exp16(sub(zero16(), load_n(gate + i, lanes)));
    store_n(out + i, load_n(x + i, lanes) / (splat(1.0f) + e), lanes);
  });
}

void gated_rms_norm_row(const float* x, const float* gate, const float* weight, int64_t dim, int64_t width, float eps, float* out) {
  for (int64_t head = 0; head < dim; head += width) {
    const F32x16 factor = splat(reciprocal_root(sum_of_squares(x + head, width) / static_cast<float>(width) + eps));
    each16(width, [&](int lanes, int64_t i) {
      const F32x16 normed = load_n(x + head + i, lanes) * factor * load_n(weight + i, lanes);
      store_n(out + head + i, normed * silu16(load_n(gate + head + i, lanes)), lanes);
    });
  }
}

}  // namespace HW_ISA
}  // namespace hw
