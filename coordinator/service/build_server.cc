// SPDX-License-Identifier: Apache-2.0
#include "coordinator/service/build_server.h"

#include <grpcpp/health_check_service_interface.h>

#include "absl/strings/str_cat.h"
#include "coordinator/service/errors.h"
#include "proto/base/limits.h"

namespace stretto::service {
namespace {

// Workers of several coordinators ask with pings whether theirs still answers.
constexpr int kShortestPingIntervalMs = 1000;

}  // namespace

absl::StatusOr<std::unique_ptr<grpc::Server>> BuildServer(
    const ServerOptions& options, const std::shared_ptr<grpc::ServerCredentials>& credentials,
    int* port, const std::function<void(grpc::ServerBuilder&)>& add) {
  grpc::EnableDefaultHealthCheckService(true);  // of every server that is built afterwards
  grpc::ServerBuilder builder;
  builder.AddListeningPort(options.listen, credentials, port);
  // Without this, two coordinators could listen on one port and share its connections.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS,
                             static_cast<int>(limits::kStreamsPerConnection.value));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             kShortestPingIntervalMs);
  builder.SetMaxReceiveMessageSize(static_cast<int>(limits::kMessageBytes.value));
  add(builder);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server != nullptr && *port != 0) return server;
  return WithReason(absl::UnavailableError(absl::StrCat("--listen: cannot listen on ",
                                                        options.listen, ": is the port in use?")),
                    "CANNOT_LISTEN", {{"address", options.listen}});
}

}  // namespace stretto::service
