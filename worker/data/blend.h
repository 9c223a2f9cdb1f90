// SPDX-License-Identifier: Apache-2.0
#pragma once
// The part of a blend that each sample comes from.
//
// A binary tree over the parts, which joins the lightest first (Huffman). Each node deals its
// samples to its two sides as evenly as possible: of its first m samples, round(m * share) go to
// the left. So the place of a sample is a function of its number alone, found by descending from
// the root. After n samples, a part has had n * share of them, within 1/2 for two parts, 1 for
// three, and 1.7 for any number (docs/design/0019-data.md).

#include <cstddef>
#include <cstdint>
#include <vector>

namespace stretto {

// Immutable.
class Blend {
 public:
  // Needs at least one weight; each must be finite and above 0.
  explicit Blend(const std::vector<double>& weights);

  struct Place {
    size_t part = 0;
    int64_t index = 0;  // samples of that part before this one
  };
  Place At(int64_t sample) const;  // sample >= 0

 private:
  struct Node {
    uint64_t left_share = 0;      // in units of 2^-62
    int32_t left = 0, right = 0;  // a node, or the complement of a part
  };
  std::vector<Node> nodes_;
  int32_t root_ = 0;  // as Node::left
};

}  // namespace stretto
