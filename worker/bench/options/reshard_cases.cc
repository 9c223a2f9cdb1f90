// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/options/reshard_cases.h"

#include "proto/base/check.h"

namespace stretto::bench {

// In the published cases the third one of (2,4) meshes is the second here, of (2,2): the sixth
// needs a fifth node, and the eighth is the seventh.
const std::vector<ReshardCase>& ReshardCases() {
  const Mesh one{.extents = {1, 1}, .first = 0}, front{.extents = {2, 2}, .first = 0};
  const Mesh two{.extents = {2, 2}, .first = 2}, three{.extents = {3, 2}, .first = 2};
  const Mesh pair{.extents = {1, 2}, .first = 0}, back{.extents = {2, 2}, .first = 4};
  static const auto* cases = new std::vector<ReshardCase>{
      {"one_to_2x2",
       "a rank has the tensor, two nodes need it",
       one,
       {{}, {}, {}},
       two,
       {{}, {}, {}}},
      {"one_to_3x2", "the same, three nodes", one, {{}, {}, {}}, three, {{}, {}, {}}},
      {"alpa1", "rows of nodes to rows of nodes", front, {{0}, {}, {}}, back, {{0}, {}, {}}},
      {"alpa2", "replicated to rows of nodes", front, {{}, {}, {}}, back, {{0}, {}, {}}},
      {"alpa3", "columns of nodes to rows of nodes", front, {{}, {0}, {}}, back, {{0}, {}, {}}},
      {"alpa4",
       "columns of ranks to rows of ranks",
       front,
       {{}, {0, 1}, {}},
       back,
       {{0, 1}, {}, {}}},
      {"alpa5", "rows within nodes to rows of nodes", front, {{1}, {}, {}}, back, {{0}, {}, {}}},
      {"alpa7",
       "rows within a node to two nodes, replicated",
       pair,
       {{1}, {}, {}},
       back,
       {{}, {}, {}}},
      {"alpa9", "the second dimension to the third", front, {{}, {0}, {}}, back, {{}, {}, {0}}},
  };
  return *cases;
}

std::vector<std::string> ReshardCaseNames() {
  std::vector<std::string> names;
  for (const ReshardCase& at : ReshardCases()) names.emplace_back(at.name);
  return names;
}

const ReshardCase& FindReshardCase(absl::string_view name) {
  for (const ReshardCase& at : ReshardCases()) {
    if (name == at.name) return at;
  }
  STRETTO_CHECK(false && "a case that is not in the table");
  return ReshardCases().front();
}

std::vector<int64_t> ReshardShape(int mebibytes) { return {64, 64, int64_t{64} * mebibytes}; }

Topology ReshardTopology() {
  Topology topology;
  for (int rank = 0; rank < kReshardRanks; ++rank) {
    topology.node.push_back(rank / kReshardNodeRanks);
  }
  return topology;
}

}  // namespace stretto::bench
