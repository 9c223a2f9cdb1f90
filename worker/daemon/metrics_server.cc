#include <netinet/in.h>
#include <sys/socket.h>

#include <chrono>
#include <exception>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "prometheus/collectable.h"
#include "prometheus/exposer.h"
#include "prometheus/metric_family.h"
#include "proto/base/files.h"
#include "worker/daemon/metrics.h"

namespace stretto::daemon {
namespace {

constexpr size_t kServerThreads = 1;
constexpr std::chrono::milliseconds kKnockInterval{10};

// Connects to our own port and hangs up. A listener elsewhere than on 127.0.0.1 may not hear it.
void Knock(int port) {
  const FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address));
}

}  // namespace

// Forwards a scrape to metrics it borrows, so that the header needs no Prometheus type.
class MetricsServer::Exposer {
 public:
  Exposer(const std::string& address, std::shared_ptr<prometheus::Collectable> collectable)
      : collectable_(std::move(collectable)), exposer_(address, kServerThreads) {
    exposer_.RegisterCollectable(collectable_);
  }
  int port() const {
    const std::vector<int> ports = exposer_.GetListeningPorts();
    return ports.empty() ? 0 : ports.front();
  }

 private:
  std::shared_ptr<prometheus::Collectable> collectable_;
  prometheus::Exposer exposer_;
};

MetricsServer::MetricsServer() = default;

MetricsServer::~MetricsServer() {
  if (exposer_ == nullptr) return;
  // civetweb looks at its stop flag every two seconds, or when somebody knocks: we knock.
  const std::future<void> stopped = std::async(std::launch::async, [this] { exposer_.reset(); });
  while (stopped.wait_for(kKnockInterval) != std::future_status::ready) Knock(port_);
}

absl::StatusOr<bool> IsLoopback(const std::string& address) {
  const size_t colon = address.rfind(':');
  int port = -1;
  if (colon == std::string::npos || colon == 0 ||
      !absl::SimpleAtoi(address.substr(colon + 1), &port) || port < 0 || port > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat("address is \"", address, "\", expected HOST:PORT"));
  }
  const std::string host = address.substr(0, colon);
  return host == "localhost" || host == "[::1]" || absl::StartsWith(host, "127.");
}

absl::StatusOr<std::unique_ptr<MetricsServer>> MetricsServer::Start(const std::string& address,
                                                                    Metrics& metrics) {
  const absl::StatusOr<bool> loopback = IsLoopback(address);
  if (!loopback.ok()) return loopback.status();
  // civetweb wants numbers.
  const std::string numeric = absl::StartsWith(address, "localhost:")
                                  ? absl::StrCat("127.0.0.1", address.substr(9))
                                  : address;
  std::unique_ptr<MetricsServer> server(new MetricsServer());
  try {
    server->exposer_ = std::make_unique<Exposer>(numeric, metrics.Collectable());
  } catch (const std::exception&) {
    return absl::UnavailableError(absl::StrCat(
        "metrics address ", address, " cannot be listened on: in use, or not an address of ours"));
  }
  server->port_ = server->exposer_->port();
  return server;
}

}  // namespace stretto::daemon
