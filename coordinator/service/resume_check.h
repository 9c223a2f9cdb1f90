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

// Whether the caller may resume from the job that a valid, normalised spec names; Ok if it resumes
// from nothing or from a model. In one project he must be able to read that job, and to take its
// checkpoints into another project he must be operator of theirs and name it ("JOB@PROJECT"). A job
// that the coordinator does not know, because it was deleted, is of no project, so the role must be
// for every project; the trainers then compare projects with those of the checkpoints. Errors:
// those of Authorize; INVALID_ARGUMENT (the job is of another project than the spec names).
absl::Status AuthorizeResume(Hub& hub, const Call& call, const v1alpha1::JobSpec& spec);

// Returns the settings of a valid, normalised spec that differ from those of the job whose
// checkpoint it resumes from; none if it resumes from nothing, or if the coordinator cannot tell
// which job that is: it keeps no such job, the job has saved nothing, or the checkpoint is a model
// or one that is not the job's newest. The trainers then compare.
std::vector<spec::FieldViolation> DifferencesFromResumed(Hub& hub, const v1alpha1::JobSpec& spec);

}  // namespace stretto::service
