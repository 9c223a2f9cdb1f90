// SPDX-License-Identifier: Apache-2.0
#pragma once
// A step is long because its micro-batches repeat. Passes work on a step of a few, with all that
// can happen between neighbours in it, and the result is made as long as it must be. What comes out
// is a guess about a repetition until Verify has proved the whole of it.

#include "worker/engine/program/program.h"

namespace stretto {

// The step with as few micro-batches, `together` at a time, as show how these begin, follow each
// other and end. The step itself when it has no more, or when its instances do not repeat.
StepProgram Shortened(const StepProgram& step, int together = 1);

// The step with `micro_batches` of them: the last repeat of its instances, with the waits between
// them, is repeated further. CHECKs that instances repeat, unless there is nothing to do.
StepProgram Lengthened(const StepProgram& step, int micro_batches);

}  // namespace stretto
