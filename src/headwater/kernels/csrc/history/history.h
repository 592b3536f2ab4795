// Token history for drafting: sequences in one ring, the newest occurrences of the last ANCHOR tokens by a hash chain.
#pragma once

#include <cstdint>
#include <vector>

#include "common/pages.h"

namespace hw {

// 12 bytes a token and 4 for its share of the bucket heads. Positions are 64-bit and never reused; a chain link older than the ring is dead.
class History {
 public:
  static constexpr int kAnchor = 3;       // shortest match
  static constexpr int kLongest = 64;     // longest match that counts
  static constexpr int kLinks = 32;       // newest occurrences looked at

  explicit History(int64_t capacity);

  void begin();                                              // a new sequence: no match crosses into it
  void extend(const int32_t* ids, int64_t n);                // more tokens of the newest sequence; the oldest leave when the ring is full

  struct Found {
    int64_t at = -1;                                         // position behind the match
    int match = 0;                                           // tokens that agree
    int length = 0;                                          // tokens that follow it in its sequence, at most `most`
  };
  // Longest agreement of the end of `tail` with earlier tokens that something follows; among equals the newest.
  Found find(const int32_t* tail, int n, int most) const;
  void copy(const Found& found, int32_t* out) const;
  // All occurrences that `find` looks at, newest first, at most kLinks: what followed each (length at most `most`) -> how many.
  int occurrences(const int32_t* tail, int n, int most, Found* out) const;

  int64_t size() const { return end_ - first_; }
  int64_t bytes() const;

 private:
  struct Entry {
    int32_t token = -1;                                      // -1 between sequences
    int32_t back = 0;                                        // distance to the previous position with the same anchor, 0 = none
  };                                                         // side by side: a link of the chain costs one cache miss

  int32_t at(int64_t position) const { return ring_[position & mask_].token; }
  static uint32_t hash(int32_t a, int32_t b, int32_t c);
  template <class F>
  void each_match(const int32_t* tail, int n, F&& f) const;  // f(position behind the match, tokens that agree), newest first
  int following(int64_t position, int most) const;           // tokens of the same sequence from `position` on, at most `most`

  int64_t mask_, first_ = 0, end_ = 0, start_ = 0;           // ring [first_, end_); start_: first position of the newest sequence
  std::vector<Entry, PageAllocator<Entry>> ring_;            // 8 bytes a token
  std::vector<int64_t, PageAllocator<int64_t>> head_;      // newest position behind an anchor, by hash; -1 = none
  uint32_t head_mask_;
};

}  // namespace hw
