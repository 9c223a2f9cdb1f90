// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a job spec shows by itself: no files, no devices, no state of the cluster. What needs those is
// checked by the workers when they prepare.

#include <vector>

#include "absl/status/status.h"
#include "proto/spec/violations.h"
#include "stretto/v1alpha1/job.pb.h"

namespace stretto::spec {

// All fields at fault of a spec that Normalize has returned; none for a valid one. A description
// reads "found A, expected B". A normalized spec that is valid stays so when it is normalized again.
std::vector<FieldViolation> ViolationsOf(const v1alpha1::JobSpec& normalized);

// The same as one error: InvalidArgument, MessageOf(violations).
absl::Status Validate(const v1alpha1::JobSpec& normalized);

}  // namespace stretto::spec
