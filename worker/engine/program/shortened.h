// SPDX-License-Identifier: Apache-2.0
#pragma once
// A step is long because its micro-batches repeat. Passes therefore work on a short step that shows
// everything that can happen between neighbouring micro-batches, and their result is extended to
// the full length. The extension is a guess until Verify has proved the whole program.

#include "worker/engine/program/program.h"

namespace stretto {

// Returns the step with as few micro-batches, a multiple of `together`, as show how they begin,
// follow each other and end. Returns `step` itself when it has no more than that, or when its
// instances do not repeat.
StepProgram Shortened(const StepProgram& step, int together = 1);

// Returns the step with `micro_batches` micro-batches, by repeating the last period of its
// instances together with the waits between them. CHECKs that instances repeat, unless the number
// is already right.
StepProgram Lengthened(const StepProgram& step, int micro_batches);

}  // namespace stretto
