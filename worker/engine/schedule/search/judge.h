// SPDX-License-Identifier: Apache-2.0
#pragma once
// Orders of a woven cell under contention, which the search does not know: it makes an operation's
// time depend on what runs beside it.

#include <vector>

#include "absl/status/statusor.h"
#include "worker/engine/cost/model.h"
#include "worker/engine/schedule/search/woven_cell.h"

namespace stretto {

// Whether operations of these costs slow each other down.
bool HasContention(const CostModel& cost);

// Returns the cell with operations that take as long as they would if they ran under the other side
// for this share of their time: a computation under the mean of the cell's collectives, and a
// collective under the mean of its computations.
CellItems SlowedDown(const WovenCell& woven, const CostModel& cost, double share);

// Returns the simulated time of the cell in an order, with contention. Errors: those of Simulate.
absl::StatusOr<double> JudgedSeconds(const WovenCell& woven, const CostModel& cost,
                                     const Merge& order);

}  // namespace stretto
