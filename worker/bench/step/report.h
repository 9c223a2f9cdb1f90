// SPDX-License-Identifier: Apache-2.0
#pragma once
// The report of `stretto-bench step` as text and as JSON (docs/BENCHMARKS.md defines its terms).

#include <string>

#include "worker/bench/step/measure.h"

namespace stretto::bench {

// A line about the last step.
std::string StepText(const StepMeasurement& measured);

// Of the steps that are measured, of which one at least must count.
std::string ToText(const StepOptions& options, const StepMeasurement& measured,
                   const Machine& machine);
std::string ToJson(const StepOptions& options, const StepMeasurement& measured,
                   const Machine& machine);

}  // namespace stretto::bench
