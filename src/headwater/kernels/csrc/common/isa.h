// Which instruction set runs: detected once by cpuid, overridable before the first kernel call (HEADWATER_ISA, read in Python).
#pragma once

namespace hw {

// amx is avx512 with the products of many rows on matrix tiles (linear/linear_amx.cpp).
enum class Isa : int { portable = 0, avx2 = 1, avx512 = 2, amx = 3 };

Isa detected_isa();              // best one that this processor supports
Isa active_isa();                // the one in use
bool set_active_isa(Isa isa);    // false, and nothing changes, when the processor cannot run it

}  // namespace hw

// HW_DECLARE(void f(int)) declares the per-instruction-set versions of a function; HW_SELECT(f) is a pointer to the active one.
#if defined(__x86_64__)
#define HW_DECLARE(...)              \
  namespace portable { __VA_ARGS__; } \
  namespace avx2 { __VA_ARGS__; }     \
  namespace avx512 { __VA_ARGS__; }
#define HW_SELECT(fn) \
  (::hw::active_isa() >= ::hw::Isa::avx512 ? &::hw::avx512::fn : ::hw::active_isa() == ::hw::Isa::avx2 ? &::hw::avx2::fn : &::hw::portable::fn)
#else
#define HW_DECLARE(...) \
  namespace portable { __VA_ARGS__; }
#define HW_SELECT(fn) (&::hw::portable::fn)
#endif
