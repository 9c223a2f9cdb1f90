// SPDX-License-Identifier: Apache-2.0
#pragma once
// Times of the computations of a calibration.

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "worker/bench/kernels/cases.h"
#include "worker/bench/ranks/measured_job.h"
#include "worker/engine/cost/profile.h"

namespace stretto::bench {

// Bytes of the operands that a computation runs on in turn: about what a step touches before it
// comes back to an activation.
inline constexpr int64_t kWorkingSet = int64_t{16} << 20;

// Measures each computation alone, on this rank's core; all ranks at once, as they compute in a
// step. `computations` are this rank's, by OperationKey, and those of other ranks may be others.
// Every rank calls it. Returns seconds of one call on the slowest rank that has it. Errors: those of
// the executor; UnsettledError on all ranks, if too few rounds were quiet.
absl::StatusOr<std::map<std::string, CostProfile::Number>> MeasureComputations(
    const std::map<std::string, KernelCase>& computations, MeasuredJob& job);

}  // namespace stretto::bench
