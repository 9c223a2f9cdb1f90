// SPDX-License-Identifier: Apache-2.0
#pragma once
// Proves that conflicting accesses to memory are ordered and that every read has a writer.

#include "absl/status/status.h"
#include "worker/engine/program/happens_before.h"
#include "worker/engine/program/program.h"

namespace stretto {

// Checks overlap by planned address where memory is planned. Operands must exist, and aliases must
// be inside their roots. Errors: InvalidArgument naming operations and buffers.
absl::Status CheckRaces(const Program& program, const HappensBefore& order);

}  // namespace stretto
