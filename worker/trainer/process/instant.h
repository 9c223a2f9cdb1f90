// SPDX-License-Identifier: Apache-2.0
#pragma once
// The clocks of a step, read at one instant. The parts of a ledger are on one of them and its wall
// time is on another, so they sum to it only if nothing comes between two readings.

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"

namespace stretto::trainer {

struct Instant {
  int64_t steady = 0;  // nanoseconds of the clock that operations are timed on
  double raw = 0;      // seconds of a second clock, against which the sum of a ledger is checked
  absl::Time wall;
};

// Reads `steady`, in nanoseconds, CLOCK_MONOTONIC_RAW and the time of day.
Instant ReadClocks(absl::FunctionRef<int64_t()> steady);

// The same of any clocks, in nanoseconds and in seconds. A thread that was interrupted between the
// two reads them again, ten times at most; the closest readings count.
Instant ReadAtOnce(absl::FunctionRef<int64_t()> steady, absl::FunctionRef<double()> raw);

}  // namespace stretto::trainer
