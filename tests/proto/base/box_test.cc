// SPDX-License-Identifier: Apache-2.0
#include "proto/base/box.h"

#include <functional>
#include <numeric>

#include "gtest/gtest.h"

namespace stretto {
namespace {

int64_t Product(const std::vector<int64_t>& extents) {
  return std::accumulate(extents.begin(), extents.end(), int64_t{1}, std::multiplies<>());
}

// Every range of small tensors: the boxes have its elements in order, and are as few as can be.
TEST(BoxesOfTest, AreTheElementsOfTheRangeInOrder) {
  const std::vector<std::vector<int64_t>> shapes = {{7}, {1}, {3, 5}, {5, 1}, {1, 4}, {2, 3, 4}};
  for (const std::vector<int64_t>& extents : shapes) {
    const Box whole{std::vector<int64_t>(extents.size()), extents};
    const int64_t count = Product(extents);
    for (int64_t begin = 0; begin <= count; ++begin) {
      for (int64_t end = begin; end <= count; ++end) {
        int64_t next = begin;
        const std::vector<Box> boxes = BoxesOf(extents, {begin, end});
        EXPECT_LE(boxes.size(), 2 * extents.size() - 1);
        for (const Box& box : boxes) {
          // A box of the range is contiguous in the tensor: one run from its first element on.
          EXPECT_EQ(IndexIn(whole, box.starts), next);
          next += Product(box.extents);
        }
        EXPECT_EQ(next, end);
      }
    }
    EXPECT_EQ(BoxesOf(extents, {0, count}).size(), 1u);
  }
}

TEST(BoxesOfTest, HasWholeRowsAndWhatIsLeftOfOneInFrontAndOneBehind) {
  const std::vector<Box> boxes = BoxesOf({4, 10}, {7, 33});
  ASSERT_EQ(boxes.size(), 3u);
  EXPECT_EQ(boxes[0].starts, (std::vector<int64_t>{0, 7}));
  EXPECT_EQ(boxes[0].extents, (std::vector<int64_t>{1, 3}));
  EXPECT_EQ(boxes[1].starts, (std::vector<int64_t>{1, 0}));
  EXPECT_EQ(boxes[1].extents, (std::vector<int64_t>{2, 10}));
  EXPECT_EQ(boxes[2].starts, (std::vector<int64_t>{3, 0}));
  EXPECT_EQ(boxes[2].extents, (std::vector<int64_t>{1, 3}));
}

}  // namespace
}  // namespace stretto
