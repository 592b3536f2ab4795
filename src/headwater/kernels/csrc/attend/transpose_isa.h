// A tile of 16 x 16 half-precision numbers, turned.
#pragma once

#include "common/simd16.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace hw {
namespace HW_ISA {

// out[c][i] = tile[i][c] for a tile of 16 tokens and 16 channels.
HW_INLINE void transpose16(const uint16_t* tile, uint16_t* out) {
#if defined(__SSE2__)
  for (int i = 0; i < 16; i += 8) {
    for (int c = 0; c < 16; c += 8) {
      __m128i a[8], b[8];
      for (int r = 0; r < 8; ++r) a[r] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(tile + (i + r) * 16 + c));
      for (int width = 0; width < 3; ++width) {  // each pass interleaves rows r and r + 4: three of them transpose 8 x 8
        for (int r = 0; r < 4; ++r) {
          b[2 * r] = _mm_unpacklo_epi16(a[r], a[r + 4]);
          b[2 * r + 1] = _mm_unpackhi_epi16(a[r], a[r + 4]);
        }
        for (int r = 0; r < 8; ++r) a[r] = b[r];
      }
      for (int r = 0; r < 8; ++r) _mm_storeu_si128(reinterpret_cast<__m128i*>(out + (c + r) * 16 + i), a[r]);
    }
  }
#else
  for (int c = 0; c < 16; ++c)
    for (int i = 0; i < 16; ++i) out[c * 16 + i] = tile[i * 16 + c];
#endif
}

}  // namespace HW_ISA
}  // namespace hw
