// Where a tile gets its weights: straight from the packed layout (few tokens), or as whole codes from a panel that was unpacked once (many
// tokens). Include only from *_isa.cpp files.
#pragma once

#include "common/simd16.h"
#include "linear/quant.h"
#include "weights/layout.h"

namespace hw {
namespace HW_ISA {

// Quads 2p and 2p + 1 of a packed block.
template <int BITS>
HW_INLINE void unpack_pair(const uint8_t* block, int p, U8x64& w0, U8x64& w1) {
  if constexpr (BITS == 8) {
    w0 = load_bytes(block + 128 * p);
    w1 = load_bytes(block + 128 * p + 64);
    return;
  }
  if constexpr (BITS >= 4 && BITS < 8) {
    const U8x64 v = load_bytes(block + 64 * p);
    w0 = bits_and(v, 15);
    w1 = bits_and(shift_right<4>(v), 15);
  }
  if constexpr (BITS == 5) {  // bit 2p and 2p + 1 of the plane -> bit 4
    const U8x64 plane = load_bytes(block + 256);
    const U8x64 h0 = p == 0 ? shift_left<4>(plane) : p == 1 ? shift_left<2>(plane) : p == 2 ? plane : shift_right<2>(plane);
    const U8x64 h1 = p == 0 ? shift_left<3>(plane) : p == 1 ? shift_left<1>(plane) : p == 2 ? shift_right<1>(plane) : shift_right<3>(plane);
    w0 = bits_or(w0, bits_and(h0, 16));
    w1 = bits_or(w1, bits_and(h1, 16));
  }
  if constexpr (BITS == 6) {  // two bits of plane p / 2 -> bits 4 and 5
    const U8x64 plane = load_bytes(block + 256 + 64 * (p / 2));
    const U8x64 h0 = p % 2 == 0 ? shift_left<4>(plane) : plane;
    const U8x64 h1 = p % 2 == 0 ? shift_left<2>(plane) : shift_right<2>(plane);
    w0 = bits_or(w0, bits_and(h0, 48));
    w1 = bits_or(w1, bits_and(h1, 48));
  }
  if constexpr (BITS == 2) {
    const U8x64 plane = load_bytes(block + 64 * (p / 2));
    w0 = bits_and(p % 2 == 0 ? plane : shift_right<4>(plane), 3);
    w1 = bits_and(p % 2 == 0 ? shift_right<2>(plane) : shift_right<6>(plane), 3);
  }
}

// What decides the arithmetic of a tile; layouts that differ only in how scales are stored share it.
template <int BITS_, int GRAN_, int OFFSET_LOG2_, bool HAS_MIN_>
struct Kind {
  static constexpr int BITS = BITS_, GRAN = GRAN_, OFFSET_LOG2 = OFFSET_LOG2_, HALVES = 32 / GRAN_;
  static constexpr bool HAS_MIN = HAS_MIN_;
};

template <int ID>
struct Packed : Kind<kLayouts[ID].bits, kLayouts[ID].gran, kLayouts[ID].offset_log2, kLayouts[ID].has_min> {
  static constexpr Layout L = kLayouts[ID];
  const uint8_t* base = nullptr;

  HW_INLINE_MEMBER const uint8_t* chunk(int64_t b) const { return base + b / L.blocks() * L.chunk_bytes(); }
  HW_INLINE_MEMBER const uint8_t* block(int64_t b) const { return chunk(b) + L.header_bytes() + b % L.blocks() * L.block_bytes(); }
  // Asks for the bytes of block b, which may lie behind this group: then for the same place `groups` groups further on, where the thread goes
  // next. Without it the hardware's own prefetch falls behind, and memory and arithmetic take turns.
  HW_INLINE_MEMBER void ahead(int64_t b, int64_t blocks, int groups) const {
    constexpr int kBytes = L.chunk_bytes() / L.blocks();
    const uint8_t* at = b < blocks ? base + b * kBytes : base + groups * L.group_bytes(32 * blocks) + (b - blocks) * kBytes;
    HW_UNROLL(10)
    for (int i = 0; i < kBytes; i += 64) __builtin_prefetch(at + i);
  }
  HW_INLINE_MEMBER void pair(int64_t b, int p, U8x64& w0, U8x64& w1) const { unpack_pair<L.bits>(block(b), p, w0, w1); }
  HW_INLINE_MEMBER F32x16 scale(int64_t b, int half) const {
    const uint8_t* header = chunk(b);
    if constexpr (!L.two_level) return load_f16(reinterpret_cast<const uint16_t*>(header) + b % L.blocks() * kLanes);
    const uint8_t* sub = header + 64 + (b % 8 * (32 / L.gran) + half) * kLanes;
    return load_f16(reinterpret_cast<const uint16_t*>(header)) *
           (L.has_min ? load_u8(sub) : load_i8(reinterpret_cast<const int8_t*>(sub)));
  }
  HW_INLINE_MEMBER F32x16 minimum(int64_t b, int half) const {
    const uint8_t* header = chunk(b);
    const F32x16 m = load_f16(reinterpret_cast<const uint16_t*>(header + 32));
    if constexpr (!L.two_level) return m;
    return m * load_u8(header + 64 + (L.subs() + b % 8 * (32 / L.gran) + half) * kLanes);
  }
};

// The whole numbers of one span (ADR 008): the code of a weight is step * (q - offset) + base, its value code * scale.
template <class S>
struct Grid {
  static constexpr int SUBS = kSpanBlocks * S::HALVES;
  I32x16 step[SUBS], base[SUBS];  // per block, or half block; base counts only for layouts with a minimum
  F32x16 scale;

  HW_INLINE_MEMBER void make(const S& source, int64_t first, int blocks) {
    constexpr float kHighest = (1 << S::BITS) - 1;
    F32x16 d[SUBS], m[SUBS], top = zero16();
    for (int i = 0; i < blocks * S::HALVES; ++i) {
      d[i] = source.scale(first + i / S::HALVES, i % S::HALVES);
      if constexpr (S::HAS_MIN) {
        m[i] = source.minimum(first + i / S::HALVES, i % S::HALVES);
        top = max(max(abs(m[i]), abs(fma(d[i], splat(kHighest), m[i]))), top);
      } else {
        top = max(abs(d[i]) * splat(static_cast<float>(1 << (S::BITS - 1))), top);
      }
    }
    const F32x16 inverse = select(less(top, splat(1e-30f)), zero16(), splat(kWeightReach) / top);
    scale = top * splat(1.0f / kWeightReach);
    for (int i = 0; i < blocks * S::HALVES; ++i) {
      const F32x16 exact = d[i] * inverse;
      step[i] = to_int(exact);
      // What rounding took from the step is given back in the middle of the range of q.
      if constexpr (S::HAS_MIN) base[i] = to_int(fma(exact - to_float(step[i]), splat(kHighest / 2), m[i] * inverse));
    }
  }
  // Of unsigned q, two to a lane.
  HW_INLINE_MEMBER void words(int i, I16x32& times, I16x32& plus) const {
    times = twice(step[i]);
    if constexpr (S::HAS_MIN) {
      plus = twice(base[i]);
    } else {
      plus = twice(sub(splat_int(0), shift_left<S::OFFSET_LOG2 < 0 ? 0 : S::OFFSET_LOG2>(step[i])));
    }
  }
};

// A group of 16 rows as whole codes: int16 [blocks][8 quads][columns 0 and 2, columns 1 and 3][16 rows][2], then a scale per span [spans][16].
struct Panel {
  int16_t* codes = nullptr;
  float* scales = nullptr;

  static constexpr int64_t bytes(int64_t blocks) { return blocks * 1024 + spans_of(32 * blocks) * 64; }
  HW_INLINE_MEMBER void place(uint8_t* memory, int64_t blocks) {
    codes = reinterpret_cast<int16_t*>(memory);
    scales = reinterpret_cast<float*>(memory + 1024 * blocks);
  }
  template <class S>
  HW_INLINE_MEMBER void fill(const S& from, int64_t blocks) {
    for (int64_t first = 0; first < blocks; first += kSpanBlocks) {
      const int here = static_cast<int>(blocks - first < kSpanBlocks ? blocks - first : kSpanBlocks);
      Grid<S> grid;
      grid.make(from, first, here);
      store(scales + first / kSpanBlocks * kLanes, grid.scale);
      for (int b = 0; b < here; ++b) {
        I16x32 times, plus;
        HW_UNROLL(4)
        for (int p = 0; p < 4; ++p) {
          if (p % (4 / S::HALVES) == 0) grid.words(b * S::HALVES + p * S::HALVES / 4, times, plus);
          U8x64 w[2];
          from.pair(first + b, p, w[0], w[1]);
          HW_UNROLL(2)
          for (int i = 0; i < 2; ++i) {
            int16_t* to = codes + 512 * (first + b) + 64 * (2 * p + i);
            store_words(to, mul_add(even_bytes(w[i]), times, plus));
            store_words(to + 32, mul_add(odd_bytes(w[i]), times, plus));
          }
        }
      }
    }
  }
};

}  // namespace HW_ISA
}  // namespace hw
