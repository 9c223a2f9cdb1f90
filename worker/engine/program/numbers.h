// SPDX-License-Identifier: Apache-2.0
#pragma once
// Numbers for lists of words, so that lists are compared once and their numbers often.

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/hash/hash.h"
#include "absl/types/span.h"

namespace stretto {

// Distinct lists have the numbers 0, 1, 2, ... in the order in which they were added. Exact: equal
// hashes are told apart by the words.
//
// `near` is a small number that follows from the words, or -1. The first few lists of one are
// looked for one after the other and not by hash: if lists of one are used at about the same time,
// that stays in cache.
class Numbers {
 public:
  using Words = absl::Span<const int64_t>;

  // Returns -1 when `words` were not added.
  int Find(Words words, int near = -1) const {
    int tried = 0;
    for (int number = FirstNear(near); number >= 0; number = next_[static_cast<size_t>(number)]) {
      if ((*this)[number] == words) return number;
      ++tried;
    }
    if (near >= 0 && tried < kNear) return -1;
    const auto first = first_.find(absl::HashOf(words));
    if (first == first_.end()) return -1;
    int number = first->second;
    while (number >= 0 && (*this)[number] != words) number = next_[static_cast<size_t>(number)];
    return number;
  }
  // Returns the number of `words`, which is size() before the call if they are new.
  int Add(Words words, int near = -1) {
    if (const int found = Find(words, near); found >= 0) return found;
    const int number = static_cast<int>(size());
    if (near >= 0 && near_.size() <= static_cast<size_t>(near)) near_.resize(near + 1);
    const bool is_near = near >= 0 && near_[static_cast<size_t>(near)].count < kNear;
    if (is_near) ++near_[static_cast<size_t>(near)].count;
    int& first = is_near ? near_[static_cast<size_t>(near)].first
                         : first_.try_emplace(absl::HashOf(words), -1).first->second;
    next_.push_back(std::exchange(first, number));
    words_.insert(words_.end(), words.begin(), words.end());
    ends_.push_back(words_.size());
    return number;
  }
  size_t size() const { return ends_.size(); }
  // Valid until the next Add.
  Words operator[](int number) const {
    const size_t begin = number == 0 ? 0 : ends_[static_cast<size_t>(number) - 1];
    return Words(words_).subspan(begin, ends_[static_cast<size_t>(number)] - begin);
  }

 private:
  static constexpr int kNear = 8;
  struct Chain {
    int first = -1, count = 0;
  };
  int FirstNear(int near) const {
    const bool known = near >= 0 && static_cast<size_t>(near) < near_.size();
    return known ? near_[static_cast<size_t>(near)].first : -1;
  }

  std::vector<Chain> near_;                 // [near]: the last that was added
  absl::flat_hash_map<size_t, int> first_;  // by hash, of the others
  std::vector<int> next_;                   // [number]: another one of its chain, or -1
  std::vector<int64_t> words_;              // of all lists, one after the other
  std::vector<size_t> ends_;                // [number]
};

}  // namespace stretto
