// SPDX-License-Identifier: Apache-2.0
#pragma once
// ClusterService: the workers of the cluster.

#include <memory>

#include "absl/status/status.h"
#include "coordinator/service/hub.h"
#include "stretto/v1alpha1/job.pb.h"

namespace grpc {
class Service;
}

namespace stretto::service {

// Borrows the hub, which must outlive the server that the service is registered with.
std::unique_ptr<grpc::Service> NewClusterService(Hub& hub);

// The method of this name, with its errors (job.proto). Call it on the loop, as Reader does.
absl::Status ListWorkers(Hub& hub, const v1alpha1::ListWorkersRequest& request,
                         v1alpha1::ListWorkersResponse* response);

}  // namespace stretto::service
