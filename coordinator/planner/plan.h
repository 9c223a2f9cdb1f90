// SPDX-License-Identifier: Apache-2.0
#pragma once
// Computes the plan of a job spec with the pure core of the engine, exactly as the trainers will
// run it.

#include <string>

#include "absl/status/statusor.h"
#include "proto/base/ids.h"
#include "stretto/v1alpha1/plan.pb.h"

namespace stretto::planner {

// Returns the plan of a spec that the coordinator has normalised and validated. It allocates no
// tensor; time grows with the number of operations in the steps of one rank of each stage, memory
// with those of one rank. Errors: InvalidArgument, naming the field.
absl::StatusOr<v1alpha1::Plan> PlanOf(const v1alpha1::JobSpec& spec);

// Returns the verified step program of one rank as text (program/text.h). Errors: InvalidArgument
// (also for a rank that the job does not have).
absl::StatusOr<std::string> ProgramText(const v1alpha1::JobSpec& spec, Rank rank);

}  // namespace stretto::planner
