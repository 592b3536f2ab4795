// One row's draw. Vocabulary-sized passes run in the active instruction set; sorting touches only the ids that can be kept.
#include "sample/sample.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "common/pool.h"
#include "sample/philox.h"

namespace hw {
namespace {

constexpr float kLog2e = 1.44269504088896341f;
constexpr float kNever = -std::numeric_limits<float>::infinity();
// How far below the best logit candidates are looked for, in bits of probability; the last level takes everything.
constexpr float kLevels[] = {3, 6, 10, 16, 24, 126};

struct Passes {
  decltype(&portable::row_max) row_max = HW_SELECT(row_max);
  decltype(&portable::find_value) find_value = HW_SELECT(find_value);
  decltype(&portable::collect_ids) collect_ids = HW_SELECT(collect_ids);
  decltype(&portable::count_above) count_above = HW_SELECT(count_above);
  decltype(&portable::sum_exp2) sum_exp2 = HW_SELECT(sum_exp2);
  decltype(&portable::apply_mask) apply_mask = HW_SELECT(apply_mask);
};

struct Scratch {
  std::vector<float> logits, weights;
  std::vector<double> block_sums;
  std::vector<int32_t> ids;
};

Scratch& thread_buffers(int vocab) {
  thread_local Scratch s;
  const auto n = static_cast<size_t>(vocab);
  if (s.ids.size() < n) {
    s.logits.resize(n);
    s.weights.resize(n);
    s.ids.resize(n);
    s.block_sums.resize(n / kSumBlock + 1);
  }
  return s;
}

struct Better {  // larger value first, ties to the lower id
  const float* x;
  bool operator()(int32_t a, int32_t b) const { return x[a] != x[b] ? x[a] > x[b] : a < b; }
};

// The k best ids, best first, into s.ids; returns how many (fewer when fewer are finite).
int best_ids(const Passes& pass, const float* x, int vocab, float top, int k, int32_t* ids) {
  for (float depth : {2.0f, 5.0f, 10.0f, 20.0f}) {
    const int n = pass.collect_ids(x, vocab, top - depth, ids);
    if (n < k) continue;
    if (n > k) std::nth_element(ids, ids + k, ids + n, Better{x});
    std::sort(ids, ids + k, Better{x});
    return k;
  }
  for (int i = 0; i < vocab; ++i) ids[i] = i;
  k = std::min(k, vocab);
  std::partial_sort(ids, ids + k, ids + vocab, Better{x});
  return k;
}

// The raw logits with penalties, bias, bans and mask applied; the row itself when there are none.
const float* adjust(const Passes& pass, const SampleRow& row, int vocab, float* copy) {
  const bool counts = row.n_counts > 0 && (row.repetition != 1.0f || row.presence != 0.0f || row.frequency != 0.0f);
  if (!counts && row.n_bias == 0 && row.n_banned == 0 && !row.mask) return row.logits;
  std::memcpy(copy, row.logits, static_cast<size_t>(vocab) * sizeof(float));
  for (int i = 0; counts && i < row.n_counts; ++i) {
    float& x = copy[row.count_ids[i]];
    if (row.prompt_counts[i] > 0 || row.output_counts[i] > 0) x = x > 0 ? x / row.repetition : x * row.repetition;
    if (row.output_counts[i] > 0) x = (x - row.frequency * static_cast<float>(row.output_counts[i])) - row.presence;
  }
  for (int i = 0; i < row.n_bias; ++i) copy[row.bias_ids[i]] += row.bias_values[i];
  for (int i = 0; i < row.n_banned; ++i) copy[row.banned_ids[i]] = kNever;
  if (row.mask) pass.apply_mask(copy, vocab, row.mask);
  return copy;
}

double mass_of(const int32_t* ids, int n, const float* weights) {
  double sum = 0;
  for (int i = 0; i < n; ++i) sum += static_cast<double>(weights[ids[i]]);
  return sum;
}

// Moves the smallest set of best ids whose mass reaches `target` to the front and returns its size; n when all of them do not reach it.
// Ids are first put into bins of an eighth of a bit of probability, so that only those of the bin at the border need sorting.
int nucleus(int32_t* ids, int n, const float* x, float top, float factor, const float* weights, double target) {
  constexpr int kBins = 1024;
  double mass[kBins] = {};
  const auto bin = [&](int32_t id) { return static_cast<int>(std::min((top - x[id]) * factor * 8.0f, kBins - 1.0f)); };
  for (int i = 0; i < n; ++i) mass[bin(ids[i])] += static_cast<double>(weights[ids[i]]);
  double sum = 0;
  int border = 0;
  while (border < kBins && sum + mass[border] < target) sum += mass[border++];
  if (border == kBins) return n;
  int32_t* const first = std::partition(ids, ids + n, [&](int32_t id) { return bin(id) < border; });
  int32_t* const last = std::partition(first, ids + n, [&](int32_t id) { return bin(id) == border; });
  std::sort(first, last, Better{x});
  for (int32_t* id = first; id != last; ++id) {
    sum += static_cast<double>(weights[*id]);
    if (sum >= target) return static_cast<int>(id - ids) + 1;
  }
  return static_cast<int>(last - ids);
}

// Ids that top_k and top_p keep, in no order, into ids; weights of all ids are known and add up to `total`.
int keep(const Passes& pass, const SampleRow& row, const float* x, int vocab, float top, float factor, const float* weights, double total,
         int32_t* ids) {
  const bool by_mass = row.top_p < 1.0f;
  const int k = row.top_k > 0 && row.top_k < vocab ? row.top_k : 0;
  int n = 0;
  for (float bits : kLevels) {
    const bool last = bits == 126 || row.min_p > std::exp2(1.0f - bits);  // nothing is kept below this level
    n = pass.collect_ids(x, vocab, bits == 126 ? std::numeric_limits<float>::lowest() : top - bits / factor, ids);
    n = static_cast<int>(std::remove_if(ids, ids + n, [&](int32_t id) { return weights[id] == 0.0f; }) - ids);
    if (k && n > k) {
      std::nth_element(ids, ids + k, ids + n, Better{x});
      n = k;
    } else if (k && n < k && !last) {
      continue;
    }
    if (!by_mass) return n;
    const double mass = mass_of(ids, n, weights);
    const double target = static_cast<double>(row.top_p) * (k ? mass : total);
    if (!k && mass < target && !last) continue;
    return nucleus(ids, n, x, top, factor, weights, target);
  }
  return n;
}

int draw_listed(int32_t* ids, int n, const float* weights, double u) {
  std::sort(ids, ids + n);
  const double target = u * mass_of(ids, n, weights);
  double sum = 0;
  for (int i = 0; i < n; ++i) {
    sum += static_cast<double>(weights[ids[i]]);
    if (sum > target) return ids[i];
  }
  return ids[n - 1];
}

int draw_all(const float* weights, const double* block_sums, int vocab, double total, double u) {
  const double target = u * total;
  double sum = 0;
  int last = -1;
  for (int base = 0; base < vocab; base += kSumBlock) {
    const double block = block_sums[base / kSumBlock];
    const int stop = std::min(base + kSumBlock, vocab);
    if (block > 0 && sum + block > target) {
      double inside = sum;
      for (int i = base; i < stop; ++i) {
        inside += static_cast<double>(weights[i]);
        if (weights[i] > 0) last = i;
        if (inside > target) return i;
      }
      return last;  // the block's own sum was rounded up: its last id takes the rest
    }
    sum += block;
  }
  for (int i = vocab - 1; i >= 0; --i) {
    if (weights[i] > 0) return i;
  }
  return last;
}

int draw(const Passes& pass, const SampleRow& row, const float* x, int vocab, float top, Scratch& s) {
  if (row.temperature < kGreedyBelow) return pass.find_value(x, vocab, top);
  const float factor = kLog2e / row.temperature;
  const double total = pass.sum_exp2(x, vocab, top, factor, row.min_p, s.weights.data(), s.block_sums.data());
  const double u = uniform_at(row.seed, static_cast<uint64_t>(row.position), 0);
  if (row.top_p >= 1.0f && (row.top_k <= 0 || row.top_k >= vocab)) return draw_all(s.weights.data(), s.block_sums.data(), vocab, total, u);
  const int n = keep(pass, row, x, vocab, top, factor, s.weights.data(), total, s.ids.data());
  return draw_listed(s.ids.data(), n, s.weights.data(), u);
}

double log_sum(const Passes& pass, const float* x, int vocab, float top) {
  return static_cast<double>(top) + std::log(pass.sum_exp2(x, vocab, top, kLog2e, 0.0f, nullptr, nullptr));
}

void report(const Passes& pass, const SampleRow& row, int vocab, float top, SampleOut& out, Scratch& s) {
  const double lse = log_sum(pass, row.logits, vocab, top);
  out.logprob = static_cast<float>(static_cast<double>(row.logits[out.token]) - lse);
  out.rank = 1 + pass.count_above(row.logits, vocab, row.logits[out.token]);
  if (row.n_logprobs == 0) return;
  const int n = best_ids(pass, row.logits, vocab, top, row.n_logprobs, s.ids.data());
  for (int i = 0; i < n; ++i) {
    out.top_ids[i] = s.ids[static_cast<size_t>(i)];
    out.top_logprobs[i] = static_cast<float>(static_cast<double>(row.logits[out.top_ids[i]]) - lse);
  }
}

void sample_row(const SampleRow& row, SampleOut& out, int vocab) {
  const Passes pass;
  Scratch& s = thread_buffers(vocab);
  float raw_top, top;
  if (!pass.row_max(row.logits, vocab, &raw_top)) {
    out.status = kNotFinite;
    return;
  }
  const float* x = adjust(pass, row, vocab, s.logits.data());
  top = raw_top;
  if (x != row.logits && !pass.row_max(x, vocab, &top)) {
    out.status = kNotFinite;
    return;
  }
  if (top == kNever) {
    out.status = kNothingAllowed;
    return;
  }
  out.token = draw(pass, row, x, vocab, top, s);
  if (row.n_logprobs >= 0) report(pass, row, vocab, raw_top, out, s);
}

}  // namespace

void sample_rows(ThreadPool& pool, const SampleRow* rows, SampleOut* outs, int n_rows, int vocab) {
  pool.parallel_for(n_rows, [&](int r, int) { sample_row(rows[r], outs[r], vocab); });
}

void lse_rows(ThreadPool& pool, const float* logits, int64_t stride, int n_rows, int vocab, double* out) {
  const Passes pass;
  pool.parallel_for(n_rows, [&](int r, int) {
    const float* x = logits + r * stride;
    float top;
    const bool finite = pass.row_max(x, vocab, &top);
    out[r] = !finite ? std::numeric_limits<double>::quiet_NaN() : top == kNever ? static_cast<double>(kNever) : log_sum(pass, x, vocab, top);
  });
}

void top_rows(ThreadPool& pool, const float* logits, int64_t stride, int n_rows, int vocab, int k, int32_t* ids) {
  const Passes pass;
  pool.parallel_for(n_rows, [&](int r, int) {
    const float* x = logits + r * stride;
    float top;
    if (!pass.row_max(x, vocab, &top)) {
      std::fill(ids + static_cast<int64_t>(r) * k, ids + static_cast<int64_t>(r + 1) * k, -1);
      return;
    }
    Scratch& s = thread_buffers(vocab);
    best_ids(pass, x, vocab, top, k, s.ids.data());
    std::copy_n(s.ids.data(), k, ids + static_cast<int64_t>(r) * k);
  });
}

}  // namespace hw
