#include "common/isa.h"

#include <atomic>

namespace hw {

Isa detected_isa() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c") &&
                    __builtin_cpu_supports("bmi2");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vnni");
  return avx512 ? Isa::avx512 : avx2 ? Isa::avx2 : Isa::portable;
#else
  return Isa::portable;
#endif
}

static std::atomic<int>& active() {
  static std::atomic<int> isa{static_cast<int>(detected_isa())};
  return isa;
}

Isa active_isa() { return static_cast<Isa>(active().load(std::memory_order_relaxed)); }

bool set_active_isa(Isa isa) {
  if (isa > detected_isa()) return false;
  active().store(static_cast<int>(isa), std::memory_order_relaxed);
  return true;
}

}  // namespace hw
