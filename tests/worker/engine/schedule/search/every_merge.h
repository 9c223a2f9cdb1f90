// SPDX-License-Identifier: Apache-2.0
#pragma once
// The shortest order of a small cell, by brute force.

#include <algorithm>
#include <limits>
#include <vector>

#include "worker/engine/schedule/search/cell_items.h"

namespace stretto {

// Tries every merge, with times of its own: no front, no bound.
class EveryMerge {
 public:
  explicit EveryMerge(const CellItems& cell)
      : cell_(cell), free_(static_cast<size_t>(cell.lanes)), ends_(cell.ops.size()) {
    Try();
  }
  double shortest() const { return shortest_; }

 private:
  void Try() {
    bool done = true;
    for (size_t q = 0; q < kQueues; ++q) {
      if (at_[q] == static_cast<int>(cell_.queues[q].size())) continue;
      done = false;
      const CellItem& item = cell_.queues[q][static_cast<size_t>(at_[q])];
      bool may = true;
      for (size_t r = 0; r < kQueues; ++r) may = may && at_[r] >= item.behind[r];
      if (!may) continue;
      const std::vector<double> before = free_;
      for (int op = item.begin; op < item.end; ++op) {
        const CellOp& at = cell_.ops[static_cast<size_t>(op)];
        double start = free_[static_cast<size_t>(at.lane)];
        for (int earlier : at.after) start = std::max(start, ends_[static_cast<size_t>(earlier)]);
        ends_[static_cast<size_t>(op)] = free_[static_cast<size_t>(at.lane)] = start + at.seconds;
      }
      ++at_[q];
      Try();
      --at_[q];
      free_ = before;
    }
    if (done) shortest_ = std::min(shortest_, *std::max_element(free_.begin(), free_.end()));
  }

  const CellItems& cell_;
  PerQueue<int> at_ = {};
  std::vector<double> free_, ends_;
  double shortest_ = std::numeric_limits<double>::infinity();
};

}  // namespace stretto
