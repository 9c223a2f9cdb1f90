// SPDX-License-Identifier: Apache-2.0
#pragma once
// Whether a job may and can continue from a checkpoint of another job.

#include <vector>

#include "absl/status/status.h"
#include "coordinator/service/authorize.h"
#include "coordinator/service/hub.h"
#include "proto/spec/violations.h"
#include "stretto/v1alpha1/job.pb.h"

namespace stretto::service {

// Whether the spec resumes from a job that has not ended, so that its checkpoint may still come.
bool ResumesFromActiveJob(Hub& hub, const v1alpha1::JobSpec& spec);

// Whether the caller may read the job whose checkpoint a valid, normalised spec resumes from; Ok if
// it resumes from nothing or from a model. A job that the coordinator does not know, because it was
// deleted, is of no project: only who may read every job may read it. Errors: those of Authorize.
absl::Status AuthorizeResume(Hub& hub, const Call& call, const v1alpha1::JobSpec& spec);

// Returns the settings of a valid, normalised spec that differ from those of the job whose
// checkpoint it resumes from; none if it resumes from nothing, or if the coordinator cannot tell
// which job that is: it keeps no such job, the job has saved nothing, or the checkpoint is a model
// or one that is not the job's newest. The trainers then compare.
std::vector<spec::FieldViolation> DifferencesFromResumed(Hub& hub, const v1alpha1::JobSpec& spec);

}  // namespace stretto::service
