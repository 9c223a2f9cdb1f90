// SPDX-License-Identifier: Apache-2.0
#pragma once
// The checks of a job spec that need no files, no devices and no state of the cluster. Workers make
// the other checks when they prepare.

#include <vector>

#include "absl/status/status.h"
#include "proto/spec/violations.h"
#include "stretto/v1alpha1/job.pb.h"

namespace stretto::spec {

// Returns all violations in a spec that Normalize has returned; none if it is valid. A description
// reads "found A, expected B". A normalised spec that is valid is still valid when it is normalised
// again.
std::vector<FieldViolation> ViolationsOf(const v1alpha1::JobSpec& normalized);

// The same as one error: InvalidArgument, MessageOf(violations).
absl::Status Validate(const v1alpha1::JobSpec& normalized);

}  // namespace stretto::spec
