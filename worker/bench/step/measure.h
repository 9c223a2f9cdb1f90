// SPDX-License-Identifier: Apache-2.0
#pragma once
// Trains for a given time and measures the steps.

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/bench/common/machine.h"
#include "worker/bench/options/step_options.h"
#include "worker/engine/exec/ledger.h"

namespace stretto::bench {

struct StepMeasurement {
  std::vector<double> step_seconds;  // of the counted steps, each from the end of the one before
  double seconds = 0;                // their sum
  int warm_up_steps = 0;
  double last_seconds = 0;               // of the last step, which may be a warm-up step
  StepLedger ledger;                     // means over the counted steps
  double loss_first = 0, loss_last = 0;  // of all steps
  int64_t memory_bytes = 0;              // of the arenas

  double tokens_per_second(const StepOptions& options) const;
};

// Called after every step, with what is measured so far. Its time belongs to no step. An error ends
// the measurement.
using OnStep = std::function<absl::Status(const StepMeasurement&)>;

// Errors: those of `on_step`; InvalidArgument (--tp above 1 on a machine that cannot emulate a
// link); ResourceExhausted with the estimate, before any allocation, if the arenas do not fit;
// Internal if a loss or a gradient norm is not finite; those of the executor.
absl::StatusOr<StepMeasurement> MeasureStep(const StepOptions& options, const Machine& machine,
                                            const OnStep& on_step);

}  // namespace stretto::bench
