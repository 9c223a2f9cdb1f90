// SPDX-License-Identifier: Apache-2.0
#pragma once
// Operand counts, data types and shapes of one operation: what kernels rely on without checking.

#include "absl/status/status.h"
#include "worker/engine/program/program.h"

namespace stretto {

// InvalidArgument naming the operation, found and expected.
absl::Status VerifyOperands(const Program& program, OpId op);

}  // namespace stretto
