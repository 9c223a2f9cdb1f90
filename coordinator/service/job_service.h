// SPDX-License-Identifier: Apache-2.0
#pragma once
// JobService: validate and convert a request, call the core on the loop, and convert the result.
// What is below is called on the loop; Reader calls it, too.

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "coordinator/core/records.h"
#include "coordinator/service/authorize.h"
#include "coordinator/service/hub.h"
#include "stretto/v1alpha1/job.pb.h"

namespace grpc {
class Service;
}

namespace stretto::service {

// Borrows the hub, which must outlive the server that the service is registered with.
std::unique_ptr<grpc::Service> NewJobService(Hub& hub);

Subject SubjectOf(const coordinator::JobRecord& job);

// Returns the job named "jobs/ID", if the caller may do this to it. Errors: INVALID_ARGUMENT,
// NOT_FOUND, those of Authorize.
absl::StatusOr<coordinator::JobRecord> LookUpJob(Hub& hub, const Call& call,
                                                 const std::string& name);

// Errors: FAILED_PRECONDITION (JOB_RETIRED), which says that `what` of the job, "logs", are not
// known any more.
absl::Status CheckNotRetired(const coordinator::JobRecord& job, absl::string_view what);

// The methods of these names, with their errors (job.proto).
absl::Status ListJobs(Hub& hub, const Call& call, const v1alpha1::ListJobsRequest& request,
                      v1alpha1::ListJobsResponse* response);
absl::Status ListJobEvents(Hub& hub, const Call& call,
                           const v1alpha1::ListJobEventsRequest& request,
                           v1alpha1::ListJobEventsResponse* response);

}  // namespace stretto::service
