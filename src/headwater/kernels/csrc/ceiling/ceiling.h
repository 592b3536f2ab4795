// What the machine can do at most, measured with our own instruction mix: the other side of every fraction in `headwater bench kernels`.
#pragma once

#include <cstdint>

#include "common/isa.h"

namespace hw {

HW_DECLARE(
    // Reads `bytes` (a multiple of 64 * streams) as `streams` parallel sequential streams; the value keeps the loads alive.
    int32_t read_streams(const uint8_t* data, int64_t bytes, int streams);
    // The product tile with weights in registers: `blocks` blocks of 32 columns, scale step included. bits: 4 (with minimum) or 8. Returns
    // the integer operations (2 per multiply-add) done.
    int64_t dot_ceiling(int bits, int64_t blocks);
    // Fused multiply-adds in registers; returns the floating-point operations done.
    int64_t fma_ceiling(int64_t steps);)

#if defined(HW_HAS_AMX)
namespace amx {
int64_t dot_ceiling(int bits, int64_t blocks);  // the same for matrix tiles, rows and weights in L1
}
#endif

}  // namespace hw
