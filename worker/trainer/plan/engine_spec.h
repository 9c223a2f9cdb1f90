// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a job spec asks of the engine, and back: an engine's spec obeys the rules of job specs.

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stretto/v1alpha1/job.pb.h"
#include "worker/engine/spec/spec.h"

namespace stretto::trainer {

// Of any job spec: it is normalized and validated here. Under auto_merge_wgrads
// schedule.merge_wgrads is 1, until memory has chosen. InvalidArgument, naming the field.
absl::StatusOr<EngineSpec> EngineSpecFrom(const v1alpha1::JobSpec& spec);

// The dimensions of a normalized model.
ModelSpec ModelFrom(const v1alpha1::ModelSpec& model);
v1alpha1::ModelSpec MessageOf(const ModelSpec& model);

// A job that asks for this, over data of any name.
v1alpha1::JobSpec JobSpecOf(const EngineSpec& spec);

// Of an engine's spec that was not made from a job's: the rules of JobSpecOf(spec). InvalidArgument,
// naming the field.
absl::Status Validate(const EngineSpec& spec);

}  // namespace stretto::trainer
