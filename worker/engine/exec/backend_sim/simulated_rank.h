// SPDX-License-Identifier: Apache-2.0
#pragma once
// The ranks of a simulation, of which many may be alike.

#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "worker/engine/cost/model.h"
#include "worker/engine/program/program.h"

namespace stretto {

// Another rank that does the same as a simulated one at the same times, such as a replica of it.
struct RankCopy {
  Rank rank;
  IdVector<GroupId, Group> groups;  // its own; ids as in the program that it copies
};

// Borrowed for the call. Neither `program` nor `cost` may be null.
struct SimulatedRank {
  const Program* program = nullptr;
  const CostModel* cost = nullptr;
  std::vector<RankCopy> copies = {};
  // What each operation takes alone, for a caller who knows it. Null: what `cost` says.
  const IdVector<OpId, double>* seconds = nullptr;
};

// Errors: InvalidArgument, unless every rank of the job is one of `ranks` or a copy of one, once;
// or there is only one, without copies, which stands for all. Also if the topology has no node for
// a rank.
absl::Status CheckRanks(absl::Span<const SimulatedRank> ranks);

}  // namespace stretto
