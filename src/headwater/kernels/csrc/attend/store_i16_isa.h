// Rounds keys and values to cache format i16 and puts them in their places (i16.h).
#pragma once

#include <cstring>

#include "attend/i16_isa.h"

namespace hw {
namespace HW_ISA {

// One key: fours of channels lie together, position by position.
inline void store_i16_key(int dim, const float* x, char* block, int slot) {
  char codes[2][kI16Widest];
  CodeSums unused;
  reinterpret_cast<float*>(block + 2 * i16_plane(dim))[slot] = scaled_codes(x, dim, {128, 64}, codes[0], codes[1], unused);
  for (int half = 0; half < 2; ++half) {
    char* to = block + half * i16_plane(dim) + slot * 4;
    for (int d = 0; d < dim; d += 4) std::memcpy(to + d * kBlockTokens, codes[half] + d, 4);
  }
}

// to[4 d + i] = codes[d]
HW_INLINE void put_every_fourth(const uint8_t* codes, int dim, char* to, int i) {
#if defined(HW_ISA_avx512)
  for (int d = 0; d < dim; d += kLanes) {
    const __m512i four = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(codes + d)));
    _mm512_mask_storeu_epi8(to + 4 * d, 0x1111111111111111ull << i, _mm512_sll_epi32(four, _mm_cvtsi32_si128(8 * i)));
  }
#else
  for (int d = 0; d < dim; ++d) to[4 * d + i] = static_cast<char>(codes[d]);
#endif
}

// `count` values from `slot` on: fours of positions lie together, channel by channel.
inline void store_i16_values(int dim, const float* x, int64_t stride, char* block, int slot, int count) {
  uint8_t codes[2][4][kI16Widest];
  for (const int stop = slot + count; slot < stop;) {
    const int first = slot % 4, n = stop - slot < 4 - first ? stop - slot : 4 - first;
    for (int i = 0; i < n; ++i, x += stride) {
      reinterpret_cast<float*>(block + 2 * i16_plane(dim))[slot + i] = exponent_codes(x, dim, codes[0][first + i], codes[1][first + i]);
    }
    for (int half = 0; half < 2; ++half) {
      char* to = block + half * i16_plane(dim) + slot / 4 * 4 * dim;
      if (n == 4) {
        const uint8_t(&c)[4][kI16Widest] = codes[half];
        for (int d = 0; d < dim; ++d) {
          const uint32_t four = c[0][d] | uint32_t{c[1][d]} << 8 | uint32_t{c[2][d]} << 16 | uint32_t{c[3][d]} << 24;
          std::memcpy(to + 4 * d, &four, 4);
        }
        continue;
      }
      for (int i = first; i < first + n; ++i) put_every_fourth(codes[half][i], dim, to, i);
    }
    slot += n;
  }
}

}  // namespace HW_ISA
}  // namespace hw
