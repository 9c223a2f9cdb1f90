// SPDX-License-Identifier: Apache-2.0
#pragma once
// A unit as a program of its own.

#include "worker/engine/program/program.h"

namespace stretto {

// Returns the expansion of one instance of `unit`, with micro-batches 0, 1, ... in its roles. Its
// operations have the indices of the unit's. Two roles touch different memory where a buffer has
// several copies.
Program ExpandUnit(const StepProgram& step, UnitId unit);

}  // namespace stretto
