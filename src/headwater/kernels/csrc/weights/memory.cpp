#include "weights/memory.h"

#include <algorithm>
#include <mutex>
#include <new>

#include "common/pages.h"

namespace hw {

struct Slab {
  uint8_t* base = nullptr;
  size_t size = 0, used = 0;
  ~Slab() {
    if (base) unmap_pages(base, size);
  }
};

namespace {

constexpr size_t kHuge = 2u << 20, kSlab = 64u << 20;
std::mutex g_lock;
std::weak_ptr<Slab> g_current;

std::shared_ptr<Slab> map_slab(size_t size) {
  auto slab = std::make_shared<Slab>();
  slab->base = static_cast<uint8_t*>(map_pages(size));
  slab->size = size;
  return slab;
}

}  // namespace

Piece allocate_weight_memory(size_t bytes) {
  const size_t rounded = (std::max<size_t>(bytes, 1) + 63) / 64 * 64;
  if (rounded < bytes) throw std::bad_alloc();
  std::lock_guard<std::mutex> lock(g_lock);
  auto slab = g_current.lock();
  if (!slab || slab->size - slab->used < rounded) {
    slab = map_slab(std::max(kSlab, (rounded + kHuge - 1) / kHuge * kHuge));
    g_current = slab;
  }
  uint8_t* data = slab->base + slab->used;
  slab->used += rounded;
  return {slab, data};
}

}  // namespace hw
