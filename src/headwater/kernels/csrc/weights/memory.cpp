#include "weights/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <mutex>
#include <new>

namespace hw {

struct Slab {
  uint8_t* base = nullptr;
  size_t size = 0, used = 0;
  ~Slab() {
    if (base) munmap(base, size);
  }
};

namespace {

constexpr size_t kHuge = 2u << 20, kSlab = 64u << 20;
std::mutex g_lock;
std::weak_ptr<Slab> g_current;

std::shared_ptr<Slab> map_slab(size_t size) {
  auto slab = std::make_shared<Slab>();
  void* p = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) throw std::bad_alloc();
#if defined(MADV_HUGEPAGE)
  madvise(p, size, MADV_HUGEPAGE);  // a wish: without huge pages everything works, with more TLB misses
#endif
  slab->base = static_cast<uint8_t*>(p);
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
