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

void quantise_rest(const float* x, QuantRows first, QuantRows rest, int64_t r) {
  const int8_t* q = first.row(r);
  const BlockMeta* meta = first.row_meta(r);
  alignas(64) float left[32 * kScaleBlocks];
  for (int64_t b = 0; b < first.cols / 32; b += kScaleBlocks) {
    const int blocks = first.cols / 32 - b < kScaleBlocks ? static_cast<int>(first.cols / 32 - b) : kScaleBlocks;
    for (int i = 0; i < blocks; ++i) {
      const F32x16 scale = splat(-meta[b + i].scale);
      for (int h = 0; h < 32; h += kLanes) store(left + 32 * i + h, fma(load_i8(q + 32 * (b + i) + h), scale, load(x + 32 * (b + i) + h)));
    }
    quantise_blocks(left, blocks, rest.q + r * rest.cols + 32 * b, rest.meta + r * (rest.cols / 32) + b);
  }
}

}  // namespace HW_ISA
}  // namespace hw
