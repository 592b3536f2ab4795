// y = x * transpose(W) (+ bias) (+ residual), for weights of any mix of layouts.
#pragma once

#include <cstdint>

#include "common/isa.h"
#include "common/pool.h"
#include "linear/quant.h"
#include "weights/layout.h"

namespace hw {

struct LinearJob {
  WeightView weight;
  QuantRows quant;              // quantised input rows, when a part has a block layout
  const float* x = nullptr;     // float input rows, when a part has a float layout
  int64_t x_stride = 0;
  int n = 0;                    // input rows
  float* out = nullptr;         // [n][out_stride]
  int64_t out_stride = 0;
  const float* bias = nullptr;      // [weight.rows] or null
  const float* residual = nullptr;  // [n][residual_stride] or null; may be `out`
  int64_t residual_stride = 0;

  int threads = 1;                  // how many will take units; set by linear()

  // Set by plan_linear(): work is cut into units that any thread may take.
  int group_step = 0, chunk = 0, units_per_chunk = 0;
  int64_t scratch_bytes = 0;        // per thread
  int64_t packed_bytes = 0;         // per 16 input rows, where products read quantised rows in an order of their own; 0: they do not

  const uint8_t* packed = nullptr;  // the rows in that order; set by linear()

  // Units of `step` groups of one part and `rows` input rows.
  void cut(int step, int rows);
};

// What a unit computes: groups [first, end) of a part for the input rows [row, row_end).
struct Piece {
  const PartView* part;
  int64_t first, end, row, row_end;
};

Piece locate(const LinearJob& job, int unit);

bool needs_quant(const WeightView& weight);   // some part has a block layout
bool needs_floats(const WeightView& weight);  // some part has a float layout

// plan_linear: how a product is cut. pack_rows: rows [16 tile, 16 tile + 16) of n, packed_bytes of them. run_linear_unit: one unit.
HW_DECLARE(void plan_linear(LinearJob& job))
HW_DECLARE(void pack_rows(const QuantRows& rows, int64_t n, int64_t tile, uint8_t* to))
HW_DECLARE(void run_linear_unit(const LinearJob& job, int unit, uint8_t* scratch))
// Dot products of input rows with single weight rows: out[i * out_stride + j] = x_i . W[ids[j]], same bits as the full product.
HW_DECLARE(void run_linear_row(const LinearJob& job, const int32_t* ids, int j))
// Row `id` dequantised to f32[cols].
HW_DECLARE(void gather_row(const WeightView& weight, int64_t id, float* out))

#if defined(HW_HAS_AMX)
namespace amx {
bool takes(const LinearJob& job);  // enough rows and a block layout: tiles pay
void plan_linear(LinearJob& job);
void pack_rows(const QuantRows& rows, int64_t n, int64_t tile, uint8_t* to);
void run_linear_unit(const LinearJob& job, int unit, uint8_t* scratch);
}  // namespace amx
#endif

void linear(ThreadPool& pool, LinearJob job);
void linear_rows(ThreadPool& pool, const LinearJob& job, const int32_t* ids, int n_ids);

}  // namespace hw
