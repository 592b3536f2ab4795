#include "linear/quantise.h"

namespace hw {
namespace HW_ISA {

void quantise_row(const float* x, QuantRows to, int64_t r) {
  int8_t* q = to.q + r * to.cols;
  BlockMeta* meta = to.meta + r * (to.cols / 32);
  for (int64_t b = 0; b < to.cols / 32; b += kScaleBlocks) {
    const int64_t left = to.cols / 32 - b;
    quantise_blocks(x + 32 * b, left < kScaleBlocks ? static_cast<int>(left) : kScaleBlocks, q + 32 * b, meta + b);
  }
}

}  // namespace HW_ISA
}  // namespace hw
