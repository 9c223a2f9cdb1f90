// SPDX-License-Identifier: Apache-2.0
#pragma once
// Whether a job can continue from a checkpoint of another job that the coordinator knows.

#include <vector>

#include "coordinator/service/hub.h"
#include "proto/spec/violations.h"
#include "stretto/v1alpha1/job.pb.h"

namespace stretto::service {

// Returns the settings of a valid, normalised spec that differ from those of the job whose
// checkpoint it resumes from; none if it resumes from nothing, or if the coordinator cannot tell
// which job that is: it keeps no such job, the job has saved nothing, or the checkpoint is a model
// or one that is not the job's newest. The trainers then compare.
std::vector<spec::FieldViolation> DifferencesFromResumed(Hub& hub, const v1alpha1::JobSpec& spec);

}  // namespace stretto::service
