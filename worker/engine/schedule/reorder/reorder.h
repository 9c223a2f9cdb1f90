// SPDX-License-Identifier: Apache-2.0
#pragma once
// The only way for a pass to change the order of a unit. That no value changes is proved on the
// whole program (program/same_values.h).

#include <vector>

#include "absl/status/status.h"
#include "worker/engine/program/program.h"

namespace stretto {

// Puts the operations of unit `unit` in the order `permutation` (indices into its present order).
// Call it before waits are assigned. Errors: InvalidArgument, when `permutation` is not one; the
// step is then unchanged.
absl::Status Reorder(StepProgram* step, UnitId unit, const std::vector<OpId>& permutation);

}  // namespace stretto
