// SPDX-License-Identifier: Apache-2.0
#pragma once
// JobService and ClusterService: convert, validate, call the core on the loop, convert back.

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "coordinator/core/records.h"
#include "coordinator/service/hub.h"

namespace grpc {
class Service;
}

namespace stretto::service {

// Borrow the hub, which outlives the server they are registered with.
std::unique_ptr<grpc::Service> NewJobService(Hub& hub);
std::unique_ptr<grpc::Service> NewClusterService(Hub& hub);

// The job called "jobs/ID". On the loop. INVALID_ARGUMENT, NOT_FOUND.
absl::StatusOr<coordinator::JobRecord> LookUpJob(Hub& hub, const std::string& name);

}  // namespace stretto::service
