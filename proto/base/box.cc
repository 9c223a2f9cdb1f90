// SPDX-License-Identifier: Apache-2.0
#include "proto/base/box.h"

#include <functional>
#include <numeric>

namespace stretto {
namespace {

// Appends the boxes of a range of the tensor behind the first `depth` dimensions, at `starts` in
// those.
void AppendBoxes(const std::vector<int64_t>& extents, size_t depth, ElementRange range,
                 const std::vector<int64_t>& starts, std::vector<Box>* boxes) {
  const auto inner = extents.begin() + static_cast<std::ptrdiff_t>(depth) + 1;
  const int64_t row = std::accumulate(inner, extents.end(), int64_t{1}, std::multiplies<>());
  const auto at = [&](int64_t index) {
    std::vector<int64_t> position = starts;
    position[depth] = index;
    return position;
  };
  while (range.count() > 0) {
    const int64_t first = range.begin / row, whole = range.end / row - first;
    int64_t end = range.end;
    if (range.begin % row == 0 && whole > 0) {
      Box box{at(first), extents};
      std::fill_n(box.extents.begin(), depth, 1);
      box.extents[depth] = whole;
      boxes->push_back(std::move(box));
      end = (first + whole) * row;
    } else {
      end = std::min(end, (first + 1) * row);
      const ElementRange rest{range.begin - first * row, end - first * row};
      AppendBoxes(extents, depth + 1, rest, at(first), boxes);
    }
    range.begin = end;
  }
}

}  // namespace

std::vector<Box> BoxesOf(const std::vector<int64_t>& extents, ElementRange range) {
  std::vector<Box> boxes;
  AppendBoxes(extents, 0, range, std::vector<int64_t>(extents.size()), &boxes);
  return boxes;
}

}  // namespace stretto
