#pragma once

#include <cstdint>

#include "common/pool.h"
#include "weights/blocks.h"

namespace hw {

// raw: [rows][cols / format.columns] blocks -> out: the packed layout, kLayouts[format.layout].group_bytes(cols) per 16 rows.
void pack_weight(ThreadPool& pool, const BlockFormat& format, const uint8_t* raw, int64_t rows, int64_t cols, uint8_t* out);

}  // namespace hw
