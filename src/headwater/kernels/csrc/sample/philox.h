// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011): a draw is a function of its key and counter alone.
#pragma once

#include <cstdint>

namespace hw {

struct Philox4 {
  uint32_t v[4];
};

static inline Philox4 philox4x32(Philox4 counter, uint32_t key0, uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53u} * counter.v[0], b = uint64_t{0xCD9E8D57u} * counter.v[2];
    counter = {{static_cast<uint32_t>(b >> 32) ^ counter.v[1] ^ key0, static_cast<uint32_t>(b),
                static_cast<uint32_t>(a >> 32) ^ counter.v[3] ^ key1, static_cast<uint32_t>(a)}};
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return counter;
}

// Uniform in [0, 1) with 53 bits. key: the seed; counter: absolute position, then `stream` (0 = the draw of the token at that position).
static inline double uniform_at(uint64_t seed, uint64_t position, uint32_t stream) {
  const Philox4 r = philox4x32({{static_cast<uint32_t>(position), static_cast<uint32_t>(position >> 32), stream, 0}},
                               static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32));
  return static_cast<double>((uint64_t{r.v[0]} << 32 | r.v[1]) >> 11) * (1.0 / 9007199254740992.0);
}

}  // namespace hw
