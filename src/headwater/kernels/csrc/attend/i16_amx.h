#pragma once

#include "attend/attend.h"

namespace hw {
namespace amx {

// avx512::attend_i16 with the products of many rows on matrix tiles; the same bits.
void attend_i16(const AttendJob& job, const AttendTile& tile, int kv_head, int chunk_lo, int chunk_hi, float* partials, float* scratch);

}  // namespace amx
}  // namespace hw
