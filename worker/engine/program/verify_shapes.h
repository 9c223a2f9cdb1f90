// SPDX-License-Identifier: Apache-2.0
#pragma once
// Verifies operand counts, data types and shapes of one operation, which kernels rely on without
// checking.

#include "absl/status/status.h"
#include "worker/engine/program/program.h"

namespace stretto {

// Errors: InvalidArgument naming the operation, found and expected.
absl::Status VerifyOperands(const Program& program, OpId op);

}  // namespace stretto
