// Sixteen-lane primitives on whole arrays, so that tests can compare the instruction sets bit for bit.
#include "common/probe.h"

#include "common/simd16.h"

namespace hw {
namespace HW_ISA {

bool probe16(int op, const float* x, const float* y, float* out, int64_t n) {
  for (int64_t i = 0; i < n; i += kLanes) {
    const int lanes = n - i < kLanes ? static_cast<int>(n - i) : kLanes;
    const F32x16 a = load_n(x + i, lanes), b = load_n(y + i, lanes);
    F32x16 r = zero16();
    switch (op) {
      case 0: r = exp16(a); break;
      case 1: r = tanh16(a); break;
      case 2: r = silu16(a); break;
      case 3: r = gelu_tanh16(a); break;
      case 4: r = max(a, b); break;
      case 5: r = min(a, b); break;
      case 6: r = to_float(to_int(a)); break;
      case 7: {
        uint16_t h[kLanes];
        store_f16(h, a);
        r = load_f16(h);
        break;
      }
      case 8: r = select(mask_and(less(a, b), mask_from_bits(mask_bits(mask_first(11)))), a, b); break;
      case 9: r = splat(sum_lanes(a) + max_lanes(b)); break;
      case 10: {
        int8_t q[kLanes];
        store_i8(q, to_int(a));
        r = load_i8(q) + load_u8(reinterpret_cast<const uint8_t*>(q));
        break;
      }
      default: return false;
    }
    store_n(out + i, r, lanes);
  }
  return true;
}

}  // namespace HW_ISA
}  // namespace hw
