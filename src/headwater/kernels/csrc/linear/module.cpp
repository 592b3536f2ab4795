// Every operation alone on arrays; headwater.kernels.native documents them.
#include "common/module.h"

#include <algorithm>
#include <memory>
#include <optional>

#include <nanobind/stl/optional.h>

#include "linear/linear.h"
#include "rows/rows.h"
#include "weights/weight.h"

namespace {

using Rows = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using RowsOut = nb::ndarray<float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Vector = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Ints = nb::ndarray<const int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

void want(bool ok, const char* what) {
  if (!ok) throw nb::value_error(what);
}

// Quantised copies of the input rows that live as long as the job.
struct QuantMemory {
  std::unique_ptr<int8_t[]> q;
  std::unique_ptr<hw::BlockMeta[]> meta;
  hw::QuantRows rows;

  QuantMemory(int64_t n, int64_t cols)
      : q(new int8_t[static_cast<size_t>(n * cols) + 1]), meta(new hw::BlockMeta[static_cast<size_t>(n * (cols / 32)) + 1]), rows{q.get(), meta.get(), cols} {}

  QuantMemory(hw::ThreadPool& pool, const float* x, int64_t n, int64_t cols) : QuantMemory(n, cols) {
    const auto quantise = HW_SELECT(quantise_row);
    pool.parallel_for(static_cast<int>((n + 15) / 16), [&](int task, int) {
      for (int64_t r = task * 16; r < n && r < (task + 1) * 16; ++r) quantise(x + r * cols, rows, r);
    });
  }
};

// The quantised rows of a job, and what their rounding left out where the product is fine.
struct JobMemory {
  std::optional<QuantMemory> quant, rest;

  void fill(hw::ThreadPool& pool, hw::LinearJob& job, bool fine) {
    if (!hw::needs_quant(job.weight)) return;
    const int64_t cols = job.weight.cols;
    job.quant = quant.emplace(pool, job.x, job.n, cols).rows;
    if (!fine) return;
    job.rest = rest.emplace(job.n, cols).rows;
    const auto quantise = HW_SELECT(quantise_rest);
    pool.parallel_for((job.n + 15) / 16, [&](int task, int) {
      for (int64_t r = task * 16; r < job.n && r < (task + 1) * 16; ++r) quantise(job.x + r * cols, job.quant, job.rest, r);
    });
  }
};

hw::LinearJob job_of(const hw::Weight& weight, const Rows& x, const std::optional<Vector>& bias) {
  want(static_cast<int64_t>(x.shape(1)) == weight.cols, "linear: x has another width than the weight");
  want(!bias || static_cast<int64_t>(bias->size()) == weight.rows, "linear: the bias has another size than the weight has rows");
  hw::LinearJob job;
  job.weight = weight.view();
  job.x = x.data();
  job.x_stride = weight.cols;
  job.n = static_cast<int>(x.shape(0));
  job.bias = bias ? bias->data() : nullptr;
  return job;
}

void linear_arrays(const hw::Weight& weight, Rows x, std::optional<Vector> bias, RowsOut out, bool fine) {
  hw::LinearJob job = job_of(weight, x, bias);
  want(static_cast<int64_t>(out.shape(1)) == weight.rows && out.shape(0) == x.shape(0), "linear: out must be [rows of x, rows of the weight]");
  job.out = out.data();
  job.out_stride = weight.rows;
  nb::gil_scoped_release release;
  hw::ThreadPool& pool = hw::ThreadPool::shared();
  JobMemory memory;
  memory.fill(pool, job, fine);
  hw::linear(pool, job);
}

void linear_rows_arrays(const hw::Weight& weight, Rows x, Ints ids, std::optional<Vector> bias, RowsOut out, bool fine) {
  hw::LinearJob job = job_of(weight, x, bias);
  want(out.shape(1) == ids.size() && out.shape(0) == x.shape(0), "linear_rows: out must be [rows of x, ids]");
  for (size_t i = 0; i < ids.size(); ++i) want(ids.data()[i] >= 0 && ids.data()[i] < weight.rows, "linear_rows: an id lies outside the weight");
  job.out = out.data();
  job.out_stride = static_cast<int64_t>(ids.size());
  nb::gil_scoped_release release;
  hw::ThreadPool& pool = hw::ThreadPool::shared();
  JobMemory memory;
  memory.fill(pool, job, fine);
  hw::linear_rows(pool, job, ids.data(), static_cast<int>(ids.size()));
}

void gather_arrays(const hw::Weight& weight, Ints ids, RowsOut out) {
  want(static_cast<int64_t>(out.shape(1)) == weight.cols && out.shape(0) == ids.size(), "gather: out must be [ids, columns]");
  for (size_t i = 0; i < ids.size(); ++i) want(ids.data()[i] >= 0 && ids.data()[i] < weight.rows, "gather: an id lies outside the weight");
  const auto gather = HW_SELECT(gather_row);
  const hw::WeightView view = weight.view();
  nb::gil_scoped_release release;
  hw::ThreadPool::shared().parallel_for(static_cast<int>(ids.size()), [&](int i, int) { gather(view, ids.data()[i], out.data() + i * view.cols); });
}

// f(input row, output row) for all rows.
template <class F>
void each_row(const Rows& x, RowsOut& out, F&& f) {
  want(x.shape(0) == out.shape(0), "x and out differ in rows");
  nb::gil_scoped_release release;
  const auto in_width = static_cast<int64_t>(x.shape(1)), out_width = static_cast<int64_t>(out.shape(1));
  hw::ThreadPool::shared().parallel_for(static_cast<int>(x.shape(0)), [&](int r, int) { f(x.data() + r * in_width, out.data() + r * out_width, r); });
}

}  // namespace

HW_MODULE(linear) {
  m.def("linear", &linear_arrays, nb::arg("weight"), nb::arg("x"), nb::arg("bias").none(), nb::arg("out"), nb::arg("fine") = false);
  m.def("linear_rows", &linear_rows_arrays, nb::arg("weight"), nb::arg("x"), nb::arg("ids"), nb::arg("bias").none(), nb::arg("out"),
        nb::arg("fine") = false);
  m.def("gather", &gather_arrays, nb::arg("weight"), nb::arg("ids"), nb::arg("out"));
  m.def("quantise_rows", [](Rows x, nb::ndarray<int8_t, nb::ndim<2>, nb::c_contig, nb::device::cpu> q, RowsOut scale) {
    const auto n = static_cast<int64_t>(x.shape(0)), cols = static_cast<int64_t>(x.shape(1));
    want(cols % 32 == 0 && q.shape(0) == x.shape(0) && q.shape(1) == x.shape(1) && scale.shape(0) == x.shape(0) &&
             static_cast<int64_t>(scale.shape(1)) == cols / 32, "quantise_rows: x and q [n, cols], scale [n, cols / 32]");
    nb::gil_scoped_release release;
    const QuantMemory quant(hw::ThreadPool::shared(), x.data(), n, cols);
    std::copy(quant.q.get(), quant.q.get() + n * cols, q.data());
    for (int64_t i = 0; i < n * (cols / 32); ++i) scale.data()[i] = quant.meta[static_cast<size_t>(i)].scale;
  }, nb::arg("x"), nb::arg("q"), nb::arg("scale"));
  m.def("rms_norm", [](Rows x, Vector weight, float eps, RowsOut out) {
    const auto dim = static_cast<int64_t>(x.shape(1)), width = static_cast<int64_t>(weight.size());
    want(width > 0 && dim % width == 0 && out.shape(1) == x.shape(1), "rms_norm: the width of x must be a multiple of the weight's");
    const auto run = HW_SELECT(rms_norm_row);
    each_row(x, out, [&](const float* a, float* o, int) { run(a, weight.data(), dim, width, eps, o); });
  }, nb::arg("x"), nb::arg("weight"), nb::arg("eps"), nb::arg("out"));
  m.def("gated_rms_norm", [](Rows x, Rows gate, Vector weight, float eps, RowsOut out) {
    const auto dim = static_cast<int64_t>(x.shape(1)), width = static_cast<int64_t>(weight.size());
    want(width > 0 && dim % width == 0 && out.shape(1) == x.shape(1) && gate.shape(0) == x.shape(0) && gate.shape(1) == x.shape(1), "gated_rms_norm: shapes");
    const auto run = HW_SELECT(gated_rms_norm_row);
    each_row(x, out, [&](const float* a, float* o, int r) { run(a, gate.data() + r * dim, weight.data(), dim, width, eps, o); });
  }, nb::arg("x"), nb::arg("gate"), nb::arg("weight"), nb::arg("eps"), nb::arg("out"));
  m.def("layer_norm", [](Rows x, Vector weight, Vector bias, float eps, RowsOut out) {
    const auto dim = static_cast<int64_t>(x.shape(1));
    want(static_cast<int64_t>(weight.size()) == dim && static_cast<int64_t>(bias.size()) == dim && out.shape(1) == x.shape(1), "layer_norm: shapes");
    const auto run = HW_SELECT(layer_norm_row);
    each_row(x, out, [&](const float* a, float* o, int) { run(a, weight.data(), bias.data(), dim, eps, o); });
  }, nb::arg("x"), nb::arg("weight"), nb::arg("bias"), nb::arg("eps"), nb::arg("out"));
  m.def("gate_mul", [](Rows x, bool gelu, RowsOut out) {
    const auto dim = static_cast<int64_t>(out.shape(1));
    want(static_cast<int64_t>(x.shape(1)) == 2 * dim, "gate_mul: x must be twice as wide as out");
    const auto run = HW_SELECT(gate_row);
    each_row(x, out, [&](const float* a, float* o, int) { run(gelu ? hw::Gate::gelu_tanh : hw::Gate::silu, a, dim, o); });
  }, nb::arg("x"), nb::arg("gelu"), nb::arg("out"));
  m.def("gelu", [](Rows x, RowsOut out) {
    want(out.shape(1) == x.shape(1), "gelu: shapes");
    const auto run = HW_SELECT(gelu_row);
    each_row(x, out, [&](const float* a, float* o, int) { run(a, static_cast<int64_t>(x.shape(1)), o); });
  }, nb::arg("x"), nb::arg("out"));
  m.def("sigmoid_mul", [](Rows x, Rows gate, RowsOut out) {
    const auto dim = static_cast<int64_t>(x.shape(1));
    want(out.shape(1) == x.shape(1) && gate.shape(0) == x.shape(0) && gate.shape(1) == x.shape(1), "sigmoid_mul: shapes");
    const auto run = HW_SELECT(sigmoid_mul_row);
    each_row(x, out, [&](const float* a, float* o, int r) { run(a, gate.data() + r * dim, dim, o); });
  }, nb::arg("x"), nb::arg("gate"), nb::arg("out"));
  m.def("softcap", [](Rows x, float scale, float cap, RowsOut out) {
    want(out.shape(1) == x.shape(1), "softcap: shapes");
    const auto run = HW_SELECT(softcap_row);
    each_row(x, out, [&](const float* a, float* o, int) { run(a, scale, cap, static_cast<int64_t>(x.shape(1)), o); });
  }, nb::arg("x"), nb::arg("scale"), nb::arg("cap"), nb::arg("out"), "cap * tanh(x * scale / cap); cap 0 = x * scale. out may be x.");
}
