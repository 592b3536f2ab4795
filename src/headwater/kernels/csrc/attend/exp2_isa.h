// The exponential of soft-max: attention and sampling work in base 2, where range reduction is one subtraction.
#pragma once

#include "common/simd16.h"

namespace hw {
namespace HW_ISA {

constexpr float kLog2e = 1.44269504088896341f;

// 2^x for x <= 0 with a relative error below 2e-7: a degree-5 polynomial (minimax on |r| <= 1/2, value 1 at 0). Below -126 it is 0; NaN stays.
HW_INLINE F32x16 exp2_16(F32x16 x) {
  const I32x16 n = to_int(x);
  const F32x16 r = x - to_float(n);
  F32x16 p = splat(1.326472731e-03f);
  p = fma(p, r, splat(9.671512991e-03f));
  p = fma(p, r, splat(5.550733581e-02f));
  p = fma(p, r, splat(2.402224243e-01f));
  p = fma(p, r, splat(6.931470037e-01f));
  p = fma(p, r, splat(1.0f));
  return select(less(x, splat(-126.0f)), zero16(), p * power_of_two(n));
}

}  // namespace HW_ISA
}  // namespace hw
