// SPDX-License-Identifier: Apache-2.0
#pragma once
// Tensors on one mesh that are needed on another.

#include <utility>
#include <vector>

#include "worker/engine/reshard/reshard.h"

namespace stretto {

using Splits = std::vector<std::vector<int>>;

// Two meshes of nodes x ranks, one behind the other; a node per row.
struct ReshardCase {
  Mesh from, to;
  Tiling source, target;
  Topology topology;
};

inline ReshardCase CaseOf(std::vector<int> from, const Splits& source, std::vector<int> to,
                          const Splits& target, const std::vector<int64_t>& shape) {
  ReshardCase result;
  result.from = {.extents = std::move(from), .first = 0};
  result.to = {.extents = std::move(to), .first = Rank::Of(result.from.size())};
  for (const Mesh* mesh : {&result.from, &result.to}) {
    const int first = result.topology.node.empty() ? 0 : result.topology.node.back() + 1;
    for (int i = 0; i < mesh->size(); ++i) {
      result.topology.node.push_back(first + i / mesh->extents[1]);
    }
  }
  result.source = *TilingOf(result.from, shape, source);
  result.target = *TilingOf(result.to, shape, target);
  return result;
}

// Each mesh axis cuts one of three dimensions, or none.
inline std::vector<Splits> AllSplits() {
  std::vector<Splits> all;
  for (int first = 0; first < 4; ++first) {
    for (int second = 0; second < 4; ++second) {
      Splits splits(3);
      if (first < 3) splits[first].push_back(0);
      if (second < 3) splits[second].push_back(1);
      all.push_back(std::move(splits));
    }
  }
  return all;
}

// Meshes up to 3 x 4.
inline std::vector<std::vector<int>> AllMeshes() {
  std::vector<std::vector<int>> meshes;
  for (int nodes = 1; nodes <= 3; ++nodes) {
    for (int ranks = 1; ranks <= 4; ++ranks) meshes.push_back({nodes, ranks});
  }
  return meshes;
}

}  // namespace stretto
