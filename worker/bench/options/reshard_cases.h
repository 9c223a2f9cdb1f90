// SPDX-License-Identifier: Apache-2.0
#pragma once
// The tensors that `stretto-bench reshard` moves: from one rank to several nodes, and between
// meshes as in the artifact of Zhuang et al. 2023, on nodes of two ranks.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "worker/engine/reshard/reshard.h"

namespace stretto::bench {

// All cases are on these ranks, of which some take no part in some cases.
inline constexpr int kReshardRanks = 8;
inline constexpr int kReshardNodeRanks = 2;

struct ReshardCase {
  const char* name;
  const char* summary;
  Mesh from;
  std::vector<std::vector<int>> source;  // splits of three dimensions (TilingOf)
  Mesh to;
  std::vector<std::vector<int>> target;
};

const std::vector<ReshardCase>& ReshardCases();
std::vector<std::string> ReshardCaseNames();
// CHECKs that there is one of this name.
const ReshardCase& FindReshardCase(absl::string_view name);

// The shape of the moved tensor of 32-bit elements; every case divides it.
std::vector<int64_t> ReshardShape(int mebibytes);
// The node of each rank.
Topology ReshardTopology();

}  // namespace stretto::bench
