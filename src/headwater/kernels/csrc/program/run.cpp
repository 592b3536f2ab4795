// Executing a program: one switch over operations, rows split over the pool, quantised inputs made once and shared.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <stdexcept>

#include "program/program.h"
#include "rope.h"
#include "rows/recurrent.h"
#include "rows/rows.h"

namespace hw {
namespace {

constexpr int64_t kTaskFloats = 16384;  // row operations: about this much work per task, so that small ones stay on one core

// f(row) for all rows, in tasks of neighbouring rows.
template <class F>
void each_row(ThreadPool& pool, int rows, int64_t floats_per_row, F&& f) {
  const int step = static_cast<int>(std::max<int64_t>(1, kTaskFloats / std::max<int64_t>(1, floats_per_row)));
  pool.parallel_for((rows + step - 1) / step, [&](int task, int) {
    const int end = std::min(rows, (task + 1) * step);
    for (int r = task * step; r < end; ++r) f(r);
  });
}

uint8_t* align64(uint8_t* p) { return p + (64 - reinterpret_cast<uintptr_t>(p) % 64) % 64; }

}  // namespace

struct Program::Frame {
  ThreadPool& pool;
  const Run& run;
  const Program& program;
  Step step;           // of the rows of this frame
  float* arena;        // buffers of all rows
  uint8_t* quant;
  double* seconds;     // by kind of operation
  int chunk = 0;       // 0: buffers lie where recorded; else segments run by rows, `chunk` at a time
  float* own = nullptr;  // this thread's buffers
  int first = 0;         // token that row 0 of this frame is
  int quant_buffer = -1;  // which input the quantised rows belong to
  int64_t quant_start = -1;

  int rows(int buffer) const { return program.buffers[static_cast<size_t>(buffer)].per_read ? step.n_reads : step.n_tokens; }
  int64_t dim(int buffer) const { return program.buffers[static_cast<size_t>(buffer)].dim; }
  int64_t stride(int buffer) const {
    const BufferPlan& b = program.buffers[static_cast<size_t>(buffer)];
    return chunk && b.own ? b.own_stride() : b.dim;
  }
  float* at(const Operand& o) const {  // token rows first, read rows behind them
    const BufferPlan& b = program.buffers[static_cast<size_t>(o.buffer)];
    const int64_t n = run.step.n_tokens, floats = chunk ? program.shared_floats : program.token_floats;
    if (b.per_read) return arena + floats * n + b.offset * run.step.n_reads + o.start;
    if (!chunk) return arena + b.offset * n + o.start;
    if (b.own) return own + b.segment_offset * chunk + o.start;
    return arena + b.segment_offset * n + first * b.dim + o.start;
  }
  QuantRows quant_rows(int n, int64_t cols, int64_t from = 0) const {
    QuantRows q;
    q.meta = reinterpret_cast<BlockMeta*>(quant + from);
    q.q = reinterpret_cast<int8_t*>(quant + from + n * (cols / 32) * static_cast<int64_t>(sizeof(BlockMeta)));
    q.cols = cols;
    return q;
  }
  QuantRows rest_rows(int n, int64_t cols) const { return quant_rows(n, cols, (QuantRows::bytes(n, cols) + 63) / 64 * 64); }
};

int Program::segment_rows(int n_tokens, int threads) {
  constexpr int kRows = 96;  // their buffers nearly fit a second-level cache, and unpacking a weight for them costs little beside its product
  if (n_tokens < 64 * threads) return 0;
  const int tasks = threads * ((n_tokens + kRows * threads - 1) / (kRows * threads));
  return ((n_tokens + tasks - 1) / tasks + 15) / 16 * 16;
}

void Program::run(ThreadPool& pool, const Run& run, float* hidden_out) {
  std::lock_guard<std::mutex> guard(lock_);
  begin_keeping(run);
  const int64_t n = run.step.n_tokens, reads = run.step.n_reads;
  const int threads = pool.threads(), chunk = segment_rows(run.step.n_tokens, threads);
  const int64_t own = (own_floats * chunk + 15) / 16 * 16;
  const size_t floats = static_cast<size_t>((chunk ? shared_floats : token_floats) * n + read_floats * reads + own * threads);
  if (arena_.size() < floats + 32) {
    std::vector<float>().swap(arena_);  // release before growing: never two arenas at once
    arena_.resize(floats + 32);
  }
  const int64_t quant_each = QuantRows::bytes(std::max<int64_t>(chunk ? chunk : n, reads), widest_quant) * (any_fine ? 2 : 1) + 128;
  const size_t bytes = static_cast<size_t>(quant_each * (chunk ? threads : 1) + 64);
  if (quant_.size() < bytes) {
    std::vector<uint8_t>().swap(quant_);
    quant_.resize(bytes);
  }
  auto* arena = reinterpret_cast<float*>(align64(reinterpret_cast<uint8_t*>(arena_.data())));
  Frame frame{pool, run, *this, run.step, arena, align64(quant_.data()), seconds};
  frame.chunk = chunk;
  for (const Segment& segment : segments) {
    if (chunk && segment.rows) {
      run_segment(frame, segment);
    } else {
      for (size_t i = segment.begin; i < segment.end; ++i) timed_execute(frame, ops[i]);
    }
  }
  const Operand out{hidden, 0, hidden_dim()};
  std::memcpy(hidden_out, frame.at(out), static_cast<size_t>(reads * out.dim) * sizeof(float));
}

void Program::run_segment(Frame& frame, const Segment& segment) {
  const int n = frame.run.step.n_tokens, chunk = frame.chunk, threads = frame.pool.threads();
  const int64_t own = (own_floats * chunk + 15) / 16 * 16;
  float* own_memory = frame.arena + shared_floats * n + read_floats * frame.run.step.n_reads;
  own_memory = reinterpret_cast<float*>(align64(reinterpret_cast<uint8_t*>(own_memory)));
  const int64_t quant_each = (QuantRows::bytes(std::max(chunk, frame.run.step.n_reads), widest_quant) * (any_fine ? 2 : 1) + 127) / 64 * 64;
  std::vector<std::array<double, static_cast<size_t>(OpKind::count)>> spent(static_cast<size_t>(threads));
  frame.pool.parallel_for((n + chunk - 1) / chunk, [&](int task, int thread) {
    Frame mine = frame;
    mine.first = task * chunk;
    mine.step.tokens += mine.first;
    mine.step.positions += mine.first;
    mine.step.n_tokens = std::min(chunk, n - mine.first);
    mine.own = own_memory + own * thread;
    mine.quant = frame.quant + quant_each * thread;
    mine.quant_buffer = -1;
    mine.seconds = spent[static_cast<size_t>(thread)].data();
    for (size_t i = segment.begin; i < segment.end; ++i) timed_execute(mine, ops[i]);
  });
  for (const auto& by_kind : spent)
    for (size_t kind = 0; kind < by_kind.size(); ++kind) seconds[kind] += by_kind[kind] / threads;
  frame.quant_buffer = -1;
}

void Program::timed_execute(Frame& frame, const Op& op) {
  if (!timed) return execute(frame, op);
  const auto begin = std::chrono::steady_clock::now();
  execute(frame, op);
  frame.seconds[static_cast<size_t>(op.kind)] += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

namespace {

void quantise_rows(ThreadPool& pool, const float* x, int64_t stride, int n, QuantRows to) {
  const auto quantise = HW_SELECT(quantise_row);
  each_row(pool, n, to.cols, [&](int r) { quantise(x + r * stride, to, r); });
}

}  // namespace

void Program::execute(Frame& f, const Op& op) {
  const Step& step = f.step;
  const Operand whole{op.out, 0, f.dim(op.out)};
  float* const out = f.at(whole);
  const int64_t out_stride = f.stride(op.out);
  const int n = f.rows(op.out);
  const float* x[5] = {};
  int64_t stride[5] = {};
  for (size_t i = 0; i < op.inputs.size() && i < 5; ++i) {
    x[i] = f.at(op.inputs[i]);
    stride[i] = f.stride(op.inputs[i].buffer);
  }
  const int64_t dim = whole.dim;

  // Row operations: f(r) writes row r of the output; then the row is quantised while it is hot.
  auto rows = [&](auto&& body) {
    const QuantRows q = op.quantise ? f.quant_rows(n, dim) : QuantRows{};
    const auto quantise = HW_SELECT(quantise_row);
    each_row(f.pool, n, dim, [&](int r) {
      body(r);
      if (op.quantise) quantise(out + r * out_stride, q, r);
    });
    if (op.quantise) {
      f.quant_buffer = op.out;
      f.quant_start = 0;
    }
  };

  switch (op.kind) {
    case OpKind::embed: {
      const auto gather = HW_SELECT(gather_row);
      const WeightView weight = op.weight->view();
      return rows([&](int r) { gather(weight, step.tokens[r], out + r * out_stride); });
    }
    case OpKind::position_embed: {
      const auto add = HW_SELECT(add_row);
      return rows([&](int r) { add(x[0] + r * stride[0], op.array(0) + step.positions[r] * dim, dim, out + r * out_stride); });
    }
    case OpKind::rms_norm: {
      const auto norm = HW_SELECT(rms_norm_row);
      const auto width = static_cast<int64_t>(op.arrays[0].size());
      return rows([&](int r) { norm(x[0] + r * stride[0], op.array(0), dim, width, op.number, out + r * out_stride); });
    }
    case OpKind::gated_rms_norm: {
      const auto norm = HW_SELECT(gated_rms_norm_row);
      const auto width = static_cast<int64_t>(op.arrays[0].size());
      return rows([&](int r) { norm(x[0] + r * stride[0], x[1] + r * stride[1], op.array(0), dim, width, op.number, out + r * out_stride); });
    }
    case OpKind::layer_norm: {
      const auto norm = HW_SELECT(layer_norm_row);
      return rows([&](int r) { norm(x[0] + r * stride[0], op.array(0), op.array(1), dim, op.number, out + r * out_stride); });
    }
    case OpKind::silu_mul:
    case OpKind::gelu_mul: {
      const auto run_gate = HW_SELECT(gate_row);
      const Gate gate = op.kind == OpKind::silu_mul ? Gate::silu : Gate::gelu_tanh;
      return rows([&](int r) { run_gate(gate, x[0] + r * stride[0], dim, out + r * out_stride); });
    }
    case OpKind::gelu: {
      const auto gelu = HW_SELECT(gelu_row);
      return rows([&](int r) { gelu(x[0] + r * stride[0], dim, out + r * out_stride); });
    }
    case OpKind::add: {
      const auto add = HW_SELECT(add_row);
      return rows([&](int r) { add(x[0] + r * stride[0], x[1] + r * stride[1], dim, out + r * out_stride); });
    }
    case OpKind::scale: {
      const auto scale = HW_SELECT(scale_row);
      return rows([&](int r) { scale(x[0] + r * stride[0], op.number, dim, out + r * out_stride); });
    }
    case OpKind::sigmoid_mul: {
      const auto multiply = HW_SELECT(sigmoid_mul_row);
      return rows([&](int r) { multiply(x[0] + r * stride[0], x[1] + r * stride[1], dim, out + r * out_stride); });
    }
    case OpKind::reads:
      return rows([&](int r) {
        std::memcpy(out + r * out_stride, x[0] + step.reads[r] * stride[0], static_cast<size_t>(dim) * sizeof(float));
      });
    case OpKind::linear: {
      LinearJob job;
      job.weight = op.weight->view();
      job.n = n;
      job.x = x[0];
      job.x_stride = stride[0];
      job.out = out;
      job.out_stride = out_stride;
      job.bias = op.array(0);
      if (op.inputs.size() > 1) {
        job.residual = x[1];
        job.residual_stride = stride[1];
      }
      if (needs_quant(job.weight)) {
        job.quant = f.quant_rows(n, job.weight.cols);
        if (f.quant_buffer != op.inputs[0].buffer || f.quant_start != op.inputs[0].start) {
          quantise_rows(f.pool, x[0], stride[0], n, job.quant);
          f.quant_buffer = op.inputs[0].buffer;
          f.quant_start = op.inputs[0].start;
        }
        if (op.fine) {
          job.rest = f.rest_rows(n, job.weight.cols);
          const auto quantise = HW_SELECT(quantise_rest);
          each_row(f.pool, n, job.weight.cols, [&](int r) { quantise(x[0] + r * stride[0], job.quant, job.rest, r); });
        }
      }
      return linear(f.pool, job);
    }
    case OpKind::rope:
      return rope(f.pool, step, x[0], stride[0], static_cast<int>(dim / op.head_dim), op.head_dim, op.array(0),
                  static_cast<int>(2 * op.arrays[0].size()), op.interleaved, op.number, out, out_stride);
    case OpKind::attend:
      if (f.run.pattern && op.attend.group == f.run.selected) {
        return attend_patterned(f.pool, step, f.run.groups[static_cast<size_t>(op.attend.group)], op.attend, *f.run.pattern, x[0], stride[0], x[1],
                                stride[1], x[2], stride[2], out, out_stride, nullptr);
      }
      if (f.run.selection && op.attend.group == f.run.selected) {
        return attend_selected(f.pool, step, f.run.groups[static_cast<size_t>(op.attend.group)], op.attend, *f.run.selection, x[0], stride[0], x[1],
                               stride[1], x[2], stride[2], out, out_stride);
      }
      return attend(f.pool, step, f.run.groups[static_cast<size_t>(op.attend.group)], op.attend, x[0], stride[0], x[1], stride[1], x[2],
                    stride[2], out, out_stride);
    case OpKind::short_conv:
    case OpKind::gated_delta:
      keep_inputs(f.run, op, x, stride);
      return run_recurrent(f.pool, step, op, f.run.states.at(op.state), x, stride, out, out_stride);
    case OpKind::count: break;
  }
  throw std::logic_error("unknown operation");
}

}  // namespace hw
