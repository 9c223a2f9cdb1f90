// SPDX-License-Identifier: Apache-2.0
#pragma once
// The system calls that no trainer needs, and the filter that refuses them.

#include <linux/filter.h>

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace stretto::daemon {

// By name. Beside them, the filter refuses clone with a flag that makes a namespace, and every call
// of another architecture than this program's.
absl::Span<const char* const> DeniedCalls();

// The filter. What is denied fails with EPERM; clone3 with ENOSYS, because its flags cannot be
// seen, and the C library then takes clone. Errors: INTERNAL (the library refuses; names the call).
absl::StatusOr<std::vector<sock_filter>> FilterOfCalls();

}  // namespace stretto::daemon
