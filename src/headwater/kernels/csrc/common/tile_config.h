// The shapes of the processor's matrix tiles. Include only from *_amx.cpp files and their headers.
#pragma once

#include <cstdint>

#include "common/simd16.h"

namespace hw {
namespace amx {

struct alignas(64) TileConfig {
  uint8_t palette = 1, start = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};

  HW_INLINE_MEMBER void load() const {
    __asm__ volatile("ldtilecfg %0" ::"m"(*this));  // all of it: gcc's intrinsic names only the first eight bytes
  }
};

}  // namespace amx
}  // namespace hw
