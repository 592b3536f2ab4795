#include "rows/recurrent.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace hw {

void short_conv(ThreadPool& pool, const Step& step, const ShortConv& conv) {
  constexpr int64_t kChannels = 64;
  const auto run = HW_SELECT(short_conv_channels);
  pool.parallel_for(static_cast<int>((conv.dim + kChannels - 1) / kChannels), [&](int task, int) {
    run(step, conv, task * kChannels, std::min<int64_t>(conv.dim, (task + 1) * kChannels));
  });
}

void gated_delta(ThreadPool& pool, const Step& step, const GatedDeltaRule& rule) {
  const auto run = HW_SELECT(gated_delta_head);
  pool.parallel_for(step.n_rows * rule.value_heads, [&](int task, int) {
    const int row = task / rule.value_heads, head = task % rule.value_heads;
    const int begin = step.row_start[row], n = step.row_start[row + 1] - begin;
    const size_t aside = step.state_out[row] < 0 ? static_cast<size_t>(rule.value_dim) * static_cast<size_t>(rule.key_dim) : 0;
    std::vector<float> memory(2 * static_cast<size_t>(n) + 2 * static_cast<size_t>(rule.key_dim) + aside);
    float *alpha = memory.data(), *beta = alpha + n;
    for (int i = 0; i < n; ++i) {  // one scalar a token: double, so that the rounded float does not depend on the C library
      const double raw = double{rule.decay[(begin + i) * rule.decay_stride + head]} + double{rule.dt_bias[head]};
      const double softplus = raw > 30.0 ? raw : std::log1p(std::exp(raw));
      alpha[i] = static_cast<float>(std::exp(-std::exp(double{rule.a_log[head]}) * softplus));
      beta[i] = static_cast<float>(1.0 / (1.0 + std::exp(-double{rule.beta[(begin + i) * rule.beta_stride + head]})));
    }
    run(step, rule, row, head, alpha, beta, beta + n);
  });
}

}  // namespace hw
