// A Pattern from Python: shapes are checked here, meaning in headwater.kernels.pattern.
#pragma once

#include <optional>

#include "attend/pattern.h"
#include "attend/select_bind.h"

namespace hw {

// The arrays behind a Pattern stay alive as long as this does.
struct BoundPattern {
  Pattern view;
  nanobind::ndarray<const int32_t, nanobind::ndim<1>, nanobind::c_contig, nanobind::device::cpu> until;
  nanobind::ndarray<nanobind::ndim<4>, nanobind::c_contig, nanobind::device::cpu> samples;
  nanobind::ndarray<int64_t, nanobind::ndim<1>, nanobind::c_contig, nanobind::device::cpu> stats;
  std::optional<nanobind::ndarray<double, nanobind::ndim<3>, nanobind::c_contig, nanobind::device::cpu>> mass;
};

inline bool is_pattern(nanobind::handle from) { return nanobind::hasattr(from, "samples"); }

inline PatternSpec bind_pattern_spec(nanobind::handle spec) {
  PatternSpec s;
  s.kind = field<int>(spec, "kind");
  s.tile = field<int>(spec, "tile");
  s.block = field<int>(spec, "block");
  s.rows = field<int>(spec, "rows");
  s.queries = field<int>(spec, "queries");
  s.sinks = field<int>(spec, "sinks");
  s.local = field<int>(spec, "local");
  s.dense_layers = field<int>(spec, "dense_layers");
  s.route = field<int>(spec, "route");
  s.least = field<int>(spec, "least");
  s.vertical = field<int>(spec, "vertical");
  s.slash = field<int>(spec, "slash");
  s.coverage = field<bool>(spec, "coverage");
  s.whole = field<bool>(spec, "whole");
  s.tau = field<double>(spec, "tau");
  s.alpha = field<double>(spec, "alpha");
  s.gamma = field<double>(spec, "gamma");
  const auto want = [](bool ok, const char* what) {
    if (!ok) throw std::invalid_argument(std::string("pattern: ") + what);
  };
  want(s.kind >= kCrisp && s.kind < kPatternKinds && s.route >= 0 && s.route < kPatternRoutes, "unknown kind or route");
  want(s.rows > 0 && s.rows % kBlockTokens == 0 && s.rows <= 1 << 12, "rows must be a multiple of 16 up to 4,096");
  want(s.tile > 0 && s.tile % s.rows == 0 && s.tile % kChunkTokens == 0, "tile must be a multiple of 256 and of rows");
  want(s.block > 0 && s.block % kBlockTokens == 0, "block must be a multiple of 16");
  want(s.queries > 0 && s.queries <= kMostSamples && (s.whole || s.queries * kBlockTokens <= s.tile), "queries must be from 1 to 128 and lie in one tile");
  want(s.kind != kXAttention || (s.queries % kBlockTokens == 0 && s.local >= kBlockTokens * s.queries && !s.whole),
       "antidiagonals need queries in sixteens, whose positions are local");
  want(s.sinks >= 0 && s.local >= 0 && s.dense_layers >= 0 && s.least >= 0 && s.vertical >= 0 && s.slash >= 0, "a size is negative");
  return s;
}

// from: kernels.pattern.Pattern. Throws std::invalid_argument when it does not fit the step or the cache group.
inline BoundPattern bind_pattern(nanobind::handle from, int n_rows, int heads, const KVGroup& kv) {
  const auto want = [](bool ok, const char* what) {
    if (!ok) throw std::invalid_argument(std::string("pattern: ") + what);
  };
  BoundPattern b;
  b.view.spec = bind_pattern_spec(from.attr("spec"));
  b.until = field<decltype(b.until)>(from, "until");
  b.samples = field<decltype(b.samples)>(from, "samples");
  b.stats = field<decltype(b.stats)>(from, "stats");
  const nanobind::object mass = from.attr("mass");
  if (!mass.is_none()) b.mass = nanobind::cast<typename decltype(b.mass)::value_type>(mass);
  want(static_cast<int>(b.until.shape(0)) >= n_rows && b.stats.shape(0) == 4, "has fewer rows than the step, or stats are not int64[4]");
  want(b.samples.itemsize() == 2 && static_cast<int>(b.samples.shape(0)) >= kv.layers - b.view.spec.dense_layers &&
           static_cast<int64_t>(b.samples.shape(1)) == kv.n_blocks && static_cast<int>(b.samples.shape(2)) == heads &&
           static_cast<int>(b.samples.shape(3)) == (kv.head_dim + 15) / 16 * 16,
       "samples must be float16[layers, blocks, heads, head_dim] of the cache's own layers and blocks");
  want(!b.mass || (static_cast<int>(b.mass->shape(0)) >= kv.layers && static_cast<int>(b.mass->shape(1)) == heads && b.mass->shape(2) == 2),
       "mass must be float64[layers, heads, 2]");
  b.view.until = b.until.data();
  b.view.samples = static_cast<uint16_t*>(b.samples.data());
  b.view.stats = b.stats.data();
  b.view.mass = b.mass ? b.mass->data() : nullptr;
  return b;
}

}  // namespace hw
