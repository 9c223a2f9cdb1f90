// SPDX-License-Identifier: Apache-2.0
#include "worker/daemon/coordinator_channels.h"

#include <grpcpp/grpcpp.h>

#include <utility>

#include "proto/base/limits.h"
#include "proto/tls/credentials.h"

namespace stretto::daemon {
namespace {

std::shared_ptr<grpc::Channel> Open(const std::string& address, const tls::Files& files,
                                    bool several) {
  grpc::ChannelArguments arguments;
  // A proxy would take traffic that was checked to be on loopback off this machine.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 1000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  // The timeout also becomes TCP_USER_TIMEOUT, so unacknowledged heartbeats end the connection.
  // Pings find out that the process does not answer. With one coordinator there is nowhere else to
  // go, and they are rarer than a server's default limit.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, several ? 2'000 : 600'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, several ? 3'000 : 20'000);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // By default channels to one address share a connection, so a new one would not connect anew.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetMaxReceiveMessageSize(static_cast<int>(limits::kMessageBytes.value));
  return grpc::CreateCustomChannel(
      address, files.empty() ? grpc::InsecureChannelCredentials() : tls::ChannelCredentials(files),
      arguments);
}

}  // namespace

CoordinatorChannels::CoordinatorChannels(const std::vector<std::string>& addresses,
                                         const tls::Files& files)
    : addresses_(addresses), files_(files) {
  for (const std::string& address : addresses) {
    channels_.push_back(Open(address, files, addresses.size() > 1));
  }
}

CoordinatorChannels::~CoordinatorChannels() = default;

std::shared_ptr<grpc::Channel> CoordinatorChannels::Current() const {
  const MutexLock lock(mu_);
  return channels_[current_];
}

void CoordinatorChannels::Renew() {
  const size_t current = current_;
  std::shared_ptr<grpc::Channel> opened = Open(addresses_[current], files_, addresses_.size() > 1);
  const MutexLock lock(mu_);
  channels_[current] = std::move(opened);
}

void CoordinatorChannels::Next() { current_ = (current_ + 1) % addresses_.size(); }

}  // namespace stretto::daemon
