#include "linear/quantise.h"

namespace hw {
namespace HW_ISA {

void quantise_row(const float* x, QuantRows to, int64_t r) {
  int8_t* q = to.q + r * to.cols;
  BlockMeta* meta = to.meta + r * (to.cols / 32);
  for (int64_t c = 0; c < to.cols; c += 32) quantise_block(load(x + c), load(x + c + kLanes), q + c, meta + c / 32);
}

}  // namespace HW_ISA
}  // namespace hw
