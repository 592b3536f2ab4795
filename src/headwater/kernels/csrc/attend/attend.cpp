// Plans attention: checks the tables, groups query tokens into tiles, splits tiles into tasks of even cost. No arithmetic on values here.
#include "attend/attend.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "attend/i16_amx.h"
#include "common/pool.h"

namespace hw {
namespace {

constexpr int64_t kMostPartials = 8 << 20;  // floats of partials alive at a time: 32 MiB; tiles that would need more are not split

struct FreeAligned {
  void operator()(float* p) const { std::free(p); }
};

struct Task {
  int tile, kv_head, chunk_lo, chunk_hi;
  int64_t partials;  // offset in floats, -1 when the task merges by itself
  int merge;         // index of the counter of its (tile, kv head), -1 when it merges by itself
  int64_t cost;
};

// A row's view of the step: what it attends to and where.
struct RowSpan {
  int row, token, count, position, end;
  int block_lo;  // first block that any of its queries sees
};

[[noreturn]] void fail(const std::string& what) { throw std::invalid_argument("attend: " + what); }

void check_shapes(const Step& step, const KVGroup& kv, const AttendSpec& spec) {
  if (spec.heads <= 0 || spec.kv_heads <= 0 || spec.heads % spec.kv_heads) fail("heads must be a positive multiple of kv_heads");
  if (spec.head_dim <= 0 || spec.head_dim % 8) fail("head_dim " + std::to_string(spec.head_dim) + " is not a multiple of 8");
  if (kv.kv_heads != spec.kv_heads || kv.head_dim != spec.head_dim) fail("the cache was made for other heads than the layer's");
  if (spec.layer < 0 || spec.layer >= kv.layers) fail("layer " + std::to_string(spec.layer) + " is outside the cache");
  if (!known_format(kv.format)) fail("unknown cache format " + std::to_string(kv.format));
  if (kv.rotated && (spec.head_dim % 16 || spec.head_dim > kWidestRotated)) fail("rotated formats want a head_dim that is a multiple of 16 up to 1,024");
  if (kv.format >= kFp4 && spec.head_dim % 32) fail("formats of four bits and i16 want a head_dim that is a multiple of 32");
  if (kv.format == kI16 && spec.head_dim > kI16Widest) fail("format i16 wants a head_dim up to " + std::to_string(kI16Widest));
  if (spec.window < 0) fail("window is negative");
  if (step.n_rows > 0 && (step.row_start[0] != 0 || step.row_start[step.n_rows] != step.n_tokens)) fail("row_start does not span the tokens");
}

std::vector<RowSpan> spans_of(const Step& step, const KVGroup& kv, const AttendSpec& spec) {
  std::vector<RowSpan> spans;
  spans.reserve(static_cast<size_t>(step.n_rows));
  for (int r = 0; r < step.n_rows; ++r) {
    const int first = step.row_start[r], last = step.row_start[r + 1];
    if (first == last) continue;
    if (first > last) fail("row_start descends at row " + std::to_string(r));
    const int position = step.positions[first], end = position + (last - first);
    if (position < 0 || step.positions[last - 1] != end - 1) fail("positions of row " + std::to_string(r) + " are not consecutive");
    if ((end - 1) / kBlockTokens >= kv.table_width) {
      fail("the table ends before position " + std::to_string(end - 1) + " of row " + std::to_string(r));
    }
    int lo, hi;
    visible_range(spec, position, end, lo, hi);
    const int32_t* table = kv.table + static_cast<int64_t>(r) * kv.table_width;
    for (int b = lo / kBlockTokens; b <= (end - 1) / kBlockTokens; ++b) {
      if (table[b] < 0 || table[b] >= kv.n_blocks) {
        fail("row " + std::to_string(r) + " has no block for position " + std::to_string(b * kBlockTokens) + ", which a query may see");
      }
    }
    spans.push_back({r, first, last - first, position, end, lo / kBlockTokens});
  }
  return spans;
}

// Rows whose tables begin alike come next to each other, so that a tile can share their chunks.
void sort_by_prefix(std::vector<RowSpan>& spans, const KVGroup& kv) {
  const auto table = [&](const RowSpan& s) { return kv.table + static_cast<int64_t>(s.row) * kv.table_width; };
  std::stable_sort(spans.begin(), spans.end(), [&](const RowSpan& a, const RowSpan& b) {
    const int chunk_a = a.block_lo / kChunkBlocks, chunk_b = b.block_lo / kChunkBlocks;
    if (chunk_a != chunk_b) return chunk_a < chunk_b;
    const int from = chunk_a * kChunkBlocks, to_a = (a.end - 1) / kBlockTokens + 1, to_b = (b.end - 1) / kBlockTokens + 1;
    return std::lexicographical_compare(table(a) + from, table(a) + to_a, table(b) + from, table(b) + to_b);
  });
}

// Do two neighbouring rows see the same block where both begin? Only then is a common tile worth while.
bool share_first_block(const RowSpan& a, const RowSpan& b, const KVGroup& kv) {
  if (a.block_lo / kChunkBlocks != b.block_lo / kChunkBlocks) return false;
  const int block = std::max(a.block_lo, b.block_lo);
  if (block > (a.end - 1) / kBlockTokens || block > (b.end - 1) / kBlockTokens) return false;
  return kv.table[static_cast<int64_t>(a.row) * kv.table_width + block] == kv.table[static_cast<int64_t>(b.row) * kv.table_width + block];
}

// Cuts the spans into tiles of at most kTileRows query rows. Segments are written first, so that tiles may point into them.
void make_tiles(const std::vector<RowSpan>& spans, const AttendJob& job, std::vector<TileSegment>& segments, std::vector<AttendTile>& tiles) {
  const int most = std::max(1, kTileRows / job.group);
  std::vector<int> starts;  // first segment of each tile
  int room = 0;
  for (size_t i = 0; i < spans.size(); ++i) {
    const RowSpan& s = spans[i];
    if (i == 0 || !share_first_block(spans[i - 1], s, job.kv)) room = 0;
    for (int done = 0; done < s.count;) {
      if (room == 0) {
        starts.push_back(static_cast<int>(segments.size()));
        room = most;
      }
      const int take = std::min(room, s.count - done);
      segments.push_back({s.row, s.token + done, take, s.position + done, s.end});
      done += take;
      room -= take;
    }
  }
  starts.push_back(static_cast<int>(segments.size()));
  for (size_t t = 0; t + 1 < starts.size(); ++t) {
    AttendTile tile{segments.data() + starts[t], starts[t + 1] - starts[t], 0, INT32_MAX, 0};
    for (int i = 0; i < tile.n_segments; ++i) {
      const TileSegment& s = tile.segments[i];
      int lo, hi, unused;
      visible_range(job.spec, s.position, s.end, lo, unused);
      visible_range(job.spec, s.position + s.count - 1, s.end, unused, hi);
      tile.chunk_lo = std::min(tile.chunk_lo, lo / kChunkTokens);
      tile.chunk_hi = std::max(tile.chunk_hi, (hi - 1) / kChunkTokens + 1);
      tile.rows += s.count * job.group;
    }
    tiles.push_back(tile);
  }
}

int64_t chunk_cost(const AttendTile& tile) { return tile.rows + 4; }  // the arithmetic, and the read of the cache

// Every task is at most about a quarter of one thread's share; returns the floats that partials need and the number of merges.
int64_t make_tasks(const std::vector<AttendTile>& tiles, const AttendJob& job, int threads, std::vector<Task>& tasks, int& merges) {
  int64_t total = 0, floats = 0;
  for (const AttendTile& tile : tiles) total += chunk_cost(tile) * (tile.chunk_hi - tile.chunk_lo) * job.spec.kv_heads;
  // what is left out depends on the chunks before: one task then walks all of them
  const int64_t most = threads == 1 || job.skip < 0 ? INT64_MAX : std::max<int64_t>(1, total / (4 * threads));
  merges = 0;
  for (size_t t = 0; t < tiles.size(); ++t) {
    const AttendTile& tile = tiles[t];
    const int chunks = tile.chunk_hi - tile.chunk_lo;
    const int64_t stored = partial_floats(job, tile.rows) * chunks;  // for one kv head, when it is split
    const bool whole = floats + stored * job.spec.kv_heads > kMostPartials;
    const int per_task = whole ? chunks : static_cast<int>(std::clamp<int64_t>(most / chunk_cost(tile), 1, chunks));
    for (int h = 0; h < job.spec.kv_heads; ++h) {
      if (per_task == chunks) {
        tasks.push_back({static_cast<int>(t), h, tile.chunk_lo, tile.chunk_hi, -1, -1, chunk_cost(tile) * chunks});
        continue;
      }
      for (int c = tile.chunk_lo; c < tile.chunk_hi; c += per_task) {
        const int to = std::min(c + per_task, tile.chunk_hi);
        tasks.push_back({static_cast<int>(t), h, c, to, floats, merges, chunk_cost(tile) * (to - c)});
      }
      floats += stored;
      ++merges;
    }
  }
  std::stable_sort(tasks.begin(), tasks.end(), [](const Task& a, const Task& b) { return a.cost > b.cost; });
  return floats;
}

void store(ThreadPool& pool, const AttendJob& job) {
  const Step& step = job.step;
  std::vector<int32_t> row_of(static_cast<size_t>(step.n_tokens));
  for (int r = 0; r < step.n_rows; ++r) std::fill(row_of.begin() + step.row_start[r], row_of.begin() + step.row_start[r + 1], r);
  const auto write = HW_SELECT(store_kv);
  // two tokens of a block share bytes in formats of four bits: there one task stores all tokens of a kv head
  const int piece_tokens = job.kv.format < kFp4 || job.kv.format == kI16 ? 64 : step.n_tokens;
  const int pieces = (step.n_tokens + piece_tokens - 1) / piece_tokens;
  const auto one = [&](int task, int) {
    const int first = task / job.spec.kv_heads * piece_tokens;
    write(job, task % job.spec.kv_heads, row_of.data(), first, std::min(first + piece_tokens, step.n_tokens));
  };
  if (step.n_tokens * job.spec.kv_heads < 64) {
    for (int task = 0; task < pieces * job.spec.kv_heads; ++task) one(task, 0);
  } else {
    pool.parallel_for(pieces * job.spec.kv_heads, one);
  }
}

auto i16_kernel() {
#if defined(HW_HAS_AMX)
  if (active_isa() == Isa::amx) return &amx::attend_i16;
#endif
  return HW_SELECT(attend_i16);
}

}  // namespace

float* thread_scratch(int slot, size_t floats) {
  struct Buffer {
    std::unique_ptr<float, FreeAligned> data;
    size_t size = 0;
  };
  thread_local Buffer buffers[3];
  Buffer& b = buffers[slot];
  if (b.size < floats) {
    const size_t bytes = (floats * sizeof(float) + 4095) / 4096 * 4096;
    b.data.reset(static_cast<float*>(std::aligned_alloc(64, bytes)));
    if (!b.data) throw std::bad_alloc();
    b.size = bytes / sizeof(float);
  }
  return b.data.get();
}

void attend_with_lse(ThreadPool& pool, const Step& step, const KVGroup& kv, const AttendSpec& spec, const float* q, int64_t q_stride,
                     const float* k, int64_t k_stride, const float* v, int64_t v_stride, float* out, int64_t out_stride, float* lse,
                     const int32_t* until, float skip, int64_t* stats, const int32_t* from) {
  check_shapes(step, kv, spec);
  if (step.n_tokens == 0) return;
  const AttendJob job{step, kv, spec, q, k, v, q_stride, k_stride, v_stride, out, out_stride, lse, spec.heads / spec.kv_heads,
                      (spec.head_dim + 15) / 16 * 16, block_bytes(key_format(kv.format), spec.head_dim),
                      block_bytes(value_format(kv.format), spec.head_dim), skip, stats};
  std::vector<RowSpan> spans = spans_of(step, kv, spec);
  store(pool, job);
  if (until || from) {
    for (RowSpan& s : spans) {
      if (until) s.count = std::clamp(until[s.row] - s.position, 0, s.count);
      const int before = from ? std::clamp(from[s.row] - s.position, 0, s.count) : 0;
      s.token += before;
      s.position += before;
      s.count -= before;
    }
    spans.erase(std::remove_if(spans.begin(), spans.end(), [](const RowSpan& s) { return s.count == 0; }), spans.end());
    if (spans.empty()) return;
  }
  sort_by_prefix(spans, kv);
  std::vector<TileSegment> segments;
  std::vector<AttendTile> tiles;
  make_tiles(spans, job, segments, tiles);
  std::vector<Task> tasks;
  int merges = 0;
  const int64_t floats = make_tasks(tiles, job, pool.threads(), tasks, merges);
  float* partials = floats ? thread_scratch(1, static_cast<size_t>(floats)) : nullptr;
  const std::unique_ptr<std::atomic<int>[]> left(new std::atomic<int>[static_cast<size_t>(merges)]());
  for (const Task& t : tasks) {
    if (t.merge >= 0) left[t.merge].fetch_add(1, std::memory_order_relaxed);
  }
  const bool codes = kv.format == kI16;
  const auto run = codes ? i16_kernel() : HW_SELECT(attend_task);
  const auto merge = HW_SELECT(merge_task);
  pool.parallel_for(static_cast<int>(tasks.size()), [&](int i, int) {
    const Task& t = tasks[static_cast<size_t>(i)];
    const AttendTile& tile = tiles[static_cast<size_t>(t.tile)];
    float* scratch = thread_scratch(0, codes ? i16_scratch(tile.rows, job.padded) : attend_scratch(tile.rows, job.padded));
    float* own = t.merge < 0 ? nullptr : partials + t.partials;
    run(job, tile, t.kv_head, t.chunk_lo, t.chunk_hi, own, scratch);
    if (t.merge >= 0 && left[t.merge].fetch_sub(1, std::memory_order_acq_rel) == 1) merge(job, tile, t.kv_head, own, scratch);
  });
}

void attend(ThreadPool& pool, const Step& step, const KVGroup& kv, const AttendSpec& spec, const float* q, int64_t q_stride, const float* k,
            int64_t k_stride, const float* v, int64_t v_stride, float* out, int64_t out_stride) {
  attend_with_lse(pool, step, kv, spec, q, q_stride, k, k_stride, v, v_stride, out, out_stride, nullptr);
}

void copy_blocks(ThreadPool& pool, const KVGroup& kv, const int32_t* pairs, int n_pairs) {
  for (int i = 0; i < 2 * n_pairs; ++i) {
    if (pairs[i] < 0 || pairs[i] >= kv.n_blocks) fail("block " + std::to_string(pairs[i]) + " of a copy is outside the cache");
  }
  pool.parallel_for(kv.layers, [&](int layer, int) {
    for (uint16_t* cache : {kv.k, kv.v}) {
      const int format = cache == kv.k ? key_format(kv.format) : value_format(kv.format);
      const size_t bytes = static_cast<size_t>(block_bytes(format, kv.head_dim) * kv.kv_heads);
      char* base = reinterpret_cast<char*>(cache) + static_cast<size_t>(layer) * static_cast<size_t>(kv.n_blocks) * bytes;
      for (int i = 0; i < n_pairs; ++i) {
        if (pairs[2 * i] != pairs[2 * i + 1]) {
          std::memcpy(base + static_cast<size_t>(pairs[2 * i + 1]) * bytes, base + static_cast<size_t>(pairs[2 * i]) * bytes, bytes);
        }
      }
    }
  });
}

void merge_parts(ThreadPool& pool, int parts, int64_t rows, int dim, const float* outs, const float* lses, float* out, float* lse) {
  constexpr int64_t kPiece = 64;
  const auto merge = HW_SELECT(merge_rows);
  pool.parallel_for(static_cast<int>((rows + kPiece - 1) / kPiece), [&](int task, int) {
    merge(parts, rows, task * kPiece, std::min((task + 1) * kPiece, rows), dim, outs, lses, out, lse);
  });
}

}  // namespace hw
