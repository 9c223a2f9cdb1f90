// SPDX-License-Identifier: Apache-2.0
#pragma once
// The only way for a pass to change the order of a unit, with the proof that no value changed.

#include <vector>

#include "absl/status/status.h"
#include "worker/engine/program/program.h"

namespace stretto {

// Puts the operations of unit `unit` in the order `permutation` (indices into its present order).
// Call it before waits are assigned. Errors: InvalidArgument, when `permutation` is not one, or
// when some operation would read or overwrite a different value than before; the step is then
// unchanged.
absl::Status Reorder(StepProgram* step, UnitId unit, const std::vector<OpId>& permutation);

}  // namespace stretto
