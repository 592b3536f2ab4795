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
  QuantRows rest;               // what their rounding left out, when the product is fine: its product is added to the finished sums
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
  int64_t scratch_bytes = 0;  // per thread

  // Matrix tiles: the quantised rows and their remainders once more, in tile order (linear/tiles.h); null = not used.
  const uint8_t* tiles = nullptr;
  const uint8_t* rest_tiles = nullptr;
};

bool needs_quant(const WeightView& weight);   // some part has a block layout
bool needs_floats(const WeightView& weight);  // some part has a float layout

HW_DECLARE(void plan_linear(LinearJob& job))
HW_DECLARE(void run_linear_unit(const LinearJob& job, int unit, uint8_t* scratch))
// Dot products of input rows with single weight rows: out[i * out_stride + j] = x_i . W[ids[j]], same bits as the full product.
HW_DECLARE(void run_linear_row(const LinearJob& job, const int32_t* ids, int n_ids, int j))
// Row `id` dequantised to f32[cols].
HW_DECLARE(void gather_row(const WeightView& weight, int64_t id, float* out))

#if defined(HW_HAS_AMX)
namespace amx {
bool takes(const LinearJob& job);  // enough rows and a block layout: tiles pay
void plan_linear(LinearJob& job);
void run_linear_unit(const LinearJob& job, int unit, uint8_t* scratch);
bool wants_halves(const WeightView& weight);  // some part has a scale per 16 columns
// Rows [16 tile, 16 tile + 16) of n -> TileBlock[cols / 32]; sums of half blocks only where asked.
void pack_tile(const QuantRows& rows, int64_t n, int64_t tile, bool halves, uint8_t* to);
}  // namespace amx
#endif

void linear(ThreadPool& pool, LinearJob job);
void linear_rows(ThreadPool& pool, const LinearJob& job, const int32_t* ids, int n_ids);

// 64-byte aligned memory of the calling thread; grows, never shrinks. Two of them: what a unit works with, and rows in tile order.
uint8_t* unit_scratch(int64_t bytes);
uint8_t* tile_scratch(int64_t bytes);

}  // namespace hw
