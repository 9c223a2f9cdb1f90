// SPDX-License-Identifier: Apache-2.0
#pragma once
// Measures the time of a call of a backend with a step program that repeats it on distinct buffers.

#include "absl/status/statusor.h"
#include "worker/bench/kernels/cases.h"
#include "worker/bench/options/kernels_options.h"
#include "worker/engine/exec/backend.h"

namespace stretto::bench {

// Returns the seconds of one call: the time from the begin of the first copy to the end of the
// last, divided by the number of copies (2 to 64), as the median over runs. Operands are random and
// finite. Each run uses all copies, so that operands come from memory and not from a cache. Errors:
// the backend's; Internal if a result is not finite.
absl::StatusOr<double> TimeOf(const KernelCase& timed, const KernelTiming& timing,
                              Backend& backend);

}  // namespace stretto::bench
