// SPDX-License-Identifier: Apache-2.0
#pragma once
// Converts job specs to engine specs and back: engine specs obey the rules of job specs.

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stretto/v1alpha1/job.pb.h"
#include "worker/engine/spec/spec.h"

namespace stretto::trainer {

// Converts any job spec, which is normalized and validated here. With auto_merge_wgrads
// schedule.merge_wgrads is 1 until memory has chosen, and with auto_warm_up the warm-ups are those
// of 1f1b until the ranks have chosen. Errors: InvalidArgument, naming the field.
absl::StatusOr<EngineSpec> EngineSpecFrom(const v1alpha1::JobSpec& spec);

// Convert the dimensions of a normalized model.
ModelSpec ModelFrom(const v1alpha1::ModelSpec& model);
v1alpha1::ModelSpec MessageOf(const ModelSpec& model);

// Returns a job spec that EngineSpecFrom converts to `spec`, with a placeholder for the data.
v1alpha1::JobSpec JobSpecOf(const EngineSpec& spec);

// Checks an engine spec that was not made from a job spec by the rules of JobSpecOf(spec). Errors:
// InvalidArgument, naming the field.
absl::Status Validate(const EngineSpec& spec);

}  // namespace stretto::trainer
