#pragma once
// What a job spec asks of the engine: the job spec's messages end here.

#include "absl/status/statusor.h"
#include "stretto/v1alpha1/job.pb.h"
#include "worker/engine/spec/spec.h"

namespace stretto::trainer {

// Of a spec that the coordinator has normalised and validated. Under auto_merge_wgrads
// schedule.merge_wgrads is 1, until memory has chosen. Errors: InvalidArgument, naming the field.
absl::StatusOr<EngineSpec> EngineSpecFrom(const v1alpha1::JobSpec& spec);

}  // namespace stretto::trainer
