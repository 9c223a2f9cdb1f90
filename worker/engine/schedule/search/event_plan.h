// SPDX-License-Identifier: Apache-2.0
#pragma once
// The shortest order of a cell whose operations wait for events, not for barriers.

#include <cstddef>

#include "absl/status/statusor.h"
#include "worker/engine/schedule/search/cell_items.h"

namespace stretto {

// The most fronts that a search continues from, over all numbers of items played.
inline constexpr size_t kMostFronts = size_t{1} << 17;

// What another order than the given one must save, relative.
inline constexpr double kWorth = 1e-3;

// Two chains on shared lanes are a job shop of two jobs, a shortest path (Akers 1956). The search
// sets labels: of the fronts that have played the same items, it drops those that another is no
// later than, and those that cannot end before an order that it knows. The plan is then the
// shortest merge. In a large cell it also drops the fronts of the worst bounds, so that at most
// `most_fronts` are continued, though at least one for each number of items; the plan is then
// marked as not exact, unless it reaches the lower bound. The plan takes no longer than the `given`
// order, which is returned if none is found that is a thousandth shorter.
//
// Errors: InvalidArgument, if no front can play all items, because the queues wait for each other.
absl::StatusOr<CellPlan> EventPlan(const CellItems& cell, size_t most_fronts = kMostFronts,
                                   const Merge& given = {});

}  // namespace stretto
