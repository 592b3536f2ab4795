// What samples say and what a pattern keeps, one head at a time, for tests and measurements; the attention itself is bound in bind.cpp.
#include <algorithm>
#include <stdexcept>
#include <string>

#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "attend/pattern_bind.h"
#include "common/module.h"

namespace {

using Ints = nb::ndarray<const int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Keys = nb::ndarray<nb::device::cpu, nb::c_contig>;
using Floats = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using FloatsOut = nb::ndarray<float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

void want(bool ok, const char* what) {
  if (!ok) throw std::invalid_argument(std::string("pattern: ") + what);
}

// out [4][start / 16]: vertical, slash, pooled, strided of a head, by the samples before `start`.
void evidence_arrays(Ints table, Keys k, int format, int layer, int kv_heads, int head_dim, float scale, nb::object pattern, int start, int head,
                     FloatsOut out) {
  hw::KVGroup kv;
  want(k.ndim() >= 4 && hw::set_format(kv, format) && head_dim > 0 && kv_heads > 0 && static_cast<int>(k.shape(2)) == kv_heads,
       "keys must be [layers, blocks, kv_heads, ...]");
  want(kv.format != hw::kI16, "format i16 gives no evidence");
  kv.layers = static_cast<int>(k.shape(0));
  kv.n_blocks = static_cast<int64_t>(k.shape(1));
  kv.kv_heads = kv_heads;
  kv.head_dim = head_dim;
  want(static_cast<int64_t>(k.nbytes()) == kv.layers * kv.n_blocks * kv_heads * hw::block_bytes(hw::key_format(kv.format), head_dim),
       "keys do not have the format's size");
  kv.k = kv.v = static_cast<uint16_t*>(k.data());
  kv.table = table.data();
  kv.table_width = static_cast<int>(table.shape(0));
  const int heads = static_cast<int>(nb::cast<Keys>(pattern.attr("samples")).shape(2)), blocks = start / hw::kBlockTokens;
  const hw::BoundPattern bound = hw::bind_pattern(pattern, 0, heads, kv);
  want(start >= hw::kBlockTokens && start % hw::kBlockTokens == 0 && blocks <= kv.table_width && layer >= bound.view.spec.dense_layers &&
           layer < kv.layers && head >= 0 && head < heads && heads % kv_heads == 0,
       "the tile, layer or head lies outside the cache");
  want(out.shape(0) == 4 && static_cast<int>(out.shape(1)) == blocks, "out must be float32[4, start / 16]");
  for (int b = 0; b < blocks; ++b) want(table.data()[b] >= 0 && table.data()[b] < kv.n_blocks, "the table names a block outside the cache");
  hw::AttendSpec spec;
  spec.layer = layer;
  spec.heads = heads;
  spec.kv_heads = kv_heads;
  spec.head_dim = head_dim;
  spec.scale = scale;
  const hw::AttendJob job{{}, kv, spec, nullptr, nullptr, nullptr, 0, 0, 0, nullptr, 0, nullptr, heads / kv_heads, (head_dim + 15) / 16 * 16,
                          hw::block_bytes(hw::key_format(kv.format), head_dim), hw::block_bytes(hw::value_format(kv.format), head_dim)};
  const hw::Judged judged{0, start, std::min(bound.view.spec.queries, blocks), -1};
  const auto evidence = HW_SELECT(pattern_evidence);
  const hw::Evidence e = evidence(job, bound.view, judged, head, hw::thread_scratch(2, hw::evidence_scratch(bound.view.spec, head_dim, start)));
  const float* from[4] = {e.vertical, e.slash, e.pooled, e.strided};
  for (int i = 0; i < 4; ++i) std::copy(from[i], from[i] + blocks, out.data() + i * blocks);
}

// evidence [4][blocks] -> (blocks that are read, distances that are read, whether block means decided).
std::tuple<std::vector<int>, std::vector<int>, bool> choose(nb::object spec, Floats evidence) {
  want(evidence.shape(0) == 4 && evidence.shape(1) > 0, "evidence must be float32[4, blocks]");
  const auto n = static_cast<int>(evidence.shape(1));
  const float* e = evidence.data();
  const hw::Choice c = hw::choose_pattern(hw::bind_pattern_spec(spec), {n, e, e + n, e + 2 * n, e + 3 * n});
  return {std::vector<int>(c.vertical.begin(), c.vertical.end()), std::vector<int>(c.slash.begin(), c.slash.end()), c.pooled};
}

}  // namespace

HW_MODULE(pattern) {
  m.def("pattern_evidence", &evidence_arrays, nb::arg("table"), nb::arg("keys"), nb::arg("format"), nb::arg("layer"), nb::arg("kv_heads"),
        nb::arg("head_dim"), nb::arg("scale"), nb::arg("pattern"), nb::arg("start"), nb::arg("head"), nb::arg("out"));
  m.def("pattern_choose", &choose, nb::arg("spec"), nb::arg("evidence"));
}
