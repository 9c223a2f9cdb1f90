// SPDX-License-Identifier: Apache-2.0
#pragma once
// What `stretto-bench step` found, for people and for programs (docs/BENCHMARKS.md has its words).

#include <string>

#include "worker/bench/step/measure.h"

namespace stretto::bench {

std::string ToText(const StepOptions& options, const StepMeasurement& measured,
                   const Machine& machine);
std::string ToJson(const StepOptions& options, const StepMeasurement& measured,
                   const Machine& machine);

}  // namespace stretto::bench
