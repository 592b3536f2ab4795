// Products of many rows on AMX tiles.
#include <immintrin.h>

#include <cstring>

#include "common/simd16.h"
#include "linear/linear.h"
#include "linear/sink.h"
#include "linear/tile_amx.h"

namespace hw {
namespace amx {
namespace {

constexpr int kLeastRows = kMostDirectRows + 1;
constexpr int kChunkTokens = 240;  // input rows that stay in L2 while all groups pass over them
constexpr int kGroupStep = 6;

// Where a unit works: two groups of a span unpacked, and the sums of all its rows between spans.
struct Bench {
  WeightSpan* weights;                        // [kPairGroups]
  float (*sums)[kTileRows][kPairGroups][16];  // per tile of rows

  static constexpr int64_t kWeights = kPairGroups * static_cast<int64_t>(sizeof(WeightSpan));
  static constexpr int64_t bytes(int64_t rows) { return kWeights + (rows + kTileRows - 1) / kTileRows * kTileRows * kPairGroups * 64; }
  explicit Bench(uint8_t* memory)
      : weights(reinterpret_cast<WeightSpan*>(memory)), sums(reinterpret_cast<float (*)[kTileRows][kPairGroups][16]>(memory + kWeights)) {}
};

// The float step of one product, some of its rows at a time. Padding rows take part; only put() leaves them out.
struct Drain {
  const float* before;          // sums of the spans before, 32 floats a row, or zeros
  int64_t before_stride;
  float* sums;
  const float* scales;          // of the input rows
  F32x16 weights[kPairGroups];  // scales

  HW_INLINE_MEMBER void rows(int first, int end, const Dots& dots) const {
    for (int i = first; i < end; ++i) {
      const F32x16 scale = splat(scales[i]);
      HW_UNROLL(2)
      for (int g = 0; g < kPairGroups; ++g)
        store(sums + 32 * i + 16 * g, fma(to_float(combine(dots, g, i)), weights[g] * scale, load(before + before_stride * i + 16 * g)));
    }
  }
};

// Groups of a part in pairs, each pair span by span, each span over all tiles of input rows.
template <int ID>
void block_part(const Sink& sink, const Piece& piece, uint8_t* scratch) {
  alignas(64) static const float kZeros[32] = {};
  const auto* tiles = reinterpret_cast<const TileSpan*>(sink.job.packed);
  const int64_t blocks = sink.part.cols / 32, spans = spans_of(sink.part.cols), turns = (piece.end - piece.first + 1) / kPairGroups * spans;
  const int n_tiles = static_cast<int>((piece.row_end - piece.row + kTileRows - 1) / kTileRows);
  const Bench bench(scratch);
  const auto put = [&](int tile, int64_t group) {
    const int64_t row = piece.row + tile * kTileRows;
    const float* sums = bench.sums[tile][0][0];
    for (int64_t i = row; i < row + kTileRows && i < piece.row_end; ++i, sums += 32) {
      sink.put(i, group, load(sums));
      if (group + 1 < piece.end) sink.put(i, group + 1, load(sums + 16));
    }
  };
  alignas(64) Dots dots;
  configure();
  Drain drain{kZeros, 0, bench.sums[0][0][0], kZeros, {zero16(), zero16()}};  // nothing to do yet: its sums are overwritten
  std::memset(&dots, 0, sizeof(dots));
  for (int64_t turn = 0; turn < turns; ++turn) {
    const int64_t span = turn % spans, group = piece.first + turn / spans * kPairGroups, first = span * kSpanBlocks;
    const int here = static_cast<int>(blocks - first < kSpanBlocks ? blocks - first : kSpanBlocks), steps = (here + 1) / 2;
    for (int g = 0; g < kPairGroups; ++g) {
      Packed<ID> from;
      from.base = sink.part.group(group + (group + g < piece.end ? g : 0));
      fill<ID>(from, first, here, blocks, bench.weights[g]);
    }
    __asm__ volatile("" ::: "memory");  // tile loads do not tell the compiler what they read
    for (int tile = 0; tile < n_tiles; ++tile) {
      const TileSpan& at = tiles[(piece.row / kTileRows + tile) * spans + span];
      if (span == spans - 1) sink.ahead(piece.row + tile * kTileRows, tile + 1 < n_tiles ? kTileRows : piece.row_end - piece.row - tile * kTileRows, group);
      clear_sums();
      for (int s = 0; s < steps; ++s) {
        multiply(at.steps[s], bench.weights[0].steps[s], bench.weights[1].steps[s]);
        drain.rows(s * kTileRows / steps, (s + 1) * kTileRows / steps, dots);
      }
      store_sums(dots);
      if (span == 0 && turn && tile == 0) put(n_tiles - 1, group - kPairGroups);
      if (span == spans - 1 && tile) put(tile - 1, group);
      float* const sums = bench.sums[tile][0][0];
      drain = {span ? sums : kZeros, span ? 32 : 0, sums, at.scales, {load(bench.weights[0].scales), load(bench.weights[1].scales)}};
    }
  }
  drain.rows(0, kTileRows, dots);
  put(n_tiles - 1, piece.first + (turns / spans - 1) * kPairGroups);
  _tile_release();
}

void part_range(const Sink& sink, const Piece& piece, uint8_t* scratch) {
  switch (sink.part.layout) {
    case kPackedQ8: return block_part<kPackedQ8>(sink, piece, scratch);
    case kPackedQ4: return block_part<kPackedQ4>(sink, piece, scratch);
    case kPackedQ4M: return block_part<kPackedQ4M>(sink, piece, scratch);
    case kPackedQ5: return block_part<kPackedQ5>(sink, piece, scratch);
    case kPackedQ5M: return block_part<kPackedQ5M>(sink, piece, scratch);
    case kPackedQ8S: return block_part<kPackedQ8S>(sink, piece, scratch);
    case kPackedQ4K: return block_part<kPackedQ4K>(sink, piece, scratch);
    case kPackedQ5K: return block_part<kPackedQ5K>(sink, piece, scratch);
    case kPackedQ6K: return block_part<kPackedQ6K>(sink, piece, scratch);
    case kPackedQ2K: return block_part<kPackedQ2K>(sink, piece, scratch);
    default: return;
  }
}

}  // namespace

bool takes(const LinearJob& job) { return job.n >= kLeastRows && job.quant.high != nullptr; }

void plan_linear(LinearJob& job) {
  const int chunks = (job.n + kChunkTokens - 1) / kChunkTokens;
  job.cut(kGroupStep, ((job.n + chunks - 1) / chunks + kTileRows - 1) / kTileRows * kTileRows);
  job.scratch_bytes = Bench::bytes(job.chunk);
  job.packed_bytes = tile_bytes(job.weight.cols);
}

void run_linear_unit(const LinearJob& job, int unit, uint8_t* scratch) {
  const Piece piece = locate(job, unit);
  if (kLayouts[piece.part->layout].is_float()) return avx512::run_linear_unit(job, unit, scratch);  // the same unit, on vectors
  part_range(Sink{job, *piece.part}, piece, scratch);
}

void pack_rows(const QuantRows& rows, int64_t n, int64_t tile, uint8_t* to) {
  auto* out = reinterpret_cast<TileSpan*>(to);
  const int64_t first = tile * kTileRows, spans = rows.spans();
  for (int64_t span = 0; span < spans; ++span) {
    TileSpan& at = out[span];
    for (int i = 0; i < kTileRows; ++i) {
      const bool there = first + i < n;
      at.scales[i] = there ? rows.scales[(first + i) * spans + span] : 0.0f;
      for (int64_t c = 32 * kSpanBlocks * span, s = 0; s < kSpanSteps && c < rows.cols; ++s, c += kStepColumns) {
        const __mmask64 filled = !there ? 0 : rows.cols - c < kStepColumns ? 0xffffffffu : ~__mmask64{0};
        const int64_t from = (first + i) * rows.cols + c;
        const __m512i low = _mm512_maskz_loadu_epi8(filled, rows.low + from);
        _mm512_store_si512(at.steps[s].high[i], _mm512_maskz_loadu_epi8(filled, rows.high + from));
        _mm512_store_si512(at.steps[s].twice_low[i], _mm512_add_epi8(low, low));
      }
    }
  }
}

}  // namespace amx
}  // namespace hw
