// SPDX-License-Identifier: Apache-2.0
#pragma once
// WorkerService: the sessions of the worker daemons and the rendezvous of the ranks.

#include <memory>

#include "coordinator/service/hub.h"

namespace grpc {
class Service;
}

namespace stretto::service {

// Borrows the hub, which must outlive the server that it is registered with.
std::unique_ptr<grpc::Service> NewWorkerService(Hub& hub);

}  // namespace stretto::service
