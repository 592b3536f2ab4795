// Rounds the step's keys and values to the cache format, block by block.
#include <cstring>

#include "attend/attend.h"
#include "attend/hadamard_isa.h"
#include "attend/store_i16_isa.h"
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
void store_f16_run(int dim, const float* k, int64_t k_stride, const float* v, int64_t v_stride, uint16_t* key, uint16_t* value, int slot, int count) {
  for (int c = 0; c < dim; c += kLanes) {
    const int n = dim - c < kLanes ? dim - c : kLanes;
    uint16_t tile[kBlockTokens * kLanes], half[kLanes];
    for (int i = 0; i < count; ++i) {
      store_f16(tile + i * kLanes, load_n(k + i * k_stride + c, n));
      store_f16(half, load_n(v + i * v_stride + c, n));
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

void store_q8(int dim, const float* x, char* block, int slot, bool key) {
  const int groups = static_cast<int>(q8_groups(dim));
  auto* scales = reinterpret_cast<uint16_t*>(block + kBlockTokens * dim);
  for (int g = 0; g < groups; ++g) {
    const int c = g * kQ8Channels, n = dim - c < kQ8Channels ? dim - c : kQ8Channels;
    int8_t bytes[kQ8Channels];
    scales[key ? g * kBlockTokens + slot : slot * groups + g] = quantise32(x + c, n, bytes);
    for (int i = 0; i < n; ++i) block[key ? (c + i) * kBlockTokens + slot : slot * dim + c + i] = static_cast<char>(bytes[i]);
  }
}

// Code of |x| / scale in E2M1, halves to the even mantissa: 0, 0.5, 1, 1.5, 2, 3, 4, 6.
int e2m1(float y) { return (y > 0.25f) + (y >= 0.75f) + (y > 1.25f) + (y >= 1.75f) + (y > 2.5f) + (y >= 3.5f) + (y > 5.0f); }

// Sixteen channels: codes, and the E4M3 scale amax / 6, rounded to half precision and then to three bits of mantissa, halves to even.
uint8_t quantise_fp4(const float* x, uint8_t* codes) {
  const F32x16 a = load(x);
  const float amax = max_lanes(abs(a)), poison = sum_lanes(a * zero16());
  uint16_t half[kLanes];
  store_f16(half, splat(amax / 6.0f / 256.0f + poison));
  const bool broken = (half[0] & 0x7fff) > 0x7c00;
  const int rounded = (half[0] + 0x3f + ((half[0] >> 7) & 1)) >> 7;
  const auto scale = static_cast<uint8_t>(broken ? 0x7f : rounded > 0x7e ? 0x7e : rounded);
  const float wide = half_to_float(e4m3_bits(scale)) * 256.0f;
  const float inverse = wide > 0.0f ? 1.0f / wide : 0.0f;
  for (int i = 0; i < kLanes; ++i) codes[i] = static_cast<uint8_t>(e2m1((x[i] < 0 ? -x[i] : x[i]) * inverse) | (x[i] < 0 ? 8 : 0));
  return scale;
}

// 32 channels: codes 0..15, scale (highest - lowest) / 15 and lowest in half precision.
void quantise_int4(const float* x, uint8_t* codes, uint16_t* scale, uint16_t* least) {
  const F32x16 a = load(x), b = load(x + kLanes);
  const float high = max_lanes(max(a, b)), low = -max_lanes(max(zero16() - a, zero16() - b)), poison = sum_lanes(fma(a, zero16(), b * zero16()));
  uint16_t half[kLanes];
  store_f16(half, min(splat(65504.0f), splat((high - low) / 15.0f + poison)));
  *scale = half[0];
  store_f16(half, splat(low));
  *least = half[0];
  const float wide = half_to_float(*scale), from = half_to_float(*least);
  const F32x16 inverse = splat(wide > 0.0f ? 1.0f / wide : 0.0f), most = splat(15.0f);
  int8_t bytes[2 * kLanes];
  store_i8(bytes, to_int(max(zero16(), min(most, (a - splat(from)) * inverse))));
  store_i8(bytes + kLanes, to_int(max(zero16(), min(most, (b - splat(from)) * inverse))));
  std::memcpy(codes, bytes, 2 * kLanes);
}

// One token's codes of 32 channels from c on: into columns of a key block, or into a row of a value block.
void put_codes(const uint8_t* codes, int dim, char* block, int slot, int c, bool key) {
  for (int i = 0; i < 2 * kLanes; ++i) {
    const int d = c + i;
    char* byte = key ? block + d * 8 + slot % 8 : block + slot * dim / 2 + d / 16 * 8 + d % 8;
    const bool high = key ? slot >= 8 : d % 16 >= 8;
    *byte = static_cast<char>(high ? (*byte & 15) | codes[i] << 4 : (*byte & 0xf0) | codes[i]);
  }
}

void store_four_bits(int format, int dim, const float* x, char* block, int slot, bool key) {
  char* scales = block + kBlockTokens * dim / 2;
  for (int c = 0; c < dim; c += 2 * kLanes) {
    uint8_t codes[2 * kLanes];
    if (format == kFp4) {
      for (int h = 0; h < 2; ++h) {
        const int g = c / kLanes + h;
        scales[key ? g * kBlockTokens + slot : slot * (dim / kLanes) + g] = static_cast<char>(quantise_fp4(x + c + h * kLanes, codes + h * kLanes));
      }
    } else {
      auto* halves = reinterpret_cast<uint16_t*>(scales);
      const int g = c / (2 * kLanes), at = key ? g * 2 * kBlockTokens + slot : 2 * (slot * (dim / 32) + g);
      quantise_int4(x + c, codes, halves + at, halves + at + (key ? kBlockTokens : 1));
    }
    put_codes(codes, dim, block, slot, c, key);
  }
}

void store_coded(int format, int dim, const float* x, char* block, int slot, bool key) {
  if (format == kQ8) return store_q8(dim, x, block, slot, key);
  store_four_bits(format, dim, x, block, slot, key);
}

// `count` tokens of one block from `slot` on, in the format of the cache; k and v are those of the first.
void store_run(const AttendJob& job, const float* k, int64_t k_stride, const float* v, int64_t v_stride, char* key, char* value, int slot, int count) {
  const int format = job.kv.format;
  if (format == kF16) {
    return store_f16_run(job.spec.head_dim, k, k_stride, v, v_stride, reinterpret_cast<uint16_t*>(key), reinterpret_cast<uint16_t*>(value), slot, count);
  }
  if (format == kI16) {
    for (int i = 0; i < count; ++i) store_i16_key(job.spec.head_dim, k + i * k_stride, key, slot + i);
    return store_i16_values(job.spec.head_dim, v, v_stride, value, slot, count);
  }
  for (int i = 0; i < count; ++i) {
    store_coded(key_format(format), job.spec.head_dim, k + i * k_stride, key, slot + i, true);
    store_coded(value_format(format), job.spec.head_dim, v + i * v_stride, value, slot + i, false);
  }
}

// The same, token by token through the Hadamard matrix.
void store_rotated(const AttendJob& job, const float* k, const float* v, char* key, char* value, int slot, int count) {
  const int dim = job.spec.head_dim;
  alignas(64) float rotated[2][kWidestRotated];
  for (int i = 0; i < count; ++i) {
    std::memcpy(rotated[0], k + i * job.k_stride, static_cast<size_t>(dim) * sizeof(float));
    std::memcpy(rotated[1], v + i * job.v_stride, static_cast<size_t>(dim) * sizeof(float));
    hadamard(rotated[0], dim);
    hadamard(rotated[1], dim);
    store_run(job, rotated[0], 0, rotated[1], 0, key, value, slot + i, 1);
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
    char* key = const_cast<char*>(key_block(job, block, kv_head));
    char* value = const_cast<char*>(value_block(job, block, kv_head));
    const float *k = job.k + t * job.k_stride + column, *v = job.v + t * job.v_stride + column;
    if (job.kv.rotated) {
      store_rotated(job, k, v, key, value, slot, count);
    } else {
      store_run(job, k, job.k_stride, v, job.v_stride, key, value, slot, count);
    }
    t += count;
  }
}

}  // namespace HW_ISA
}  // namespace hw
