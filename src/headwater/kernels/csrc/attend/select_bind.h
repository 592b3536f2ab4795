// A Selection from Python: shapes are checked here, meaning in headwater.kernels.select.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <stdexcept>
#include <string>

#include "attend/select.h"

namespace hw {

// The arrays behind a Selection stay alive as long as this does.
struct BoundSelection {
  Selection view;
  nanobind::ndarray<const int32_t, nanobind::ndim<1>, nanobind::c_contig, nanobind::device::cpu> exact_until;
  nanobind::ndarray<uint8_t, nanobind::ndim<4>, nanobind::c_contig, nanobind::device::cpu> index;
  nanobind::ndarray<const int32_t, nanobind::ndim<2>, nanobind::c_contig, nanobind::device::cpu> table, builds;
  nanobind::ndarray<int64_t, nanobind::ndim<1>, nanobind::c_contig, nanobind::device::cpu> stats;
  nanobind::ndarray<const float, nanobind::ndim<1>, nanobind::c_contig, nanobind::device::cpu> inv_freq;
};

template <class T>
T field(const nanobind::handle& from, const char* name) {
  return nanobind::cast<T>(from.attr(name));
}

// from: kernels.select.Selection. Throws std::invalid_argument when it does not fit the step or the cache group.
inline BoundSelection bind_selection(nanobind::handle from, int n_rows, const KVGroup& kv) {
  const auto want = [](bool ok, const char* what) {
    if (!ok) throw std::invalid_argument(std::string("selection: ") + what);
  };
  BoundSelection b;
  const nanobind::object spec = from.attr("spec");
  SelectSpec& s = b.view.spec;
  s.kind = field<int>(spec, "kind");
  s.sinks = field<int>(spec, "sinks");
  s.local = field<int>(spec, "local");
  s.segment = field<int>(spec, "segment");
  s.centroid = field<int>(spec, "centroid");
  s.iterations = field<int>(spec, "iterations");
  s.dense_layers = field<int>(spec, "dense_layers");
  s.retrieve = field<double>(spec, "retrieve");
  s.estimate = field<double>(spec, "estimate");
  s.second = field<double>(spec, "second");
  s.threshold = field<double>(spec, "threshold");
  s.fanout = field<int>(spec, "fanout");
  s.beam = field<int>(spec, "beam");
  s.mass = field<bool>(spec, "mass");
  s.trained = field<int>(spec, "trained");
  want((s.kind >= kWindow && s.kind <= kBlasst) || (s.kind >= kTree && s.kind <= kStream), "unknown kind");
  want(s.kind != kDualChunk || s.trained > s.segment, "dual chunks must be shorter than the context that the model was made for");
  want(s.fanout >= 2 && s.fanout <= 64 && s.beam >= 1, "fanout must be 2 to 64 and beam at least 1");
  want(s.kind != kBlasst || (s.threshold > 0 && s.threshold < 1), "threshold must lie between 0 and 1");
  const bool indexed = s.indexed();
  want(s.local > 0 && s.dense_layers >= 0 && s.sinks >= 0 && s.segment > 0 && s.segment % (kBlockTokens * kBlockTokens) == 0 && s.segment <= 1 << 15,
       "segment must be a multiple of 256 up to 32,768");
  want(!indexed || s.sinks <= s.segment / 2, "sinks must fit half a segment");
  want(!indexed || (s.centroid > 0 && s.segment % s.centroid == 0 && s.vectors() % kBlockTokens == 0 && s.vectors() <= kChunkTokens),
       "a segment must have 16 to 256 clusters or pages, in sixteens");
  want(!indexed || kv.head_dim % kBlockTokens == 0, "head_dim must be a multiple of 16");
  b.exact_until = field<decltype(b.exact_until)>(from, "exact_until");
  b.index = field<decltype(b.index)>(from, "index");
  b.table = field<decltype(b.table)>(from, "table");
  b.builds = field<decltype(b.builds)>(from, "builds");
  b.stats = field<decltype(b.stats)>(from, "stats");
  want(static_cast<int>(b.exact_until.shape(0)) >= n_rows && static_cast<int>(b.table.shape(0)) >= n_rows, "has fewer rows than the step");
  want(b.builds.shape(1) == 3 && b.stats.shape(0) == 4, "builds must be int32[n, 3] and stats int64[4]");
  const IndexLayout layout(s, kv.format, kv.head_dim);
  want(!indexed || (static_cast<int>(b.index.shape(0)) >= kv.layers - s.dense_layers && static_cast<int>(b.index.shape(2)) == kv.kv_heads &&
                             static_cast<int64_t>(b.index.shape(3)) == layout.bytes),
       "the index was made for another cache");
  b.view.exact_until = b.exact_until.data();
  b.view.index = b.index.data();
  b.view.slots = !indexed ? 0 : static_cast<int64_t>(b.index.shape(1));
  b.view.table = b.table.data();
  b.view.table_width = static_cast<int>(b.table.shape(1));
  b.view.builds = b.builds.data();
  b.view.n_builds = static_cast<int>(b.builds.shape(0));
  b.view.stats = b.stats.data();
  if (s.moves()) {
    b.inv_freq = field<decltype(b.inv_freq)>(from, "inv_freq");
    b.view.inv_freq = b.inv_freq.data();
    b.view.rope_dims = 2 * static_cast<int>(b.inv_freq.shape(0));
    b.view.interleaved = field<bool>(from, "interleaved");
    want(b.view.rope_dims > 0 && b.view.rope_dims <= kv.head_dim, "the rotary embedding does not fit the heads");
  }
  return b;
}

}  // namespace hw
