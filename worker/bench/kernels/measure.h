// SPDX-License-Identifier: Apache-2.0
#pragma once
// How long a call of a backend takes: a step program of nothing else, on distinct buffers.

#include "absl/status/statusor.h"
#include "worker/bench/kernels/cases.h"
#include "worker/engine/exec/backend.h"

namespace stretto::bench {

struct KernelTiming {
  // Bytes that the copies of a case hold together, at least: several times what caches hold.
  int64_t working_set = int64_t{256} << 20;
  int warm_up = 3;  // runs that choose algorithms, compile, and record graphs
  int repeats = 10;
};

// Seconds of one call: the median over runs of the time from the begin of the first copy to the end
// of the last, by their number (2 to 64). Operands are random and finite; a run goes through all
// copies, so that each finds its operands in memory. Errors: the backend's; Internal when a result
// is not finite.
absl::StatusOr<double> TimeOf(const KernelCase& timed, const KernelTiming& timing,
                              Backend& backend);

}  // namespace stretto::bench
