// The Walsh-Hadamard transform of one head, in place: what rotated cache formats apply to keys, values and queries (kv_formats.py).
#pragma once

#include <cmath>
#include <cstdint>

#include "common/simd16.h"

namespace hw {
namespace HW_ISA {

// Butterflies h apart: (a, b) -> (a + b, a - b). All instruction sets do the same additions, so bits are the same.
HW_INLINE void butterflies(float* x, int n, int h) {
  if (h >= kLanes) {
    for (int i = 0; i < n; i += 2 * h) {
      for (int j = i; j < i + h; j += kLanes) {
        const F32x16 a = load(x + j), b = load(x + j + h);
        store(x + j, a + b);
        store(x + j + h, a - b);
      }
    }
    return;
  }
#if defined(HW_ISA_avx512) || defined(HW_ISA_avx2)
  for (int i = 0; i < n; i += 8) {
    const __m256 v = _mm256_loadu_ps(x + i);
    if (h == 8) {
      const __m256 w = _mm256_loadu_ps(x + i + 8);
      _mm256_storeu_ps(x + i, _mm256_add_ps(v, w));
      _mm256_storeu_ps(x + i + 8, _mm256_sub_ps(v, w));
      i += 8;
    } else if (h == 4) {
      const __m256 w = _mm256_permute2f128_ps(v, v, 1);
      _mm256_storeu_ps(x + i, _mm256_blend_ps(_mm256_add_ps(v, w), _mm256_sub_ps(w, v), 0xf0));
    } else if (h == 2) {
      const __m256 w = _mm256_permute_ps(v, 0x4e);
      _mm256_storeu_ps(x + i, _mm256_blend_ps(_mm256_add_ps(v, w), _mm256_sub_ps(w, v), 0xcc));
    } else {
      const __m256 w = _mm256_permute_ps(v, 0xb1);
      _mm256_storeu_ps(x + i, _mm256_blend_ps(_mm256_add_ps(v, w), _mm256_sub_ps(w, v), 0xaa));
    }
  }
#else
  for (int i = 0; i < n; i += 2 * h) {
    for (int j = i; j < i + h; ++j) {
      const float a = x[j], b = x[j + h];
      x[j] = a + b;
      x[j + h] = a - b;
    }
  }
#endif
}

// x[dim], dim a multiple of 16: runs of the largest power of two that divides dim, each multiplied by its orthonormal Hadamard matrix.
// The matrix is its own inverse.
inline void hadamard(float* x, int dim) {
  const int run = dim & -dim;
  for (int h = 1; h < run; h *= 2) butterflies(x, dim, h);
  const F32x16 scale = splat(static_cast<float>(1.0 / std::sqrt(static_cast<double>(run))));
  for (int i = 0; i < dim; i += kLanes) store(x + i, load(x + i) * scale);
}

}  // namespace HW_ISA
}  // namespace hw
