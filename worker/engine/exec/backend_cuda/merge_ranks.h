// SPDX-License-Identifier: Apache-2.0
#pragma once
// One order for the operations of several ranks on one device.

#include <vector>

#include "absl/status/statusor.h"
#include "worker/engine/exec/backend_cuda/issue_plan.h"

namespace stretto::cuda {

// Items that are enqueued together, each the operation of one rank, or those of all members of a
// group, in the order of the group.
using MergedRun = std::vector<std::vector<RankOp>>;

// Returns all operations, each behind what it waits for and in the order of its lane. A run is as
// short as possible with whole instances of every rank: instance by instance where the ranks have
// alike ones; where an instance of one rank needs a later one of another, up to that. Errors:
// InvalidArgument, when a group has ranks elsewhere, or when the ranks' collectives differ.
absl::StatusOr<std::vector<MergedRun>> MergeRanks(const IdVector<LocalRank, RankProgram>& ranks);

}  // namespace stretto::cuda
