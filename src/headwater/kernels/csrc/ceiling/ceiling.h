// What the machine can do at most, measured with our own instruction mix: the other side of every fraction in `headwater bench kernels`.
#pragma once

#include <cstdint>

#include "common/isa.h"

namespace hw {

HW_DECLARE(
    // Reads `bytes` (a multiple of 64 * streams) as `streams` parallel sequential streams; the value keeps the loads alive.
    int32_t read_streams(const uint8_t* data, int64_t bytes, int streams);
    // The product tile of many rows with everything in L1: `blocks` blocks of 32 columns, float step included. Returns the operations (2 per
    // multiply-add of a weight code and an activation code) done.
    int64_t dot_ceiling(int64_t blocks);
    // Fused multiply-adds in registers; returns the floating-point operations done.
    int64_t fma_ceiling(int64_t steps);)

#if defined(HW_HAS_AMX)
namespace amx {
int64_t dot_ceiling(int64_t blocks);  // the same for matrix tiles
}
#endif

}  // namespace hw
