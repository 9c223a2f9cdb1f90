// SPDX-License-Identifier: Apache-2.0
#pragma once
// The proof that the programs of all ranks fit together, on the programs that will run.

#include <vector>

#include "absl/status/status.h"
#include "worker/comm/communicator.h"
#include "worker/engine/program/program.h"

namespace stretto::trainer {

// Rehearses the communication of `mine` together with that of the peers, which call this together
// (worker/engine/program/skeleton.h). On a device, `issued` is the order of CallsInIssueOrder;
// elsewhere it is empty. Ranks whose programs communicate alike send theirs once. Errors: Internal,
// the same on all ranks, naming group, ranks and operations; those of the group.
absl::Status CheckSameStep(const Program& mine, std::vector<GroupId> issued, Communicator& control);

}  // namespace stretto::trainer
