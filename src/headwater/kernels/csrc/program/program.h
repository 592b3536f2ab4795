// A recorded model, replayed in one call per step. Built from the operation list of kernels/program.py by kernels/lower.py.
#pragma once

#include <nanobind/ndarray.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "attend/pattern.h"
#include "attend/select.h"
#include "common/pool.h"
#include "common/step.h"
#include "linear/linear.h"
#include "weights/weight.h"

namespace hw {

enum class OpKind : int {
  embed, position_embed, rms_norm, layer_norm, linear, rope, attend, silu_mul, gelu_mul, gelu, reads, add, scale,
  short_conv, gated_delta, gated_rms_norm, sigmoid_mul, count
};

// Columns [start, start + dim) of a buffer.
struct Operand {
  int buffer = 0;
  int64_t start = 0, dim = 0;
};

// A buffer is float32[rows][dim] at `offset` floats per row in the arena; rows are the tokens or the reads of the step.
struct BufferPlan {
  int64_t dim = 0, offset = 0;
  bool per_read = false;
  bool own = false;            // made and read within one segment: each thread has its own, for the rows that it holds
  int64_t segment_offset = 0;  // floats per row, in the thread's memory or in the arena, when segments run row by row

  // Floats between rows of a thread's own buffer: rows that lie a multiple of 2 KiB apart would fight for the same cache sets.
  int64_t own_stride() const { return dim % 512 == 0 ? dim + 16 : dim; }
};

// Operations [begin, end). rows: each treats every row by itself, so a thread may take some rows through all of them, in its own caches.
struct Segment {
  size_t begin = 0, end = 0;
  bool rows = false;
};

using FloatArray = nanobind::ndarray<const float, nanobind::c_contig, nanobind::device::cpu>;

struct Op {
  OpKind kind = OpKind::add;
  std::vector<Operand> inputs;  // a linear's second input is its residual
  int out = 0;
  const Weight* weight = nullptr;
  std::vector<FloatArray> arrays;  // weights and biases in the order of the reference's arguments
  float number = 0.0f;             // eps or factor
  bool fine = false;               // linear: the remainder of the activations counts too
  bool quantise = false;           // a quantised linear reads the output: quantise rows while they are hot
  AttendSpec attend;
  int head_dim = 0;                // rope
  bool interleaved = false;        // rope
  bool activation = false;         // short_conv
  std::string state;               // short_conv, gated_delta: name of the recurrent state
  int layer = 0;
  int key_heads = 0, value_heads = 0, key_dim = 0, value_dim = 0;

  const float* array(size_t i) const { return i < arrays.size() ? arrays[i].data() : nullptr; }
};

struct StateView {
  float* data = nullptr;
  int64_t layers = 0, slots = 0, per_slot = 0;  // floats per slot of one layer
};

struct Run {
  Step step;
  std::vector<KVGroup> groups;
  std::map<std::string, StateView> states;
  const Selection* selection = nullptr;  // of the group `selected`, or null: everything is read
  const Pattern* pattern = nullptr;      // the same for prompts that read part of it; not both
  int selected = -1;
  const int32_t* keep = nullptr;  // [n_keep] rows whose recurrent layers' inputs stay for `replay`
  int n_keep = 0;
};

// Rows kept by the last run whose recurrent layers now take their first tokens for good.
struct Replay {
  const int32_t* which = nullptr;      // [n] index among the kept rows
  const int32_t* counts = nullptr;     // [n] tokens of it
  const int32_t* state_in = nullptr;   // [n] slot to start from, -1 = zero state
  const int32_t* state_out = nullptr;  // [n] slot to write
  int n = 0;
};

// A short convolution or a gated delta rule over the rows of a step.
void run_recurrent(ThreadPool& pool, const Step& step, const Op& op, const StateView& state, const float* const* x, const int64_t* stride, float* out,
                   int64_t out_stride);

class Program {
 public:
  std::vector<BufferPlan> buffers;
  std::vector<Op> ops;
  std::vector<Segment> segments;       // set by finish()
  int64_t own_floats = 0, shared_floats = 0;
  std::vector<nanobind::object> keep;  // Python owners of weights
  int hidden = 0;                      // buffer that run() returns
  int64_t token_floats = 0, read_floats = 0, widest_quant = 0;
  bool any_fine = false;
  bool timed = false;                                             // whether run() adds to `seconds`
  double seconds[static_cast<size_t>(OpKind::count)] = {};        // wall time by kind of operation since it was last cleared

  // Call once when all operations are there.
  void finish();
  // Checked inputs in, hidden float32[n_reads][dim] out. Throws std::invalid_argument on inputs that do not fit.
  void run(ThreadPool& pool, const Run& run, float* hidden_out);
  // The sequential updates of `run` over the first tokens of kept rows, from the inputs that were kept: the same bits, no weights read.
  void replay(ThreadPool& pool, const Replay& rows, const std::map<std::string, StateView>& states);
  int kept_rows() const { return kept_start_.empty() ? 0 : static_cast<int>(kept_start_.size()) - 1; }
  int kept_tokens(int row) const { return kept_start_[static_cast<size_t>(row) + 1] - kept_start_[static_cast<size_t>(row)]; }
  int64_t hidden_dim() const { return buffers[static_cast<size_t>(hidden)].dim; }
  int64_t scratch_bytes() const { return static_cast<int64_t>(arena_.size() * sizeof(float) + quant_.size()); }
  // Rows that a thread takes at a time through a segment, a multiple of 16; 0 where a step is too small to be split by rows.
  static int segment_rows(int n_tokens, int threads);

 private:
  struct Frame;
  void execute(Frame& frame, const Op& op);
  void timed_execute(Frame& frame, const Op& op);
  void run_segment(Frame& frame, const Segment& segment);
  void begin_keeping(const Run& run);
  void keep_inputs(const Run& run, const Op& op, const float* const* x, const int64_t* stride);
  std::mutex lock_;  // one step at a time: the arena is shared
  std::vector<float> arena_;
  std::vector<uint8_t> quant_;
  std::vector<int> kept_start_;            // [kept rows + 1] first token of each among the kept tokens
  std::vector<std::vector<float>> kept_;   // by operation: its inputs one behind the other, [kept tokens][dim] each
};

}  // namespace hw
