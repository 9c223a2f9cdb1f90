// SPDX-License-Identifier: Apache-2.0
#pragma once
// A step is long because its micro-batches repeat. Passes therefore work on a short step that shows
// everything that can happen between neighbouring micro-batches, and their result is extended to
// the full length, by StepProgram::repeat. The extension is a guess until Verify has proved the
// whole program.
//
// Errors: Internal, the instances are not those that `repeat` declares.

#include "absl/status/statusor.h"
#include "worker/engine/program/program.h"

namespace stretto {

// Returns the step with as few micro-batches as show how they begin, follow each other and end, if
// no buffer will have more than `slots` copies. `together` divides the number of micro-batches that
// are left out. Returns `step` itself when it has no more than that, or when its instances do not
// repeat.
absl::StatusOr<StepProgram> Shortened(const StepProgram& step, int together = 1, int slots = 2);

// Returns the step with `micro_batches` micro-batches, by repeating the last period of its
// instances together with the waits between them. Instances must repeat at least twice, unless the
// number is already right.
absl::StatusOr<StepProgram> Lengthened(const StepProgram& step, int micro_batches);

}  // namespace stretto
