#include "weights/blocks.h"

#include <cstring>

#include "weights/layout.h"

namespace hw {
namespace {

uint16_t u16(const uint8_t* p) {
  uint16_t v;
  std::memcpy(&v, p, 2);
  return v;
}

uint16_t negated(uint16_t f16) { return f16 ^ 0x8000u; }

void nibbles(const uint8_t* p, uint8_t* q) {  // 16 bytes -> 32 codes, low halves first
  for (int i = 0; i < 16; ++i) {
    q[i] = p[i] & 15;
    q[i + 16] = p[i] >> 4;
  }
}

void add_fifth_bits(const uint8_t* p, uint8_t* q) {
  uint32_t bits;
  std::memcpy(&bits, p, 4);
  for (int i = 0; i < 32; ++i) q[i] = static_cast<uint8_t>(q[i] | (bits >> i & 1u) << 4);
}

void q8_0(const uint8_t* b, BlockCodes& o) {
  o.d = u16(b);
  for (int i = 0; i < 32; ++i) o.q[i] = b[2 + i] ^ 0x80;
}
void q4_0(const uint8_t* b, BlockCodes& o) {
  o.d = u16(b);
  nibbles(b + 2, o.q);
}
void q4_1(const uint8_t* b, BlockCodes& o) {
  o.d = u16(b);
  o.minimum = u16(b + 2);
  nibbles(b + 4, o.q);
}
void q5_0(const uint8_t* b, BlockCodes& o) {
  o.d = u16(b);
  nibbles(b + 6, o.q);
  add_fifth_bits(b + 2, o.q);
}
void q5_1(const uint8_t* b, BlockCodes& o) {
  o.d = u16(b);
  o.minimum = u16(b + 2);
  nibbles(b + 8, o.q);
  add_fifth_bits(b + 4, o.q);
}

constexpr int8_t kIq4[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

void iq4_nibbles(const uint8_t* p, uint8_t* q) {
  nibbles(p, q);
  for (int i = 0; i < 32; ++i) q[i] = static_cast<uint8_t>(kIq4[q[i]]) ^ 0x80;
}
void iq4_nl(const uint8_t* b, BlockCodes& o) {
  o.d = u16(b);
  iq4_nibbles(b + 2, o.q);
}
void iq4_xs(const uint8_t* b, BlockCodes& o) {
  o.d = u16(b);
  const unsigned high = u16(b + 2);
  for (int i = 0; i < 8; ++i) {
    const unsigned low = b[4 + i / 2] >> 4 * (i % 2) & 15u;
    o.sub[i] = static_cast<int8_t>(static_cast<int>(low | (high >> 2 * i & 3u) << 4) - 32);
    iq4_nibbles(b + 8 + 16 * i, o.q + 32 * i);
  }
}

void six_bit_pairs(const uint8_t* s, BlockCodes& o) {
  for (int i = 0; i < 4; ++i) {
    o.sub[i] = static_cast<int8_t>(s[i] & 63);
    o.submin[i] = s[i + 4] & 63;
    o.sub[i + 4] = static_cast<int8_t>((s[i + 8] & 15) | s[i] >> 6 << 4);
    o.submin[i + 4] = static_cast<uint8_t>(s[i + 8] >> 4 | s[i + 4] >> 6 << 4);
  }
}
void q4_k(const uint8_t* b, BlockCodes& o) {
  o.d = u16(b);
  o.minimum = negated(u16(b + 2));
  six_bit_pairs(b + 4, o);
  for (int n = 0; n < 4; ++n) {
    for (int i = 0; i < 32; ++i) {
      o.q[64 * n + i] = b[16 + 32 * n + i] & 15;
      o.q[64 * n + 32 + i] = b[16 + 32 * n + i] >> 4;
    }
  }
}
void q5_k(const uint8_t* b, BlockCodes& o) {
  o.d = u16(b);
  o.minimum = negated(u16(b + 2));
  six_bit_pairs(b + 4, o);
  for (int n = 0; n < 4; ++n) {
    for (int i = 0; i < 32; ++i) {
      const unsigned high = b[16 + i];
      o.q[64 * n + i] = static_cast<uint8_t>((b[48 + 32 * n + i] & 15) | (high >> 2 * n & 1u) << 4);
      o.q[64 * n + 32 + i] = static_cast<uint8_t>(b[48 + 32 * n + i] >> 4 | (high >> (2 * n + 1) & 1u) << 4);
    }
  }
}
void q6_k(const uint8_t* b, BlockCodes& o) {
  o.d = u16(b + 208);
  std::memcpy(o.sub, b + 192, 16);
  for (int n = 0; n < 2; ++n) {
    const uint8_t *ql = b + 64 * n, *qh = b + 128 + 32 * n;
    uint8_t* q = o.q + 128 * n;
    for (int i = 0; i < 32; ++i) {
      q[i] = static_cast<uint8_t>((ql[i] & 15) | (qh[i] & 3) << 4);
      q[i + 32] = static_cast<uint8_t>((ql[i + 32] & 15) | (qh[i] >> 2 & 3) << 4);
      q[i + 64] = static_cast<uint8_t>(ql[i] >> 4 | (qh[i] >> 4 & 3) << 4);
      q[i + 96] = static_cast<uint8_t>(ql[i + 32] >> 4 | (qh[i] >> 6) << 4);
    }
  }
}
void q2_k(const uint8_t* b, BlockCodes& o) {
  o.d = u16(b + 80);
  o.minimum = negated(u16(b + 82));
  for (int i = 0; i < 16; ++i) {
    o.sub[i] = static_cast<int8_t>(b[i] & 15);
    o.submin[i] = b[i] >> 4;
  }
  for (int i = 0; i < 256; ++i) o.q[i] = b[16 + 32 * (i / 128) + i % 32] >> 2 * (i / 32 % 4) & 3;
}
void q3_k(const uint8_t* b, BlockCodes& o) {  // three-bit codes with offset 4, kept as the six-bit codes with offset 32 that mean the same
  o.d = u16(b + 108);
  const uint8_t* s = b + 96;
  for (int i = 0; i < 16; ++i) {
    const int low = i < 8 ? s[i] & 15 : s[i - 8] >> 4, top = s[8 + i % 4] >> 2 * (i / 4) & 3;
    o.sub[i] = static_cast<int8_t>((low | top << 4) - 32);
  }
  for (int i = 0; i < 256; ++i) {
    const int low = b[32 + 32 * (i / 128) + i % 32] >> 2 * (i / 32 % 4) & 3, high = b[i % 32] >> (i / 32) & 1;
    o.q[i] = static_cast<uint8_t>((low | high << 2) + 28);
  }
}

constexpr BlockFormat kFormats[] = {
    {"F32", 1, 4, kPackedF32, nullptr},       {"F16", 1, 2, kPackedF16, nullptr},       {"BF16", 1, 2, kPackedBF16, nullptr},
    {"Q8_0", 32, 34, kPackedQ8, q8_0, 2},        {"IQ4_NL", 32, 18, kPackedQ8, iq4_nl},    {"Q4_0", 32, 18, kPackedQ4, q4_0, 2},
    {"Q4_1", 32, 20, kPackedQ4M, q4_1, 4},       {"Q5_0", 32, 22, kPackedQ5, q5_0},        {"Q5_1", 32, 24, kPackedQ5M, q5_1},
    {"IQ4_XS", 256, 136, kPackedQ8S, iq4_xs}, {"Q4_K", 256, 144, kPackedQ4K, q4_k},     {"Q5_K", 256, 176, kPackedQ5K, q5_k},
    {"Q6_K", 256, 210, kPackedQ6K, q6_k},     {"Q3_K", 256, 110, kPackedQ6K, q3_k},     {"Q2_K", 256, 84, kPackedQ2K, q2_k},
};

}  // namespace

const BlockFormat* find_block_format(const char* name) {
  for (const BlockFormat& format : kFormats)
    if (std::strcmp(format.name, name) == 0) return &format;
  return nullptr;
}

}  // namespace hw
