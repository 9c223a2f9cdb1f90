// SPDX-License-Identifier: Apache-2.0
#pragma once
// The weave plans of a cell that is searched.

#include <vector>

#include "proto/spec/strands/weave_plan.h"
#include "worker/engine/schedule/search/woven_cell.h"

namespace stretto {

// Returns the plan that plays the words in this order, on every stage. Neighbours of one strand,
// layer and slice share a line. Of folded stages it has all transfers of a cell, also those that
// this stage has not: a strand begins with its receive, and its send is behind its layers.
// With barriers behind these numbers of items, ascending.
WeavePlan PlanOfMerge(const WovenCell& cell, int pace, const Merge& order,
                      const std::vector<size_t>& barriers = {});

// Returns the same of the present order of the unit.
WeavePlan PresentPlan(const WovenCell& cell, int pace);

}  // namespace stretto
