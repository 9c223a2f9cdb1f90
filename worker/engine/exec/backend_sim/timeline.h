// SPDX-License-Identifier: Apache-2.0
#pragma once
// A step as a discrete-event simulation: the intervals in which the operations of a program would
// run, by the cost model. Pure: the same programs and costs give the same intervals, to the
// nanosecond.
//
// A lane runs its operations one after the other, each when its waits are done. A collective begins
// when its lane reaches it with its waits done, and its transfer starts when all ranks of its group
// have reached it. While a transfer involves a rank, everything that the rank computes runs at rate
// 1 - contention.compute; while a rank computes, the transfers that it takes part in run at rate
// 1 - contention.communication. Rates change at events, also in the middle of an operation.
// Computing lanes do not slow each other down, and neither do transfers.

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "worker/engine/cost/model.h"
#include "worker/engine/exec/executor.h"
#include "worker/engine/program/program.h"

namespace stretto {

// Borrowed for the call. Neither may be null.
struct SimulatedRank {
  const Program* program = nullptr;
  const CostModel* cost = nullptr;
};

// Returns the intervals of all operations, for each of `ranks`, from time 0. `ranks` are either all
// ranks of the job in rank order, or one rank that stands for all: every other rank then reaches
// each collective at the same time. Takes n log n time in the number of operations.
//
// The programs must have been verified, several of them together (VerifyRanks), and the costs must
// be valid (Validate). Errors: InvalidArgument, for another number or order of ranks, or for
// operations that can never start, which the message names.
absl::StatusOr<IdVector<Rank, std::vector<Interval>>> Simulate(
    absl::Span<const SimulatedRank> ranks);

// Simulates one rank that stands for all.
absl::StatusOr<std::vector<Interval>> Simulate(const Program& program, const CostModel& cost);

// Returns the time from 0 to the end of the last operation.
Interval SpanOf(absl::Span<const Interval> intervals);

}  // namespace stretto
