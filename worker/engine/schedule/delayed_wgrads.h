// SPDX-License-Identifier: Apache-2.0
#pragma once
// The weight gradients that nobody waits for until the end of the step.

#include "worker/engine/program/program.h"

namespace stretto {

// Returns whether each operation of `unit` is a weight gradient of a layer that may run behind all
// that are not. Those that a collective hides under stay. The contributions to one gradient stay or
// go together, so they keep their order even if another micro-batch comes in between. Weight
// gradients outside the layers stay too: what the head's needs, the logits, is too large to keep.
IdVector<OpId, bool> DelayableWgrads(const StepProgram& step, UnitId unit);

}  // namespace stretto
