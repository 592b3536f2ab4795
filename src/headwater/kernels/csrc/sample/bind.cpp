// Python bindings of sampling; the fields are documented in headwater.kernels.sampling.
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <nanobind/stl/optional.h>

#include "common/module.h"
#include "common/pool.h"
#include "sample/philox.h"
#include "sample/sample.h"

namespace {

template <class T>
using Vector = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using Matrix = nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Logits = nb::ndarray<const float, nb::ndim<2>, nb::device::cpu>;

[[noreturn]] void fail(const std::string& what) { throw std::invalid_argument("sample: " + what); }

void check_logits(const Logits& logits) {
  const bool pieces = logits.shape(0) > 0 && logits.shape(1) > 1 && logits.stride(1) != 1;
  if (logits.shape(1) == 0 || pieces) fail("logits must be float32[rows, vocabulary > 0] with rows in one piece");
}

// Ragged ids: start[r] .. start[r + 1], every id below `vocab`.
void check_ragged(const Vector<const int32_t>& start, const Vector<const int32_t>& ids, size_t rows, int vocab, const char* name) {
  if (start.shape(0) != rows + 1 || start(0) != 0 || static_cast<size_t>(start(rows)) != ids.shape(0)) {
    fail(std::string(name) + " does not cover the rows");
  }
  for (size_t r = 0; r < rows; ++r) {
    if (start(r) > start(r + 1)) fail(std::string(name) + " descends at row " + std::to_string(r));
  }
  for (size_t i = 0; i < ids.shape(0); ++i) {
    if (ids(i) < 0 || ids(i) >= vocab) {
      fail(std::string(name) + " names id " + std::to_string(ids(i)) + ", the vocabulary has " + std::to_string(vocab));
    }
  }
}

void sample(Logits logits, Vector<const float> temperature, Vector<const int32_t> top_k, Vector<const float> top_p, Vector<const float> min_p,
            Vector<const float> repetition, Vector<const float> presence, Vector<const float> frequency, Vector<const uint64_t> seed,
            Vector<const int64_t> position, Vector<const int32_t> n_logprobs, Vector<const int32_t> count_start, Vector<const int32_t> count_ids,
            Vector<const int32_t> prompt_counts, Vector<const int32_t> output_counts, Vector<const int32_t> bias_start,
            Vector<const int32_t> bias_ids, Vector<const float> bias_values, Vector<const int32_t> banned_start, Vector<const int32_t> banned_ids,
            std::optional<Matrix<const uint32_t>> masks, Vector<const int32_t> mask_row, Vector<int32_t> tokens, Vector<int32_t> status,
            Vector<int32_t> ranks, Vector<float> logprobs, Matrix<int32_t> top_ids, Matrix<float> top_logprobs) {
  check_logits(logits);
  const size_t n = logits.shape(0);
  const int vocab = static_cast<int>(logits.shape(1));
  for (size_t size : {temperature.shape(0), top_k.shape(0), top_p.shape(0), min_p.shape(0), repetition.shape(0), presence.shape(0),
                      frequency.shape(0), seed.shape(0), position.shape(0), n_logprobs.shape(0), mask_row.shape(0), tokens.shape(0),
                      status.shape(0), ranks.shape(0), logprobs.shape(0), top_ids.shape(0), top_logprobs.shape(0)}) {
    if (size != n) fail("parameters must have one entry for each of the " + std::to_string(n) + " rows");
  }
  check_ragged(count_start, count_ids, n, vocab, "counts");
  check_ragged(bias_start, bias_ids, n, vocab, "bias");
  check_ragged(banned_start, banned_ids, n, vocab, "banned");
  if (prompt_counts.shape(0) != count_ids.shape(0) || output_counts.shape(0) != count_ids.shape(0)) fail("counts must be one per id");
  if (bias_values.shape(0) != bias_ids.shape(0)) fail("bias needs one value per id");
  if (masks && static_cast<int>(masks->shape(1)) < (vocab + 31) / 32) fail("masks are shorter than the vocabulary");
  std::vector<hw::SampleRow> rows(n);
  std::vector<hw::SampleOut> outs(n);
  for (size_t r = 0; r < n; ++r) {
    hw::SampleRow& row = rows[r];
    row.logits = logits.data() + static_cast<int64_t>(r) * logits.stride(0);
    row.temperature = temperature(r);
    row.top_k = top_k(r);
    row.top_p = top_p(r);
    row.min_p = min_p(r);
    row.repetition = repetition(r);
    row.presence = presence(r);
    row.frequency = frequency(r);
    row.seed = seed(r);
    row.position = position(r);
    row.n_logprobs = n_logprobs(r);
    row.count_ids = count_ids.data() + count_start(r);
    row.prompt_counts = prompt_counts.data() + count_start(r);
    row.output_counts = output_counts.data() + count_start(r);
    row.n_counts = count_start(r + 1) - count_start(r);
    row.bias_ids = bias_ids.data() + bias_start(r);
    row.bias_values = bias_values.data() + bias_start(r);
    row.n_bias = bias_start(r + 1) - bias_start(r);
    row.banned_ids = banned_ids.data() + banned_start(r);
    row.n_banned = banned_start(r + 1) - banned_start(r);
    if (row.n_logprobs > static_cast<int>(top_ids.shape(1)) || top_ids.shape(1) != top_logprobs.shape(1)) {
      fail("n_logprobs of row " + std::to_string(r) + " is more than there is room for");
    }
    if (mask_row(r) >= 0) {
      if (!masks || static_cast<size_t>(mask_row(r)) >= masks->shape(0)) fail("mask_row of row " + std::to_string(r) + " has no mask");
      row.mask = masks->data() + static_cast<size_t>(mask_row(r)) * masks->shape(1);
    }
    outs[r].top_ids = top_ids.data() + r * top_ids.shape(1);
    outs[r].top_logprobs = top_logprobs.data() + r * top_ids.shape(1);
  }
  {
    nb::gil_scoped_release release;
    hw::sample_rows(hw::ThreadPool::shared(), rows.data(), outs.data(), static_cast<int>(n), vocab);
  }
  for (size_t r = 0; r < n; ++r) {
    tokens(r) = outs[r].token;
    status(r) = outs[r].status;
    ranks(r) = outs[r].rank;
    logprobs(r) = outs[r].logprob;
  }
}

void lse(Logits logits, Vector<double> out) {
  check_logits(logits);
  if (out.shape(0) != logits.shape(0)) fail("lse must have one entry for each row");
  nb::gil_scoped_release release;
  hw::lse_rows(hw::ThreadPool::shared(), logits.data(), logits.stride(0), static_cast<int>(logits.shape(0)),
               static_cast<int>(logits.shape(1)), out.data());
}

void top(Logits logits, Matrix<int32_t> ids) {
  check_logits(logits);
  if (ids.shape(0) != logits.shape(0) || ids.shape(1) > logits.shape(1)) fail("ids must be int32[rows, at most vocabulary]");
  nb::gil_scoped_release release;
  hw::top_rows(hw::ThreadPool::shared(), logits.data(), logits.stride(0), static_cast<int>(logits.shape(0)), static_cast<int>(logits.shape(1)),
               static_cast<int>(ids.shape(1)), ids.data());
}

}  // namespace

HW_MODULE(sample) {
  m.def("sample", &sample, nb::arg("logits"), nb::arg("temperature"), nb::arg("top_k"), nb::arg("top_p"), nb::arg("min_p"), nb::arg("repetition"),
        nb::arg("presence"), nb::arg("frequency"), nb::arg("seed"), nb::arg("position"), nb::arg("n_logprobs"), nb::arg("count_start"),
        nb::arg("count_ids"), nb::arg("prompt_counts"), nb::arg("output_counts"), nb::arg("bias_start"), nb::arg("bias_ids"),
        nb::arg("bias_values"), nb::arg("banned_start"), nb::arg("banned_ids"), nb::arg("masks").none(), nb::arg("mask_row"), nb::arg("tokens"),
        nb::arg("status"), nb::arg("ranks"), nb::arg("logprobs"), nb::arg("top_ids"), nb::arg("top_logprobs"));
  m.def("lse_rows", &lse, nb::arg("logits"), nb::arg("out"));
  m.def("top_rows", &top, nb::arg("logits"), nb::arg("ids"));
  m.def("uniform_at", [](uint64_t seed, uint64_t position, uint32_t stream) { return hw::uniform_at(seed, position, stream); }, nb::arg("seed"),
        nb::arg("position"), nb::arg("stream") = 0);
  m.def("philox4x32", [](uint32_t a, uint32_t b, uint32_t c, uint32_t d, uint32_t key0, uint32_t key1) {
    const hw::Philox4 r = hw::philox4x32({{a, b, c, d}}, key0, key1);
    return nb::make_tuple(r.v[0], r.v[1], r.v[2], r.v[3]);
  });
}
