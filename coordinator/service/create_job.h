// SPDX-License-Identifier: Apache-2.0
#pragma once
// JobService.CreateJob, on the loop.

#include <string>

#include "absl/status/status.h"
#include "coordinator/service/authorize.h"
#include "coordinator/service/hub.h"
#include "stretto/v1alpha1/job.pb.h"

namespace stretto::service {

// Creates a job of the caller, or with `validate_only` tells what would happen to it. Errors: as
// job.proto lists them.
absl::Status CreateJob(Hub& hub, const v1alpha1::CreateJobRequest& request, const Call& call,
                       v1alpha1::Job* job);

// Returns a spec as it is stored: equal specs have equal bytes.
std::string SpecBytes(const v1alpha1::JobSpec& spec);

}  // namespace stretto::service
