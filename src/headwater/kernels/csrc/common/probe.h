#pragma once

#include <cstdint>

#include "common/isa.h"

namespace hw {
HW_DECLARE(bool probe16(int op, const float* x, const float* y, float* out, int64_t n))
}
