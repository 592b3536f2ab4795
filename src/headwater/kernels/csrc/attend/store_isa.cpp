// Rounds the step's keys and values to the cache format, block by block.
#include <cstring>

#include "attend/attend.h"
#include "attend/tiles_isa.h"
#include "attend/transpose_isa.h"
#include "common/simd16.h"

namespace hw {
namespace HW_ISA {
namespace {

// 32 channels of one token to int8 with one scale: scale = f16(amax / 127); a NaN or infinity makes the scale NaN.
HW_INLINE uint16_t quantise32(const float* x, int n, int8_t* out) {
  const F32x16 a = load_n(x, n < kLanes ? n : kLanes), b = n > kLanes ? load_n(x + kLanes, n - kLanes) : zero16();
  const float amax = max_lanes(max(abs(a), abs(b)));
  const float poison = sum_lanes(fma(a, zero16(), b * zero16()));
  uint16_t scale[kLanes];
  store_f16(scale, min(splat(65504.0f), splat(amax / 127.0f + poison)));
  const float wide = half_to_float(scale[0]);
  const F32x16 inverse = splat(wide > 0.0f ? 1.0f / wide : 0.0f), most = splat(127.0f), least = splat(-127.0f);
  store_i8(out, to_int(max(least, min(most, a * inverse))));
  store_i8(out + kLanes, to_int(max(least, min(most, b * inverse))));
  return scale[0];
}

// `count` tokens of one block from `slot` on; k and v are those of the first.
void store_f16_run(const AttendJob& job, const float* k, const float* v, uint16_t* key, uint16_t* value, int slot, int count) {
  const int dim = job.spec.head_dim;
  for (int c = 0; c < dim; c += kLanes) {
    const int n = dim - c < kLanes ? dim - c : kLanes;
    uint16_t tile[kBlockTokens * kLanes], half[kLanes];
    for (int i = 0; i < count; ++i) {
      store_f16(tile + i * kLanes, load_n(k + i * job.k_stride + c, n));
      store_f16(half, load_n(v + i * job.v_stride + c, n));
      std::memcpy(value + (slot + i) * dim + c, half, static_cast<size_t>(n) * 2);
    }
    if (count == kBlockTokens && n == kLanes) {
      transpose16(tile, key + c * kBlockTokens);
      continue;
    }
    for (int d = 0; d < n; ++d)
      for (int i = 0; i < count; ++i) key[(c + d) * kBlockTokens + slot + i] = tile[i * kLanes + d];
  }
}

void store_q8_token(const AttendJob& job, const float* k, const float* v, char* key, char* value, int slot) {
  const int dim = job.spec.head_dim, groups = static_cast<int>(q8_groups(dim));
  auto* key_scales = reinterpret_cast<uint16_t*>(key + kBlockTokens * dim);
  auto* value_scales = reinterpret_cast<uint16_t*>(value + kBlockTokens * dim);
  for (int g = 0; g < groups; ++g) {
    const int c = g * kQ8Channels, n = dim - c < kQ8Channels ? dim - c : kQ8Channels;
    int8_t bytes[kQ8Channels];
    key_scales[g * kBlockTokens + slot] = quantise32(k + c, n, bytes);
    for (int i = 0; i < n; ++i) key[(c + i) * kBlockTokens + slot] = static_cast<char>(bytes[i]);
    value_scales[slot * groups + g] = quantise32(v + c, n, bytes);
    std::memcpy(value + slot * dim + c, bytes, static_cast<size_t>(n));
  }
}

}  // namespace

void store_kv(const AttendJob& job, int kv_head, const int32_t* row_of, int first, int last) {
  const int64_t column = static_cast<int64_t>(kv_head) * job.spec.head_dim;
  for (int t = first; t < last;) {
    const int position = job.step.positions[t], slot = position % kBlockTokens;
    int count = 1;
    while (t + count < last && slot + count < kBlockTokens && row_of[t + count] == row_of[t]) ++count;
    const int block = job.kv.table[static_cast<int64_t>(row_of[t]) * job.kv.table_width + position / kBlockTokens];
    char* key = const_cast<char*>(block_of(job, job.kv.k, block, kv_head));
    char* value = const_cast<char*>(block_of(job, job.kv.v, block, kv_head));
    const float *k = job.k + t * job.k_stride + column, *v = job.v + t * job.v_stride + column;
    if (job.kv.format == kQ8) {
      for (int i = 0; i < count; ++i) store_q8_token(job, k + i * job.k_stride, v + i * job.v_stride, key, value, slot + i);
    } else {
      store_f16_run(job, k, v, reinterpret_cast<uint16_t*>(key), reinterpret_cast<uint16_t*>(value), slot, count);
    }
    t += count;
  }
}

}  // namespace HW_ISA
}  // namespace hw
