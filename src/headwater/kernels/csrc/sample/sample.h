// Drawing tokens from logits, one row at a time: a row's result depends on its own logits, parameters, seed and position only.
//
// Order: penalties, bias, banned ids and mask, temperature, min_p, top_k, top_p, one uniform, inverse distribution function in id order.
// Log-probabilities are those of the raw logits (ADR 001, 7).
#pragma once

#include <cstdint>

#include "common/isa.h"

namespace hw {

class ThreadPool;

constexpr float kGreedyBelow = 1e-5f;  // temperatures below are greedy
constexpr int kSumBlock = 256;         // ids per partial sum of probabilities

enum SampleStatus : int32_t { kSampled = 0, kNotFinite = 1, kNothingAllowed = 2 };

struct SampleRow {
  const float* logits = nullptr;
  float temperature = 0, top_p = 1, min_p = 0, repetition = 1, presence = 0, frequency = 0;
  int32_t top_k = 0;
  uint64_t seed = 0;
  int64_t position = 0;
  const int32_t *count_ids = nullptr, *prompt_counts = nullptr, *output_counts = nullptr;  // ids met so far and how often
  const int32_t* bias_ids = nullptr;
  const float* bias_values = nullptr;
  const int32_t* banned_ids = nullptr;
  int n_counts = 0, n_bias = 0, n_banned = 0;
  const uint32_t* mask = nullptr;  // bit i of word i / 32: id i is allowed
  int n_logprobs = -1;             // -1: none; k: the chosen id's and the k most likely
};

struct SampleOut {
  int32_t token = -1, status = kSampled, rank = 0;  // rank: 1 + ids with a larger raw logit
  float logprob = 0;
  int32_t* top_ids = nullptr;  // [n_logprobs]
  float* top_logprobs = nullptr;
};

void sample_rows(ThreadPool& pool, const SampleRow* rows, SampleOut* outs, int n_rows, int vocab);

// Natural log-sum-exp of each row of logits [n_rows][vocab]; NaN when a row is not finite.
void lse_rows(ThreadPool& pool, const float* logits, int64_t stride, int n_rows, int vocab, double* out);

// The k best ids of each row, best first, ties to the lower id; ids [n_rows][k].
void top_rows(ThreadPool& pool, const float* logits, int64_t stride, int n_rows, int vocab, int k, int32_t* ids);

HW_DECLARE(
    // Maximum of n > 0 values; false when one is NaN or +inf.
    bool row_max(const float* x, int n, float* top);
    // Lowest id whose value is `top`.
    int find_value(const float* x, int n, float top);
    // Writes ids with x >= least, ascending; returns how many.
    int collect_ids(const float* x, int n, float least, int32_t* ids);
    int count_above(const float* x, int n, float value);
    // Sum of 2^((x - top) * factor), block by block of kSumBlock ids (sixteen lanes, folded, then double); weights, if given, receives the terms,
    // block_sums, if given, each block's sum. Terms below `least` count as 0.
    double sum_exp2(const float* x, int n, float top, float factor, float least, float* weights, double* block_sums);
    // x <- -inf where the bit is 0.
    void apply_mask(float* x, int n, const uint32_t* mask);)

}  // namespace hw
