// SPDX-License-Identifier: Apache-2.0
#pragma once
// A step as a discrete-event simulation: when every operation of a program would run, by the cost
// model. Pure: the same programs and costs give the same intervals, to the nanosecond.
//
// A lane runs its operations one after the other, each when its waits are done. A collective starts
// when its lane reaches it and its waits are done, and transfers from the moment that all ranks of
// its group have come so far. While a transfer involves a rank, everything the rank computes runs
// at rate 1 - contention.compute; while a rank computes, the transfers it takes part in run at rate
// 1 - contention.communication. Rates change at events, also in the middle of an operation. Lanes
// of computation do not slow each other down, nor do transfers.

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "worker/engine/cost/model.h"
#include "worker/engine/exec/executor.h"
#include "worker/engine/program/program.h"

namespace stretto {

// Borrowed for the call; both must be there.
struct SimulatedRank {
  const Program* program = nullptr;
  const CostModel* cost = nullptr;
};

// Intervals by operation, for each of `ranks`, from time 0. Either all ranks of the job in rank
// order, or one that stands for all of them: every other rank then is at each collective when this
// one is. Time is n log n in the number of operations.
//
// The programs must have been verified, several of them together (VerifyRanks); costs must be valid
// (Validate). InvalidArgument: another number or order of ranks; operations that can never start,
// named.
absl::StatusOr<std::vector<std::vector<Interval>>> Simulate(absl::Span<const SimulatedRank> ranks);

// One rank that stands for all.
absl::StatusOr<std::vector<Interval>> Simulate(const Program& program, const CostModel& cost);

// From 0 to the end of the last operation.
Interval SpanOf(absl::Span<const Interval> intervals);

}  // namespace stretto
