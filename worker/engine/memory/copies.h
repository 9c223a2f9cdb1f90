// SPDX-License-Identifier: Apache-2.0
#pragma once
// How many copies of its activations a step keeps, because several micro-batches are in flight.

#include "worker/engine/program/program.h"

namespace stretto {

// Sets the slots of every activation that micro-batches use to as many as of them are at once, in
// the order of the program, between their first and their last access to the same memory. A buffer
// that is sent or received has one more, so that the next may arrive early and the last may leave
// late. Call it again when the order of the instances, or of a unit, has changed.
void KeepCopies(StepProgram* step);

}  // namespace stretto
