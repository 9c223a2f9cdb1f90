// SPDX-License-Identifier: Apache-2.0
#pragma once
// Asks a worker what a new job would find there.

#include <functional>

#include "absl/status/status.h"
#include "coordinator/service/authorize.h"
#include "coordinator/service/hub.h"
#include "stretto/v1alpha1/job.pb.h"

namespace stretto::service {

// Asks a worker of the job's placement, or any one if it has none, and adds the condition Inspected
// to the job: TRUE with what the worker found, or UNKNOWN if none could look. `done` is called
// once, on the loop, within limits::kInspectionSeconds. Errors: InvalidArgument (what would make
// the job fail, by field). A checkpoint to resume from is not looked at while the job that writes
// it is active.
void InspectJob(Hub& hub, v1alpha1::Job* job, const std::function<void(const absl::Status&)>& done);

// CreateJob, and InspectJob if the request only validates. `done` is called once, on the loop.
void CreateAndLook(Hub& hub, const v1alpha1::CreateJobRequest& request, const Call& call,
                   v1alpha1::Job* job, const std::function<void(const absl::Status&)>& done);

// The same for a job whose length is given in epochs: a worker counts the steps of one first.
// `request` must live until `done` is called. Errors also: InvalidArgument, no worker could count
// them and the spec has no steps, or it has others.
void CreateJobOfEpochs(Hub& hub, const v1alpha1::CreateJobRequest& request, const Call& call,
                       v1alpha1::Job* job, const std::function<void(const absl::Status&)>& done);

}  // namespace stretto::service
