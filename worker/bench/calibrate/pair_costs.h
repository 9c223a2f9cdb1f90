// SPDX-License-Identifier: Apache-2.0
#pragma once
// What computations and collectives take from each other while both run on a rank.

#include <functional>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "worker/bench/calibrate/collective_calls.h"
#include "worker/bench/calibrate/collective_case.h"
#include "worker/bench/kernels/cases.h"
#include "worker/bench/ranks/measured_job.h"
#include "worker/engine/cost/profile.h"

namespace stretto::bench {

// What a calibration has measured of single operations. References must be valid during the call.
struct MeasuredAlone {
  // Those of this rank, by OperationKey, and the seconds of each.
  const std::map<std::string, KernelCase>& computations;
  const std::map<std::string, CostProfile::Number>& operations;
  // Those of all ranks, by name (CollectivesOf), and the seconds of each.
  const std::map<std::string, CollectiveCase>& collectives;
  const std::map<std::string, CostProfile::Number>& collective_seconds;
};

using PairCosts = decltype(CostProfile::pairs);

// Runs, for each class of computations and kind of collective, the operation of the class that
// takes most of a step beside the kind's shortest collective of at least kLeastCollectiveSeconds,
// else its longest; and products also beside its shortest collective, for the wait for a turn. Each
// round runs all of them once. Every rank calls it and gets the same. Pairs that are too short to
// be measured are left out. `say` gets lines for the user. Errors: those of executors and
// communicators; UnsettledError (known_ratios.h).
absl::StatusOr<PairCosts> MeasurePairs(const MeasuredAlone& alone, MeasuredJob& job,
                                       CollectiveCalls& calls,
                                       const std::function<void(const std::string&)>& say);

}  // namespace stretto::bench
