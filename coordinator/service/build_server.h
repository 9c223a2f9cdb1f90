// SPDX-License-Identifier: Apache-2.0
#pragma once
// What every gRPC server of the coordinator has in common. Only sources that include grpcpp anyway
// include this.

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "coordinator/service/server.h"

namespace stretto::service {

// Listens on options.listen; `port` gets the port. `add` adds services. Errors: UNAVAILABLE, naming
// the address, if it cannot bind.
absl::StatusOr<std::unique_ptr<grpc::Server>> BuildServer(
    const ServerOptions& options, const std::shared_ptr<grpc::ServerCredentials>& credentials,
    int* port, const std::function<void(grpc::ServerBuilder&)>& add);

}  // namespace stretto::service
