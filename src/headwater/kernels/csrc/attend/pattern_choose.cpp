// What each pattern keeps, from what the samples say; plain arithmetic in a fixed order, the same for every instruction set.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "attend/pattern.h"

namespace hw {
namespace {

// Sums over runs of `per` numbers; the last run may be short.
std::vector<double> pool(const float* x, int n, int per) {
  std::vector<double> out(static_cast<size_t>((n + per - 1) / per), 0.0);
  for (int i = 0; i < n; ++i) out[static_cast<size_t>(i / per)] += x[i];
  return out;
}

// Ids by value, largest first, ties to the lower id.
std::vector<int> ranked(const std::vector<double>& x) {
  std::vector<int> ids(x.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::sort(ids.begin(), ids.end(), [&](int a, int b) {
    const double u = x[static_cast<size_t>(a)], v = x[static_cast<size_t>(b)];
    return u > v || (u == v && a < b);
  });
  return ids;
}

// How many of the largest reach `share` of the sum, at least `least` and at most all.
int covering(const std::vector<double>& x, const std::vector<int>& ids, double share, int least) {
  double total = 0.0, seen = 0.0;
  for (const double v : x) total += v;
  int k = 0;
  for (; k < static_cast<int>(ids.size()) && (k == 0 || seen < share * total); ++k) seen += x[static_cast<size_t>(ids[static_cast<size_t>(k)])];
  return std::min(static_cast<int>(ids.size()), std::max(k, least));
}

// Marks the first k ids, each of which stands for `per` blocks of 16.
void mark(std::vector<uint8_t>& out, const std::vector<int>& ids, int k, int per) {
  for (int i = 0; i < k; ++i) {
    const int from = ids[static_cast<size_t>(i)] * per, to = std::min(from + per, static_cast<int>(out.size()));
    std::fill(out.begin() + from, out.begin() + to, uint8_t{1});
  }
}

// Blocks above the noise floor: the mean of what lies outside both ends (CRISP, 2609.01925).
int above_floor(const PatternSpec& spec, const std::vector<double>& p) {
  const int n = static_cast<int>(p.size());
  if (n <= spec.least + 2) return n;
  const double floor = std::max(1.0 - p.front() - p.back(), 0.0) / (n - 2);
  const int k = static_cast<int>(std::count_if(p.begin(), p.end(), [&](double x) { return x > spec.alpha * floor; }));
  return std::clamp(k, std::min(spec.least, n), n);
}

double divergence(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0.0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double m = 0.5 * (a[i] + b[i]);
    if (a[i] > 0) sum += 0.5 * a[i] * std::log(a[i] / m);
    if (b[i] > 0) sum += 0.5 * b[i] * std::log(b[i] / m);
  }
  return std::sqrt(std::max(sum, 0.0));
}

// Soft-max over blocks of the mean scores of their keys under the mean sample.
std::vector<double> pooled_map(const Evidence& e, int per) {
  std::vector<double> out = pool(e.pooled, e.blocks, per);
  double top = -HUGE_VAL, total = 0.0;
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] /= std::min(per, e.blocks - static_cast<int>(i) * per);
    top = std::max(top, out[i]);
  }
  for (double& x : out) total += x = std::exp2(x - top);
  for (double& x : out) x /= total;
  return out;
}

double sum_first(const float* x, int n) { return std::accumulate(x, x + n, 0.0); }

Choice nothing(const Evidence& e) {
  const auto n = static_cast<size_t>(e.blocks);
  return {std::vector<uint8_t>(n), std::vector<uint8_t>(n), false};
}

}  // namespace

Choice choose_crisp(const PatternSpec& spec, const Evidence& e) {
  const int per = spec.block / kBlockTokens;
  Choice out = nothing(e);
  const std::vector<double> columns = pool(e.vertical, e.blocks, per), means = pooled_map(e, per);
  bool structured = spec.route == kAlwaysSlash;
  if (spec.route == kByMass) {
    const double first = sum_first(e.vertical, std::min(e.blocks, (spec.sinks + kBlockTokens - 1) / kBlockTokens));
    const double newest = sum_first(e.slash, std::min(e.blocks, (spec.local + kBlockTokens - 1) / kBlockTokens));
    structured = first + newest >= spec.tau;
  } else if (spec.route == kByDivergence) {
    structured = divergence(means, columns) >= spec.tau;
  }
  if (!structured) {
    out.pooled = true;
    const std::vector<int> ids = ranked(means);
    mark(out.vertical, ids, covering(means, ids, spec.gamma, spec.least), per);
    return out;
  }
  const auto keep = [&](const std::vector<double>& p, std::vector<uint8_t>& marks) {
    const std::vector<int> ids = ranked(p);
    mark(marks, ids, spec.coverage ? covering(p, ids, spec.gamma, spec.least) : above_floor(spec, p), per);
  };
  keep(columns, out.vertical);
  keep(pool(e.slash, e.blocks, per), out.slash);
  return out;
}

Choice choose_vertical_slash(const PatternSpec& spec, const Evidence& e) {
  Choice out = nothing(e);
  const auto keep = [&](const float* x, int positions, std::vector<uint8_t>& marks) {
    const std::vector<double> p(x, x + e.blocks);
    mark(marks, ranked(p), std::min(e.blocks, (positions + kBlockTokens - 1) / kBlockTokens), 1);
  };
  keep(e.vertical, spec.vertical, out.vertical);
  keep(e.slash, spec.slash, out.slash);
  return out;
}

Choice choose_xattention(const PatternSpec& spec, const Evidence& e) {
  Choice out = nothing(e);
  const std::vector<double> p = pool(e.strided, e.blocks, spec.block / kBlockTokens);
  const std::vector<int> ids = ranked(p);
  mark(out.vertical, ids, covering(p, ids, spec.gamma, 1), spec.block / kBlockTokens);
  return out;
}

Choice choose_pattern(const PatternSpec& spec, const Evidence& e) {
  switch (spec.kind) {
    case kCrisp: return choose_crisp(spec, e);
    case kVerticalSlash: return choose_vertical_slash(spec, e);
    default: return choose_xattention(spec, e);
  }
}

void pattern_mask(const PatternSpec& spec, const Choice* choice, int start, int first, uint16_t* mask, int chunks) {
  if (!choice) return std::fill(mask, mask + chunks, uint16_t{0xffff});
  std::fill(mask, mask + chunks, uint16_t{0});
  const auto read = [&](int block) { mask[block / kChunkBlocks] = static_cast<uint16_t>(mask[block / kChunkBlocks] | 1u << block % kChunkBlocks); };
  const int known = std::min(static_cast<int>(choice->vertical.size()), first / kBlockTokens);
  for (int b = 0; b < known; ++b) {
    const int from = b * kBlockTokens;
    if (choice->vertical[static_cast<size_t>(b)] || from < spec.sinks || from + kBlockTokens > first - spec.local) read(b);
  }
  // what the tile itself holds was not judged
  for (int b = std::min(start, first) / kBlockTokens; b < chunks * kChunkBlocks; ++b) {
    if (!spec.whole || b * kBlockTokens + kBlockTokens > first - spec.local) read(b);
  }
  for (size_t o = 0; o < choice->slash.size(); ++o) {
    if (!choice->slash[o]) continue;
    const int distance = static_cast<int>(o) * kBlockTokens;
    const int from = std::max(0, first - distance - kBlockTokens + 1), to = first + spec.rows - 1 - distance;
    for (int b = from / kBlockTokens; b * kBlockTokens <= to && b * kBlockTokens < first; ++b) read(b);
  }
}

}  // namespace hw
