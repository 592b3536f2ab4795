// Where a tile gets its weights: straight from the packed layout (few tokens) or from a panel that was unpacked once (many tokens).
// Include only from *_isa.cpp files.
#pragma once

#include "common/simd16.h"
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
  static constexpr int BITS = BITS_, GRAN = GRAN_, OFFSET_LOG2 = OFFSET_LOG2_;
  static constexpr bool HAS_MIN = HAS_MIN_;
  static constexpr int HALVES = 32 / GRAN_;
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

// A group of 16 rows unpacked: codes [blocks][8 quads][64], scales and minima float [blocks][halves][16].
template <class K>
struct Panel : K {
  uint8_t* codes = nullptr;
  float *scales = nullptr, *minima = nullptr;

  static constexpr int64_t bytes(int64_t blocks) { return blocks * (512 + K::HALVES * (K::HAS_MIN ? 128 : 64)); }
  HW_INLINE_MEMBER void place(uint8_t* memory, int64_t blocks) {
    codes = memory;
    scales = reinterpret_cast<float*>(memory + 512 * blocks);
    minima = scales + K::HALVES * kLanes * blocks;
  }
  template <class S>
  HW_INLINE_MEMBER void fill(const S& from, int64_t blocks) {
    for (int64_t b = 0; b < blocks; ++b) {
      HW_UNROLL(4)
      for (int p = 0; p < 4; ++p) {
        U8x64 w0, w1;
        from.pair(b, p, w0, w1);
        store_bytes(codes + 512 * b + 128 * p, w0);
        store_bytes(codes + 512 * b + 128 * p + 64, w1);
      }
      for (int half = 0; half < K::HALVES; ++half) {
        store(scales + (b * K::HALVES + half) * kLanes, from.scale(b, half));
        if constexpr (K::HAS_MIN) store(minima + (b * K::HALVES + half) * kLanes, from.minimum(b, half));
      }
    }
  }
  HW_INLINE_MEMBER void ahead(int64_t, int64_t, int) const {}
  HW_INLINE_MEMBER void pair(int64_t b, int p, U8x64& w0, U8x64& w1) const {
    w0 = load_bytes(codes + 512 * b + 128 * p);
    w1 = load_bytes(codes + 512 * b + 128 * p + 64);
  }
  HW_INLINE_MEMBER F32x16 scale(int64_t b, int half) const { return load(scales + (b * K::HALVES + half) * kLanes); }
  HW_INLINE_MEMBER F32x16 minimum(int64_t b, int half) const { return load(minima + (b * K::HALVES + half) * kLanes); }
};

}  // namespace HW_ISA
}  // namespace hw
