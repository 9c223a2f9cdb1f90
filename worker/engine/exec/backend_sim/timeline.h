// SPDX-License-Identifier: Apache-2.0
#pragma once
// A step as a discrete-event simulation: the intervals in which the operations of a program would
// run, by the cost model. Pure: the same programs and costs give the same intervals, to the
// nanosecond.
//
// A lane runs its operations one after the other, each when its waits are done. A collective begins
// when its lane reaches it with its waits done, and its transfer starts when all ranks of its group
// have reached it. A computation and a transfer that involve a rank at once run at the rates that
// CostModel::Together leaves them; beside several, the slowest of their rates counts. Rates change
// at events, also in the middle of an operation. A transfer that begins beside a computation first
// waits for its turn, or until no rank of it computes, and slows down nothing meanwhile. It waits
// for no computation that the end of its lane's last transfer released together with it. What an
// idle link has saved up is sent at once by a transfer that did not have to wait for its whole
// turn. Computing lanes do not slow each other down. Transfers that cross the same ports of the
// network share them fairly (worker/engine/cost/topology.h), also those of different groups of one
// rank.

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "worker/engine/cost/model.h"
#include "worker/engine/exec/backend_sim/simulated_rank.h"
#include "worker/engine/exec/executor.h"
#include "worker/engine/program/program.h"

namespace stretto {

// Returns the intervals of all operations, for each of `ranks`, from time 0. Every rank of the job
// is one of `ranks` or a copy of one; a single one without copies stands for all. A collective
// waits for those of its ranks that are simulated. Copies are on the network: what they send
// crosses ports of their own nodes, at the times of what they copy. Takes n log n time in the
// number of operations.
//
// The programs must fit together (VerifyRanks), and the costs must be valid (Validate). Errors:
// those of CheckRanks; InvalidArgument, for operations that can never start, which the message
// names, and for a step of more than 1e9 s.
absl::StatusOr<std::vector<std::vector<Interval>>> Simulate(absl::Span<const SimulatedRank> ranks);

// Simulates one rank that stands for all.
absl::StatusOr<std::vector<Interval>> Simulate(const Program& program, const CostModel& cost);

// Returns the time from 0 to the end of the last operation.
Interval SpanOf(absl::Span<const Interval> intervals);

}  // namespace stretto
