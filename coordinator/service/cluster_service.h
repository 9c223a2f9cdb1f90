// SPDX-License-Identifier: Apache-2.0
#pragma once
// ClusterService: the workers of the cluster.

#include <memory>

#include "coordinator/service/hub.h"

namespace grpc {
class Service;
}

namespace stretto::service {

// Borrows the hub, which must outlive the server that the service is registered with.
std::unique_ptr<grpc::Service> NewClusterService(Hub& hub);

}  // namespace stretto::service
