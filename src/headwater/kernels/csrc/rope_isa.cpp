// One token's rotary embedding. The angle is reduced in double (positions reach millions), sine and cosine are float32 polynomials of our own:
// the C library's may differ between processors.
#include "rope.h"

#include "common/simd16.h"

namespace hw {
namespace HW_ISA {
namespace {

constexpr int kPairs = 256;  // pairs turned at a time

// cos and sin of 16 angles, |angle| < 2^30: quarter turns are taken off in double, then |r| <= pi / 4 (polynomials as in Cephes sinf, cosf).
HW_INLINE void cos_sin(const float* angle, float mscale, float* cos_out, float* sin_out) {
  float r[kLanes], swapped[kLanes], cos_sign[kLanes], sin_sign[kLanes];
  for (int i = 0; i < kLanes; ++i) {
    const double a = static_cast<double>(angle[i]);
    constexpr double kRound = 6755399441055744.0;  // 1.5 · 2^52: adding and taking it away rounds to a whole number
    const double n = (a * 0.63661977236758134308 + kRound) - kRound;
    r[i] = static_cast<float>((a - n * 1.57079632673412561417) - n * 6.07710050650619224932e-11);  // pi / 2 in two parts, the first of 33 bits
    const int quarter = static_cast<int>(n);
    swapped[i] = static_cast<float>(quarter & 1);
    sin_sign[i] = (quarter & 2) ? -1.0f : 1.0f;
    cos_sign[i] = ((quarter + 1) & 2) ? -1.0f : 1.0f;
  }
  const F32x16 x = load(r), z = x * x;
  F32x16 s = splat(-1.9515295891e-4f);
  s = fma(s, z, splat(8.3321608736e-3f));
  s = fma(s, z, splat(-1.6666654611e-1f));
  s = fma(s * z, x, x);
  F32x16 c = splat(2.443315711809948e-5f);
  c = fma(c, z, splat(-1.388731625493765e-3f));
  c = fma(c, z, splat(4.166664568298827e-2f));
  c = fma(c * z, z, fma(z, splat(-0.5f), splat(1.0f)));
  const Mask16 swap = less(splat(0.5f), load(swapped));
  store(cos_out, select(swap, s, c) * load(cos_sign) * splat(mscale));
  store(sin_out, select(swap, c, s) * load(sin_sign) * splat(mscale));
}

HW_INLINE void turn(const float* a, const float* b, const float* cosine, const float* sine, float* first, float* second, int n) {
  const F32x16 x = load_n(a, n), y = load_n(b, n), c = load_n(cosine, n), s = load_n(sine, n);
  store_n(first, x * c - y * s, n);
  store_n(second, y * c + x * s, n);
}

HW_INLINE void turn_interleaved(const float* x, const float* cosine, const float* sine, float* out, int n) {
  float a[kLanes] = {}, b[kLanes] = {}, first[kLanes], second[kLanes];
  for (int i = 0; i < n; ++i) {
    a[i] = x[2 * i];
    b[i] = x[2 * i + 1];
  }
  turn(a, b, cosine, sine, first, second, kLanes);
  for (int i = 0; i < n; ++i) {
    out[2 * i] = first[i];
    out[2 * i + 1] = second[i];
  }
}

}  // namespace

void rope_token(int32_t position, const float* x, int heads, int head_dim, const float* inv_freq, int dims, bool interleaved, float mscale,
                float* out) {
  const int half = dims / 2;
  for (int p0 = 0; p0 < half; p0 += kPairs) {
    const int pairs = half - p0 < kPairs ? half - p0 : kPairs;
    float angle[kPairs], cosine[kPairs], sine[kPairs];
    for (int i = 0; i < pairs; i += kLanes) {
      store(angle + i, load_n(inv_freq + p0 + i, pairs - i) * splat(static_cast<float>(position)));
      cos_sin(angle + i, mscale, cosine + i, sine + i);
    }
    for (int h = 0; h < heads; ++h) {
      const float* from = x + static_cast<int64_t>(h) * head_dim;
      float* to = out + static_cast<int64_t>(h) * head_dim;
      for (int i = 0; i < pairs; i += kLanes) {
        const int n = pairs - i < kLanes ? pairs - i : kLanes;
        if (!interleaved) {
          turn(from + p0 + i, from + half + p0 + i, cosine + i, sine + i, to + p0 + i, to + half + p0 + i, n);
        } else if (n == kLanes) {
          turn_interleaved(from + 2 * (p0 + i), cosine + i, sine + i, to + 2 * (p0 + i), kLanes);
        } else {
          turn_interleaved(from + 2 * (p0 + i), cosine + i, sine + i, to + 2 * (p0 + i), n);
        }
      }
    }
  }
  if (x == out || dims == head_dim) return;
  for (int h = 0; h < heads; ++h)
    for (int c = dims; c < head_dim; ++c) out[static_cast<int64_t>(h) * head_dim + c] = x[static_cast<int64_t>(h) * head_dim + c];
}

}  // namespace HW_ISA
}  // namespace hw
