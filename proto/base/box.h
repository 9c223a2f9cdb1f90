// SPDX-License-Identifier: Apache-2.0
#pragma once
// Boxes of a tensor, their intersections, and the boxes of a range of its elements.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "proto/base/status_macros.h"

namespace stretto {

// A part of a tensor, stored densely in row-major order.
struct Box {
  std::vector<int64_t> starts, extents;
};

// Returns false if the boxes, which must have equally many dimensions, do not intersect.
inline bool Intersect(const Box& a, const Box& b, Box* common) {
  const size_t rank = a.starts.size();
  common->starts.resize(rank);
  common->extents.resize(rank);
  for (size_t i = 0; i < rank; ++i) {
    const int64_t begin = std::max(a.starts[i], b.starts[i]);
    const int64_t end = std::min(a.starts[i] + a.extents[i], b.starts[i] + b.extents[i]);
    if (end <= begin) return false;
    common->starts[i] = begin;
    common->extents[i] = end - begin;
  }
  return true;
}

// Elements [begin, end) of a tensor in row-major order.
struct ElementRange {
  int64_t begin = 0, end = 0;

  int64_t count() const { return end - begin; }
  bool operator==(const ElementRange&) const = default;
};

// Returns the fewest boxes of a tensor of these extents that together are the range, in its order:
// at most 2n - 1 in n dimensions, the rows that are whole and what is left of one in front and one
// behind.
std::vector<Box> BoxesOf(const std::vector<int64_t>& extents, ElementRange range);

// Returns the row-major index, within a box, of the element at `position` (coordinates of the
// tensor).
inline int64_t IndexIn(const Box& box, const std::vector<int64_t>& position) {
  int64_t index = 0;
  for (size_t i = 0; i < position.size(); ++i) {
    index = index * box.extents[i] + (position[i] - box.starts[i]);
  }
  return index;
}

// Calls run(from_index, to_index, count), which returns a status, for every run of `common` that is
// contiguous in both boxes, in order. Trailing dimensions that fill both boxes are part of one run.
template <class Run>
absl::Status ForEachRun(const Box& from, const Box& to, const Box& common, const Run& run) {
  size_t outer = common.starts.size();
  int64_t count = 1;
  while (outer > 0) {
    --outer;
    count *= common.extents[outer];
    if (common.extents[outer] != from.extents[outer] ||
        common.extents[outer] != to.extents[outer]) {
      break;
    }
  }
  std::vector<int64_t> position = common.starts;
  while (true) {
    RETURN_IF_ERROR(run(IndexIn(from, position), IndexIn(to, position), count));
    size_t i = outer;
    while (i > 0) {
      --i;
      if (++position[i] < common.starts[i] + common.extents[i]) break;
      position[i] = common.starts[i];
      if (i == 0) return absl::OkStatus();
    }
    if (outer == 0) return absl::OkStatus();
  }
}

}  // namespace stretto
