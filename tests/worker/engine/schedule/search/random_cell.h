// SPDX-License-Identifier: Apache-2.0
#pragma once
// Cells with random durations, lanes and dependencies.

#include <algorithm>
#include <random>

#include "worker/engine/schedule/search/cell_items.h"

namespace stretto {

class CellMaker {
 public:
  explicit CellMaker(unsigned seed) : random_(seed) {}

  // A cell with these numbers of items in its queues. Strands are chains, some of whose items skip
  // the collective before them, as those of another slice do. Weight gradients need an item of
  // backward and stay behind it, and forward has to stay behind some of them. The items of the next
  // micro-batch wait for nothing.
  CellItems Make(const PerQueue<int>& sizes) {
    CellItems cell;
    cell.lanes = 2 + Below(2);
    for (int q : {0, 1}) {
      int before = -1;  // the last collective of the chain
      for (int i = 0; i < sizes[static_cast<size_t>(q)]; ++i) {
        const CellItem item = AddItem(q, Below(5) > 0 ? before : -1, &cell);
        if (item.end - item.begin > 1) before = item.end - 1;
      }
    }
    const std::vector<CellItem>& backward = cell.queues[1];
    int released = 0, paced = 0;
    for (int k = 0; k < sizes[2] && !backward.empty(); ++k) {
      released = std::min<int>(released + Below(3), static_cast<int>(backward.size()) - 1);
      const CellItem& by = backward[static_cast<size_t>(released)];
      const auto begin = static_cast<int>(cell.ops.size());
      cell.ops.push_back({.lane = 0, .seconds = Seconds()});
      if (by.end - by.begin > 1) cell.ops.back().after = {by.end - 1};
      cell.queues[2].push_back(
          {.begin = begin, .end = begin + 1, .behind = {0, released + 1, 0, 0}});
    }
    for (int i = 0; i < sizes[3]; ++i) AddItem(3, -1, &cell);
    for (CellItem& item : cell.queues[0]) {
      paced = std::min<int>(paced + Below(2) * Below(2), static_cast<int>(cell.queues[2].size()));
      item.behind[2] = paced;
    }
    return cell;
  }

  int Below(int end) { return static_cast<int>(random_() % static_cast<unsigned>(end)); }

 private:
  // Whole seconds, so that sums are exact.
  double Seconds() { return Below(10); }

  // An item that computes, then possibly communicates.
  CellItem AddItem(int q, int after, CellItems* cell) {
    const auto begin = static_cast<int>(cell->ops.size());
    cell->ops.push_back({.lane = 0, .seconds = Seconds()});
    if (after >= 0) cell->ops.back().after = {after};
    if (Below(2) > 0) {
      cell->ops.push_back(
          {.lane = 1 + Below(cell->lanes - 1), .seconds = Seconds(), .after = {begin}});
    }
    const CellItem item = {.begin = begin, .end = static_cast<int>(cell->ops.size())};
    cell->queues[static_cast<size_t>(q)].push_back(item);
    return item;
  }

  std::mt19937 random_;
};

}  // namespace stretto
