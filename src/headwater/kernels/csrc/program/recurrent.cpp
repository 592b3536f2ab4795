// Recurrent operations of a program, and their second life: inputs of rows with guesses are kept, so that a state takes in what held and no more.
#include <algorithm>
#include <array>

#include "program/program.h"
#include "rows/recurrent.h"

namespace hw {

void run_recurrent(ThreadPool& pool, const Step& step, const Op& op, const StateView& state, const float* const* x, const int64_t* stride, float* out,
                   int64_t out_stride) {
  float* slots = state.data + op.layer * state.slots * state.per_slot;
  if (op.kind == OpKind::short_conv) {
    ShortConv conv;
    conv.x = x[0];
    conv.x_stride = stride[0];
    conv.weight = op.array(0);
    conv.dim = op.inputs[0].dim;
    conv.width = static_cast<int>(op.arrays[0].size() / static_cast<size_t>(conv.dim));
    conv.state = slots;
    conv.activation = op.activation;
    conv.out = out;
    conv.out_stride = out_stride;
    return short_conv(pool, step, conv);
  }
  const GatedDeltaRule rule{x[0], x[1], x[2], x[3], x[4], stride[0], stride[1], stride[2], stride[3], stride[4], op.array(0), op.array(1),
                            op.key_heads, op.value_heads, op.key_dim, op.value_dim, slots, out, out_stride};
  gated_delta(pool, step, rule);
}

void Program::begin_keeping(const Run& run) {
  kept_start_.assign(1, 0);
  for (int i = 0; i < run.n_keep; ++i) {
    kept_start_.push_back(kept_start_.back() + run.step.row_start[run.keep[i] + 1] - run.step.row_start[run.keep[i]]);
  }
  if (run.n_keep) kept_.resize(ops.size());
}

void Program::keep_inputs(const Run& run, const Op& op, const float* const* x, const int64_t* stride) {
  if (!run.n_keep) return;
  std::vector<float>& kept = kept_[static_cast<size_t>(&op - ops.data())];
  const int64_t tokens = kept_start_.back();
  int64_t floats = 0;
  for (const Operand& o : op.inputs) floats += o.dim * tokens;
  kept.resize(static_cast<size_t>(floats));
  float* to = kept.data();
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    for (int r = 0; r < run.n_keep; ++r) {
      for (int t = run.step.row_start[run.keep[r]]; t < run.step.row_start[run.keep[r] + 1]; ++t, to += op.inputs[i].dim) {
        std::copy_n(x[i] + t * stride[i], op.inputs[i].dim, to);
      }
    }
  }
}

void Program::replay(ThreadPool& pool, const Replay& rows, const std::map<std::string, StateView>& states) {
  std::lock_guard<std::mutex> guard(lock_);
  const int64_t tokens = kept_start_.empty() ? 0 : kept_start_.back();
  std::vector<float> out;  // what the layers would say: nobody reads it
  for (size_t i = 0; i < ops.size(); ++i) {
    const Op& op = ops[i];
    if (op.kind != OpKind::short_conv && op.kind != OpKind::gated_delta) continue;
    const int64_t width = buffers[static_cast<size_t>(op.out)].dim;
    out.resize(std::max(out.size(), static_cast<size_t>(width * tokens)));
    for (int r = 0; r < rows.n; ++r) {
      const int first = kept_start_[static_cast<size_t>(rows.which[r])], row_start[2] = {0, rows.counts[r]};
      Step step;
      step.row_start = row_start;
      step.state_in = rows.state_in + r;
      step.state_out = rows.state_out + r;
      step.n_tokens = rows.counts[r];
      step.n_rows = 1;
      std::array<const float*, 5> x{};
      std::array<int64_t, 5> stride{};
      const float* at = kept_[i].data();
      for (size_t k = 0; k < op.inputs.size(); ++k) {
        stride[k] = op.inputs[k].dim;
        x[k] = at + first * stride[k];
        at += tokens * stride[k];
      }
      run_recurrent(pool, step, op, states.at(op.state), x.data(), stride.data(), out.data(), width);
    }
  }
}

}  // namespace hw
