// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/exec/backend_sim/simulated_rank.h"

#include <set>
#include <utility>

#include "absl/strings/str_cat.h"

namespace stretto {

absl::Status CheckRanks(absl::Span<const SimulatedRank> ranks) {
  std::set<Rank> found;
  for (const SimulatedRank& input : ranks) {
    const Program& program = *input.program;
    const size_t nodes = input.cost->interconnect.topology.node.size();
    if (nodes > 0 && std::cmp_not_equal(nodes, program.world_size)) {
      return absl::InvalidArgumentError(absl::StrCat("interconnect.topology: found nodes of ",
                                                     nodes, " ranks, expected ", program.world_size,
                                                     ", those of the job"));
    }
    std::vector<Rank> added = {program.rank};
    for (const RankCopy& copy : input.copies) added.push_back(copy.rank);
    for (Rank rank : added) {
      if (found.insert(rank).second) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("cannot simulate: found rank ", rank.value(), " twice, expected it once"));
    }
  }
  if (ranks.size() == 1 && found.size() == 1) return absl::OkStatus();
  for (const SimulatedRank& input : ranks) {
    if (std::cmp_equal(input.program->world_size, found.size())) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("cannot simulate: found ", found.size(), " of ", input.program->world_size,
                     " ranks, expected all of them, or one that stands for all"));
  }
  return absl::OkStatus();
}

}  // namespace stretto
