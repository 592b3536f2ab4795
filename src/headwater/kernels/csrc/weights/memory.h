// Memory for weights: 64-byte aligned pieces of large mappings that ask for huge pages. A mapping goes when its last piece does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace hw {

struct Slab;

struct Piece {
  std::shared_ptr<Slab> slab;  // keeps the mapping alive
  uint8_t* data = nullptr;
};

Piece allocate_weight_memory(size_t bytes);  // zeroed; throws std::bad_alloc

}  // namespace hw
