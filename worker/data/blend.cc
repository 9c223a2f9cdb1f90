// SPDX-License-Identifier: Apache-2.0
#include "worker/data/blend.h"

#include <cmath>
#include <functional>
#include <queue>
#include <tuple>

#include "proto/base/check.h"

namespace stretto {
namespace {

constexpr int kShareBits = 62;

// round(count * share)
int64_t Dealt(int64_t count, uint64_t share) {
  const auto product = static_cast<unsigned __int128>(count) * share;
  return static_cast<int64_t>((product + (uint64_t{1} << (kShareBits - 1))) >> kShareBits);
}

}  // namespace

Blend::Blend(const std::vector<double>& weights) {
  STRETTO_CHECK(!weights.empty());
  using Tree = std::tuple<double, size_t, int32_t>;  // weight, age, as Node::left
  std::priority_queue<Tree, std::vector<Tree>, std::greater<Tree>> trees;
  for (size_t i = 0; i < weights.size(); ++i) {
    STRETTO_CHECK(std::isfinite(weights[i]) && weights[i] > 0);
    trees.emplace(weights[i], i, ~static_cast<int32_t>(i));
  }
  while (trees.size() > 1) {
    const auto [right_weight, right_age, right] = trees.top();
    trees.pop();
    const auto [left_weight, left_age, left] = trees.top();
    trees.pop();
    const double weight = left_weight + right_weight;
    nodes_.push_back(
        {static_cast<uint64_t>(std::ldexp(left_weight / weight, kShareBits)), left, right});
    trees.emplace(weight, weights.size() + nodes_.size(), static_cast<int32_t>(nodes_.size() - 1));
  }
  root_ = std::get<2>(trees.top());
}

Blend::Place Blend::At(int64_t sample) const {
  STRETTO_CHECK(sample >= 0);
  int32_t at = root_;
  while (at >= 0) {
    const Node& node = nodes_[at];
    const int64_t left = Dealt(sample, node.left_share);
    if (Dealt(sample + 1, node.left_share) > left) {
      sample = left;
      at = node.left;
    } else {
      sample -= left;
      at = node.right;
    }
  }
  return {static_cast<size_t>(~at), sample};
}

}  // namespace stretto
