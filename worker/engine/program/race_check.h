// SPDX-License-Identifier: Apache-2.0
#pragma once
// Proves that no two lanes touch memory unordered and that what is read has been written.

#include "absl/status/status.h"
#include "worker/engine/program/happens_before.h"
#include "worker/engine/program/program.h"

namespace stretto {

// Operands exist and aliases lie inside their roots. By planned address where there is one.
// InvalidArgument naming operations and buffers.
absl::Status CheckRaces(const Program& program, const HappensBefore& order);

}  // namespace stretto
