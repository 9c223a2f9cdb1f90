// SPDX-License-Identifier: Apache-2.0
#pragma once
// JobService: validate and convert a request, call the core on the loop, and convert the result.

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "coordinator/core/records.h"
#include "coordinator/service/hub.h"

namespace grpc {
class Service;
}

namespace stretto::service {

// Borrows the hub, which must outlive the server that the service is registered with.
std::unique_ptr<grpc::Service> NewJobService(Hub& hub);

// Returns the job named "jobs/ID". Call it on the loop. Errors: INVALID_ARGUMENT, NOT_FOUND.
absl::StatusOr<coordinator::JobRecord> LookUpJob(Hub& hub, const std::string& name);

}  // namespace stretto::service
