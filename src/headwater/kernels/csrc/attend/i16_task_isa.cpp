// Attention in format i16 on vectors, for one instruction set.
#include "attend/i16_group_isa.h"

namespace hw {
namespace HW_ISA {

void attend_i16(const AttendJob& job, const AttendTile& tile, int kv_head, int chunk_lo, int chunk_hi, float* partials, float* scratch) {
  i16_task(job, tile, kv_head, chunk_lo, chunk_hi, partials, scratch,
           [&](const Work& w, CodeWork& c, const int32_t* table, const int32_t* next, int r0, int r1, int b0, int b1) {
             vector_rows(job, w, c, kv_head, table, next, r0, r1, b0, b1);
           });
}

}  // namespace HW_ISA
}  // namespace hw
