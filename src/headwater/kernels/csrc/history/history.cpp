#include "history/history.h"

#include <algorithm>

namespace hw {

namespace {

int64_t power_of_two(int64_t n) {
  int64_t p = 64;
  while (p < n) p *= 2;
  return p;
}

}  // namespace

History::History(int64_t capacity) {
  const int64_t size = power_of_two(capacity);
  mask_ = size - 1;
  ring_.assign(size, Entry{});
  const int64_t heads = std::max<int64_t>(size / 4, 64);
  head_.assign(heads, -1);
  head_mask_ = static_cast<uint32_t>(heads - 1);
}

uint32_t History::hash(int32_t a, int32_t b, int32_t c) {
  uint64_t h = static_cast<uint32_t>(a) * 0x9E3779B97F4A7C15ull;
  h = (h ^ (h >> 29) ^ static_cast<uint32_t>(b)) * 0xBF58476D1CE4E5B9ull;
  h = (h ^ (h >> 32) ^ static_cast<uint32_t>(c)) * 0x94D049BB133111EBull;
  return static_cast<uint32_t>(h >> 32);
}

void History::begin() {
  if (end_ == start_) return;
  const int32_t border = -1;
  extend(&border, 1);
  start_ = end_;
}

void History::extend(const int32_t* ids, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const int64_t p = end_++;
    Entry& entry = ring_[p & mask_];
    entry = {ids[i], 0};
    first_ = std::max(first_, end_ - (mask_ + 1));
    if (end_ - start_ < kAnchor || ids[i] < 0) continue;
    int64_t& head = head_[hash(at(p - 2), at(p - 1), at(p)) & head_mask_];
    if (head >= first_) entry.back = static_cast<int32_t>(std::min<int64_t>(p - head, INT32_MAX));
    head = p;
  }
  start_ = std::max(start_, first_);
}

template <class F>
void History::each_match(const int32_t* tail, int n, F&& f) const {
  if (n < kAnchor) return;
  int64_t p = head_[hash(tail[n - 3], tail[n - 2], tail[n - 1]) & head_mask_];
  for (int link = 0, seen = 0; seen < kLinks && link < 4 * kLinks && p >= first_; ++link) {
    int match = 0;
    while (match < std::min(n, kLongest) && p - match >= first_ && at(p - match) == tail[n - 1 - match]) ++match;
    if (match >= kAnchor) {                                  // less is another anchor with the same hash
      ++seen;
      if (p + 1 < end_ && at(p + 1) >= 0) f(p + 1, match);
    }
    const int32_t step = ring_[p & mask_].back;
    if (!step) break;
    p -= step;
  }
}

int History::following(int64_t position, int most) const {
  int length = 0;
  while (length < most && position + length < end_ && at(position + length) >= 0) ++length;
  return length;
}

History::Found History::find(const int32_t* tail, int n, int most) const {
  Found best;
  if (most < 1) return best;
  each_match(tail, n, [&](int64_t position, int match) {
    if (match > best.match) {
      best.match = match;
      best.at = position;
    }
  });
  if (best.at >= 0) best.length = following(best.at, most);
  return best;
}

int History::occurrences(const int32_t* tail, int n, int most, Found* out) const {
  int count = 0;
  each_match(tail, n, [&](int64_t position, int match) { out[count++] = {position, match, following(position, most)}; });
  return count;
}

void History::copy(const Found& found, int32_t* out) const {
  for (int i = 0; i < found.length; ++i) out[i] = at(found.at + i);
}

int64_t History::bytes() const {
  return static_cast<int64_t>(ring_.size() * sizeof(Entry) + head_.size() * sizeof(int64_t));
}

}  // namespace hw
