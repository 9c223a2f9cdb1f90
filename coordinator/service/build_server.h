// SPDX-License-Identifier: Apache-2.0
#pragma once
// What every gRPC server of the coordinator has in common. Only sources that include grpcpp anyway
// include this.

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "coordinator/front/front.h"
#include "coordinator/service/server.h"

namespace stretto::service {

// A server and the listener in front of it. Close `front` before the server shuts down.
struct FrontedServer {
  std::unique_ptr<grpc::Server> server;
  std::unique_ptr<Front> front;
};

// Listens on options.listen. `add` adds services. Errors: UNAVAILABLE, naming the address, if it
// cannot bind.
absl::StatusOr<FrontedServer> BuildServer(
    const ServerOptions& options, const std::shared_ptr<grpc::ServerCredentials>& credentials,
    const std::function<void(grpc::ServerBuilder&)>& add);

}  // namespace stretto::service
