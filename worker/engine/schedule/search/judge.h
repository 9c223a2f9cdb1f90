// SPDX-License-Identifier: Apache-2.0
#pragma once
// Orders of a woven cell in the simulator, which knows what the search does not: contention, which
// makes an operation's time depend on what runs beside it, and that costs are never quite right.

#include <array>

#include "absl/status/statusor.h"
#include "worker/engine/cost/model.h"
#include "worker/engine/schedule/search/woven_cell.h"

namespace stretto {

// By what share costs may be off.
inline constexpr double kDoubt = 0.1;

// Returns the cell with operations that take as long as if they ran under the other side whenever
// there is something of it left: a computation under the mean of the cell's collectives, and a
// collective under the mean of its computations. It is the cell itself if nothing contends.
CellItems SlowedDown(const WovenCell& woven, const CostModel& cost);

// The simulated times of a cell in an order, with contention: at the costs given, where computation
// takes kDoubt longer and communication kDoubt less, and the other way round. The link saves up no
// burst, which the times that the search knows do not have either.
using JudgedTimes = std::array<double, 3>;

// Returns the longest times of a cell that is woven by one plan on several stages, because the rate
// of a pipeline is that of its slowest stage. Errors: those of Simulate.
absl::StatusOr<JudgedTimes> Judge(const std::vector<PlayedCell>& stages, const CostModel& cost,
                                  const WeavePlan& plan);

// Returns the index of the times whose worst ratio to the shortest of their kind is the smallest.
// It is an earlier one of two that differ by less than kWorth. No times are returned that are
// longer than `limit` at the costs given; some must not be.
size_t LeastRegret(const std::vector<JudgedTimes>& times, double limit);

}  // namespace stretto
