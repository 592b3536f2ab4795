#include "common/isa.h"

#include <atomic>

#if defined(__x86_64__)
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#endif

namespace hw {
namespace {

#if defined(__x86_64__) && defined(__linux__) && defined(HW_HAS_AMX)
// The processor has tiles of int8 products, the system saves them, and this process may use them (Linux hands them out on request).
bool tiles_granted() {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  constexpr unsigned kTile = 1u << 24, kInt8 = 1u << 25, kSaved = 3u << 17;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & kTile) == 0 || (d & kInt8) == 0) return false;
  if (!__get_cpuid(1, &a, &b, &c, &d) || (c & (1u << 27)) == 0) return false;  // OSXSAVE: xgetbv may be executed
  unsigned low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (low & kSaved) == kSaved && syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}
#else
bool tiles_granted() { return false; }
#endif

Isa best_isa() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c") &&
                    __builtin_cpu_supports("bmi2");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vnni");
  if (avx512) return tiles_granted() ? Isa::amx : Isa::avx512;
  return avx2 ? Isa::avx2 : Isa::portable;
#else
  return Isa::portable;
#endif
}

std::atomic<int>& active() {
  static std::atomic<int> isa{static_cast<int>(detected_isa())};
  return isa;
}

}  // namespace

Isa detected_isa() {
  static const Isa best = best_isa();
  return best;
}

Isa active_isa() { return static_cast<Isa>(active().load(std::memory_order_relaxed)); }

bool set_active_isa(Isa isa) {
  if (isa > detected_isa()) return false;
  active().store(static_cast<int>(isa), std::memory_order_relaxed);
  return true;
}

}  // namespace hw
