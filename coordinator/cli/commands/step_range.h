// SPDX-License-Identifier: Apache-2.0
#pragma once
// A range of steps as a flag gives it.

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace stretto::cli {

struct StepRange {
  int64_t first = 0, last = 0;  // 0: open on that side
};

// "A:B", "A:", ":B" or "A". Errors: InvalidArgument.
absl::StatusOr<StepRange> ParseSteps(const std::string& text);

}  // namespace stretto::cli
