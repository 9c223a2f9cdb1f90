// SPDX-License-Identifier: Apache-2.0
#pragma once
// The only way a pass changes the order of a unit, and the proof that it moved no value.

#include <vector>

#include "absl/status/status.h"
#include "worker/engine/program/program.h"

namespace stretto {

// Puts the operations of unit `unit` in the order `permutation` (indices into its present order).
// Refuses with InvalidArgument, and changes nothing, when some operation would then read or
// overwrite another value than before, or when it is no permutation. Call before waits are
// assigned.
absl::Status Reorder(StepProgram* step, UnitId unit, const std::vector<OpId>& permutation);

}  // namespace stretto
