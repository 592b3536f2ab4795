// Which operations of a program treat every row by itself, and where their buffers live when a thread takes some rows through all of them.
#include <algorithm>

#include "program/program.h"

namespace hw {
namespace {

bool row_by_row(OpKind kind) {
  return kind != OpKind::attend && kind != OpKind::short_conv && kind != OpKind::gated_delta && kind != OpKind::reads;
}

struct Interval {
  size_t first, last, buffer;
};

int64_t floats_of(const BufferPlan& b) { return ((b.own ? b.own_stride() : b.dim) + 15) / 16 * 16; }

// First fit: buffers whose intervals of operations meet never share floats. Sets `offset` of each; returns the floats per row.
int64_t fit(std::vector<Interval> intervals, std::vector<BufferPlan>& buffers, int64_t BufferPlan::* offset) {
  std::sort(intervals.begin(), intervals.end(), [](const Interval& a, const Interval& b) { return a.first < b.first; });
  std::vector<Interval> placed;
  int64_t total = 0;
  for (const Interval& now : intervals) {
    std::vector<std::pair<int64_t, int64_t>> taken;
    for (const Interval& other : placed) {
      if (other.last < now.first || now.last < other.first) continue;
      const BufferPlan& b = buffers[other.buffer];
      taken.emplace_back(b.*offset, b.*offset + floats_of(b));
    }
    std::sort(taken.begin(), taken.end());
    int64_t at = 0;
    const int64_t size = floats_of(buffers[now.buffer]);
    for (const auto& [from, to] : taken) {
      if (from - at >= size) break;
      at = std::max(at, to);
    }
    buffers[now.buffer].*offset = at;
    total = std::max(total, at + size);
    placed.push_back(now);
  }
  return total;
}

}  // namespace

void Program::finish() {
  segments.clear();
  std::vector<size_t> segment_of(ops.size());
  for (size_t i = 0; i < ops.size(); ++i) {
    const bool local = row_by_row(ops[i].kind) && !buffers[static_cast<size_t>(ops[i].out)].per_read;
    if (segments.empty() || !local || !segments.back().rows) segments.push_back({i, i, local});
    segments.back().end = i + 1;
    segment_of[i] = segments.size() - 1;
  }
  std::vector<Interval> uses(buffers.size(), {ops.size(), 0, 0});
  const auto use = [&](int buffer, size_t op) {
    Interval& u = uses[static_cast<size_t>(buffer)];
    u = {std::min(u.first, op), std::max(u.last, op), static_cast<size_t>(buffer)};
  };
  for (size_t i = 0; i < ops.size(); ++i) {
    use(ops[i].out, i);
    for (const Operand& o : ops[i].inputs) use(o.buffer, i);
  }
  std::vector<Interval> own, shared;
  for (const Interval& u : uses) {
    if (u.first > u.last || buffers[u.buffer].per_read) continue;
    const size_t first = segment_of[u.first], last = segment_of[u.last];
    buffers[u.buffer].own = first == last && segments[first].rows;
    if (buffers[u.buffer].own) {
      own.push_back(u);
    } else {  // rows of one thread may be a segment ahead of another's: the buffer is taken for whole segments
      shared.push_back({segments[first].begin, segments[last].end - 1, u.buffer});
    }
  }
  own_floats = fit(std::move(own), buffers, &BufferPlan::segment_offset);
  shared_floats = fit(std::move(shared), buffers, &BufferPlan::segment_offset);
}

}  // namespace hw
