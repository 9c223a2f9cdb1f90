// SPDX-License-Identifier: Apache-2.0
#include "coordinator/service/build_server.h"

#include <grpcpp/health_check_service_interface.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/service/errors.h"
#include "proto/base/limits.h"

namespace stretto::service {
namespace {

// Workers of several coordinators ask with pings whether theirs still answers.
constexpr int kShortestPingIntervalMs = 1000;

int Milliseconds(absl::Duration time) { return static_cast<int>(absl::ToInt64Milliseconds(time)); }

}  // namespace

absl::StatusOr<FrontedServer> BuildServer(
    const ServerOptions& options, const std::shared_ptr<grpc::ServerCredentials>& credentials,
    const std::function<void(grpc::ServerBuilder&)>& add) {
  const auto refused = [&](absl::string_view why) {
    return WithReason(absl::UnavailableError(
                          absl::StrCat("--listen: cannot listen on ", options.listen, ": ", why)),
                      "CANNOT_LISTEN", {{"address", options.listen}});
  };
  const Limits& limits = options.limits;
  absl::StatusOr<std::unique_ptr<Front>> front =
      Front::Listen(options.listen, {.connections = limits.most_connections,
                                     .of_one_machine = limits.most_connections_of_machine,
                                     .memory_bytes = limits.max_memory_bytes});
  if (!front.ok()) return refused("is the port in use?");
  grpc::EnableDefaultHealthCheckService(true);  // of every server that is built afterwards
  grpc::ServerBuilder builder;
  using Acceptors = grpc::ServerBuilder::experimental_type;
  const std::shared_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor =
      builder.experimental().AddExternalConnectionAcceptor(
          Acceptors::ExternalConnectionType::FROM_FD, credentials);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, Milliseconds(limits.handshake));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, Milliseconds(limits.idle));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS, Milliseconds(limits.age));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS, Milliseconds(limits.age_grace));
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE,
                             static_cast<int>(limits::kMetadataBytes.value));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS,
                             static_cast<int>(limits::kStreamsPerConnection.value));
  // gRPC would let a peer that sends much have more than 64 KiB on the way (memory_guard.h).
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             kShortestPingIntervalMs);
  builder.SetMaxReceiveMessageSize(static_cast<int>(limits::kMessageBytes.value));
  add(builder);
  FrontedServer fronted{.server = builder.BuildAndStart(), .front = *std::move(front)};
  if (fronted.server == nullptr) return refused("gRPC does not start");
  fronted.front->Open([acceptor](int listener, int connection) {
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters parameters;
    parameters.listener_fd = listener;
    parameters.fd = connection;
    acceptor->HandleNewConnection(&parameters);
  });
  return fronted;
}

}  // namespace stretto::service
