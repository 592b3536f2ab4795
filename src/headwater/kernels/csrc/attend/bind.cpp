// Python bindings of attention, cache copies and rotary embedding; shapes are checked here, meaning in headwater.kernels.attention.
#include <optional>
#include <stdexcept>
#include <string>

#include <nanobind/stl/optional.h>

#include "attend/attend.h"
#include "attend/pattern_bind.h"
#include "attend/select_bind.h"
#include "common/module.h"
#include "common/pool.h"
#include "rope.h"

namespace {

using Ints = nb::ndarray<const int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Table = nb::ndarray<const int32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Rows = nb::ndarray<const float, nb::ndim<2>, nb::device::cpu>;
using RowsOut = nb::ndarray<float, nb::ndim<2>, nb::device::cpu>;
using Cache = nb::ndarray<nb::device::cpu, nb::c_contig>;

void want(bool ok, const char* what) {
  if (!ok) throw std::invalid_argument(what);
}

template <class A>
void want_rows(const A& a, int64_t rows, int64_t cols, const std::string& name) {
  const bool pieces = rows > 0 && cols > 1 && a.stride(1) != 1;
  if (static_cast<int64_t>(a.shape(0)) < rows || static_cast<int64_t>(a.shape(1)) != cols || pieces) {
    throw std::invalid_argument("attend: " + name + " must be float32[" + std::to_string(rows) + ", " + std::to_string(cols) +
                                "] with rows in one piece");
  }
}

hw::KVGroup cache_of(const Cache& k, const Cache& v, int format, int head_dim) {
  want(head_dim > 0 && k.ndim() >= 4 && v.ndim() >= 4, "cache: k and v must be [layers, blocks, kv_heads, ...]");
  hw::KVGroup group;
  group.layers = static_cast<int>(k.shape(0));
  group.n_blocks = static_cast<int64_t>(k.shape(1));
  group.kv_heads = static_cast<int>(k.shape(2));
  group.head_dim = head_dim;
  want(hw::set_format(group, format), "cache: unknown format");
  const int64_t blocks = group.layers * group.n_blocks * group.kv_heads;
  const int64_t key_bytes = blocks * hw::block_bytes(hw::key_format(group.format), head_dim);
  const int64_t value_bytes = blocks * hw::block_bytes(hw::value_format(group.format), head_dim);
  want(static_cast<int64_t>(k.nbytes()) == key_bytes && static_cast<int64_t>(v.nbytes()) == value_bytes, "cache: k and v do not have the size of the format");
  group.k = static_cast<uint16_t*>(k.data());
  group.v = static_cast<uint16_t*>(v.data());
  return group;
}

void attend_arrays(Ints positions, Ints row_start, Table table, Cache k_cache, Cache v_cache, int format, int layer, int heads, int head_dim,
                   int window, float scale, float softcap, bool causal, Rows q, Rows k, Rows v, RowsOut out,
                   std::optional<nb::ndarray<float, nb::ndim<2>, nb::c_contig, nb::device::cpu>> lse, nb::object selection) {
  hw::KVGroup cache = cache_of(k_cache, v_cache, format, head_dim);
  cache.table = table.data();
  cache.table_width = static_cast<int>(table.shape(1));
  hw::Step step;
  step.positions = positions.data();
  step.row_start = row_start.data();
  step.n_tokens = static_cast<int>(positions.shape(0));
  step.n_rows = static_cast<int>(row_start.shape(0)) - 1;
  want(step.n_rows >= 0 && static_cast<int>(table.shape(0)) >= step.n_rows, "attend: the table has fewer rows than the step");
  hw::AttendSpec spec;
  spec.layer = layer;
  spec.heads = heads;
  spec.kv_heads = cache.kv_heads;
  spec.head_dim = head_dim;
  spec.window = window;
  spec.scale = scale;
  spec.softcap = softcap;
  spec.causal = causal;
  want_rows(q, step.n_tokens, static_cast<int64_t>(heads) * head_dim, "q");
  want_rows(k, step.n_tokens, static_cast<int64_t>(cache.kv_heads) * head_dim, "k");
  want_rows(v, step.n_tokens, static_cast<int64_t>(cache.kv_heads) * head_dim, "v");
  want_rows(out, step.n_tokens, static_cast<int64_t>(heads) * head_dim, "out");
  if (lse) want_rows(*lse, step.n_tokens, heads, "lse");
  if (hw::is_pattern(selection)) {
    const hw::BoundPattern bound = hw::bind_pattern(selection, step.n_rows, heads, cache);
    nb::gil_scoped_release release;
    return hw::attend_patterned(hw::ThreadPool::shared(), step, cache, spec, bound.view, q.data(), q.stride(0), k.data(), k.stride(0), v.data(),
                                v.stride(0), out.data(), out.stride(0), lse ? lse->data() : nullptr);
  }
  if (!selection.is_none()) {
    want(!lse && step.n_tokens > 0, "attend: a selection gives no log-sum-exp");
    const hw::BoundSelection bound = hw::bind_selection(selection, step.n_rows, cache);
    nb::gil_scoped_release release;
    return hw::attend_selected(hw::ThreadPool::shared(), step, cache, spec, bound.view, q.data(), q.stride(0), k.data(), k.stride(0), v.data(),
                               v.stride(0), out.data(), out.stride(0));
  }
  nb::gil_scoped_release release;
  hw::attend_with_lse(hw::ThreadPool::shared(), step, cache, spec, q.data(), q.stride(0), k.data(), k.stride(0), v.data(), v.stride(0),
                      out.data(), out.stride(0), lse ? lse->data() : nullptr);
}

void copy_block_arrays(Cache k, Cache v, int format, int head_dim, Table pairs) {
  const hw::KVGroup cache = cache_of(k, v, format, head_dim);
  want(pairs.shape(1) == 2, "copy_blocks: pairs must be int32[m, 2]");
  nb::gil_scoped_release release;
  hw::copy_blocks(hw::ThreadPool::shared(), cache, pairs.data(), static_cast<int>(pairs.shape(0)));
}

using Parts = nb::ndarray<const float, nb::ndim<3>, nb::c_contig, nb::device::cpu>;
using Weights = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Merged = nb::ndarray<float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Floats = nb::ndarray<float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

void merge_arrays(Parts outs, Weights lses, Merged out, Floats lse) {
  const size_t parts = outs.shape(0), rows = outs.shape(1), dim = outs.shape(2);
  want(lses.shape(0) == parts && lses.shape(1) == rows && out.shape(0) == rows && out.shape(1) == dim && lse.shape(0) == rows,
       "merge_parts: outs [parts, rows, dim], lses [parts, rows], out [rows, dim] and lse [rows] do not fit together");
  nb::gil_scoped_release release;
  hw::merge_parts(hw::ThreadPool::shared(), static_cast<int>(parts), static_cast<int64_t>(rows), static_cast<int>(dim), outs.data(), lses.data(),
                  out.data(), lse.data());
}

void rope_arrays(Rows x, Ints positions, int head_dim, nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu> inv_freq,
                 bool interleaved, float mscale, RowsOut out) {
  hw::Step step;
  step.positions = positions.data();
  step.n_tokens = static_cast<int>(positions.shape(0));
  const int64_t width = static_cast<int64_t>(x.shape(1));
  want(head_dim > 0 && width % head_dim == 0, "rope: the width of x is not a multiple of head_dim");
  want_rows(x, step.n_tokens, width, "x");
  want_rows(out, step.n_tokens, width, "out");
  nb::gil_scoped_release release;
  hw::rope(hw::ThreadPool::shared(), step, x.data(), x.stride(0), static_cast<int>(width / head_dim), head_dim, inv_freq.data(),
           static_cast<int>(2 * inv_freq.shape(0)), interleaved, mscale, out.data(), out.stride(0));
}

}  // namespace

HW_MODULE(attend) {
  m.def("attend", &attend_arrays, nb::arg("positions"), nb::arg("row_start"), nb::arg("table"), nb::arg("k_cache"), nb::arg("v_cache"),
        nb::arg("format"), nb::arg("layer"), nb::arg("heads"), nb::arg("head_dim"), nb::arg("window"), nb::arg("scale"), nb::arg("softcap"),
        nb::arg("causal"), nb::arg("q"), nb::arg("k"), nb::arg("v"), nb::arg("out"), nb::arg("lse").none(),
        nb::arg("selection").none());
  m.def("index_bytes", [](int kind, int segment, int centroid, double second, int format, int head_dim) {
    hw::SelectSpec s;
    s.kind = kind;
    s.segment = segment;
    s.centroid = centroid;
    s.second = second;
    return hw::IndexLayout(s, format, head_dim).bytes;
  }, nb::arg("kind"), nb::arg("segment"), nb::arg("centroid"), nb::arg("second"), nb::arg("format"), nb::arg("head_dim"));
  m.def("copy_blocks", &copy_block_arrays, nb::arg("k_cache"), nb::arg("v_cache"), nb::arg("format"), nb::arg("head_dim"), nb::arg("pairs"));
  m.def("merge_parts", &merge_arrays, nb::arg("outs"), nb::arg("lses"), nb::arg("out"), nb::arg("lse"));
  m.def("rope", &rope_arrays, nb::arg("x"), nb::arg("positions"), nb::arg("head_dim"), nb::arg("inv_freq"), nb::arg("interleaved"),
        nb::arg("mscale"), nb::arg("out"));
}
