// SPDX-License-Identifier: Apache-2.0
#pragma once
// A job spec in, what it comes to out: the pure core of the engine, run as the trainers will.

#include <string>

#include "absl/status/statusor.h"
#include "stretto/v1alpha1/plan.pb.h"

namespace stretto::planner {

// Of a spec that the coordinator has normalised and validated. Allocates no tensor; takes time and
// memory for the operations of one rank's step. Errors: InvalidArgument, naming the field.
absl::StatusOr<v1alpha1::Plan> PlanOf(const v1alpha1::JobSpec& spec);

// The step program of one rank as text (program/text.h), verified. Errors: InvalidArgument (also
// for a rank that the job does not have).
absl::StatusOr<std::string> ProgramText(const v1alpha1::JobSpec& spec, int rank);

}  // namespace stretto::planner
