// Large anonymous mappings that ask for huge pages: what is read at random in hundreds of megabytes spends its time in page walks without them.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <new>

namespace hw {

// Zeroed; throws std::bad_alloc. unmap with the same size.
inline void* map_pages(size_t bytes) {
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) throw std::bad_alloc();
#if defined(MADV_HUGEPAGE)
  madvise(p, bytes, MADV_HUGEPAGE);  // a wish: without huge pages everything works, with more TLB misses
#endif
  return p;
}

inline void unmap_pages(void* p, size_t bytes) { munmap(p, bytes); }

// For containers that may be large: from one huge page on they have a mapping of their own.
template <class T>
struct PageAllocator {
  using value_type = T;
  static constexpr size_t kLarge = 2u << 20;  // bytes
  PageAllocator() = default;
  template <class U>
  PageAllocator(const PageAllocator<U>&) {}
  T* allocate(size_t n) { return static_cast<T*>(n * sizeof(T) < kLarge ? ::operator new(n * sizeof(T)) : map_pages(n * sizeof(T))); }
  void deallocate(T* p, size_t n) {
    if (n * sizeof(T) < kLarge) ::operator delete(p);
    else unmap_pages(p, n * sizeof(T));
  }
  bool operator==(const PageAllocator&) const { return true; }
};

}  // namespace hw
