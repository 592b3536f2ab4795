#include "rope.h"

#include <algorithm>
#include <stdexcept>

#include "common/pool.h"

namespace hw {

void rope(ThreadPool& pool, const Step& step, const float* x, int64_t x_stride, int heads, int head_dim, const float* inv_freq, int dims,
          bool interleaved, float mscale, float* out, int64_t out_stride) {
  if (dims < 0 || dims % 2 || dims > head_dim) throw std::invalid_argument("rope: dims must be even and at most head_dim");
  const auto turn = HW_SELECT(rope_token);
  constexpr int kPiece = 16;
  const auto some = [&](int task, int) {
    for (int t = task * kPiece; t < std::min((task + 1) * kPiece, step.n_tokens); ++t) {
      turn(step.positions[t], x + t * x_stride, heads, head_dim, inv_freq, dims, interleaved, mscale, out + t * out_stride);
    }
  };
  const int pieces = (step.n_tokens + kPiece - 1) / kPiece;
  if (pieces == 1) {
    some(0, 0);
  } else {
    pool.parallel_for(pieces, some);
  }
}

}  // namespace hw
