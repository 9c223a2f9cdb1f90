// SPDX-License-Identifier: Apache-2.0
#include "proto/monitoring/monitoring_server.h"

#include <civetweb.h>
#include <netdb.h>
#include <sys/socket.h>

#include <chrono>
#include <cstring>
#include <future>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "proto/base/address.h"
#include "proto/base/files.h"
#include "proto/base/limits.h"
#include "proto/base/status_macros.h"

namespace stretto::monitoring {
namespace {

constexpr char kThreads[] = "16";
// Maximum number of concurrent scrapes, so that scrapes that wait, for a disk say, leave threads
// for the probes.
constexpr int kMostScrapes = limits::kScrapes.value;
constexpr char kRequestTimeoutMs[] = "5000";  // for a client that stops sending
constexpr std::chrono::milliseconds kKnockInterval{10};

int Answer(mg_connection* connection, int code, const char* type, const std::string& body) {
  mg_printf(connection,
            "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\nCache-Control: "
            "no-store\r\nConnection: close\r\n\r\n",
            code, mg_get_response_code_text(connection, code), type, body.size());
  const bool head = std::strcmp(mg_get_request_info(connection)->request_method, "HEAD") == 0;
  if (!head) mg_write(connection, body.data(), body.size());
  return code;
}

constexpr char kPlain[] = "text/plain; charset=utf-8";

int AnswerMetrics(mg_connection* connection, void* data) {
  auto& server = *static_cast<ScrapedPages*>(data);
  const absl::Cleanup done = [&server] { --server.scrapes; };
  if (++server.scrapes > kMostScrapes) {
    return Answer(connection, 503, kPlain,
                  absl::StrCat(kMostScrapes, " scrapes are waiting for their answer already\n"));
  }
  return Answer(connection, 200, "text/plain; version=0.0.4; charset=utf-8",
                server.pages.metrics());
}

int AnswerHealth(mg_connection* connection, void*) {
  return Answer(connection, 200, kPlain, "ok\n");
}

int AnswerReady(mg_connection* connection, void* data) {
  const absl::Status ready = static_cast<ScrapedPages*>(data)->pages.ready();
  if (ready.ok()) return Answer(connection, 200, kPlain, "ok\n");
  return Answer(connection, 503, kPlain, absl::StrCat(ready.message(), "\n"));
}

// Connects to our own port and hangs up. The address of all interfaces reaches this machine too.
void Knock(const std::string& host, int port) {
  addrinfo hints = {};
  hints.ai_flags = AI_NUMERICHOST;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), absl::StrCat(port).c_str(), &hints, &found) != 0) return;
  const FileDescriptor socket(
      ::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  (void)::connect(socket.get(), found->ai_addr, found->ai_addrlen);  // the attempt is enough
  ::freeaddrinfo(found);
}

}  // namespace

MonitoringServer::MonitoringServer(std::string host, Pages pages)
    : host_(std::move(host)), pages_{std::move(pages)} {}

absl::StatusOr<std::unique_ptr<MonitoringServer>> MonitoringServer::Start(
    const std::string& address, Pages pages) {
  absl::StatusOr<Address> parsed = ParseAddress(address);
  if (!parsed.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("metrics: ", parsed.status().message()));
  }
  if (parsed->host == "localhost") parsed->host = "127.0.0.1";  // civetweb needs a number
  const bool ipv6 = parsed->host.find(':') != std::string::npos;
  const std::string ports = ipv6 ? absl::StrCat("[", parsed->host, "]:", parsed->port)
                                 : absl::StrCat(parsed->host, ":", parsed->port);
  std::unique_ptr<MonitoringServer> server(new MonitoringServer(parsed->host, std::move(pages)));
  const char* options[] = {"listening_ports",    ports.c_str(),     "num_threads", kThreads,
                           "request_timeout_ms", kRequestTimeoutMs, nullptr};
  const mg_callbacks callbacks = {};
  server->context_ = mg_start(&callbacks, nullptr, options);
  mg_server_port bound = {};
  if (server->context_ == nullptr || mg_get_server_ports(server->context_, 1, &bound) != 1) {
    return absl::UnavailableError(
        absl::StrCat("metrics: cannot listen on ", address, ": in use, or not an address of ours"));
  }
  server->port_ = bound.port;
  void* const data = &server->pages_;
  mg_set_request_handler(server->context_, "/metrics$", AnswerMetrics, data);
  mg_set_request_handler(server->context_, "/healthz$", AnswerHealth, data);
  mg_set_request_handler(server->context_, "/readyz$", AnswerReady, data);
  return server;
}

MonitoringServer::~MonitoringServer() {
  if (context_ == nullptr) return;
  // civetweb checks its stop flag every two seconds or at a new connection, so this makes one.
  const std::future<void> stopped = std::async(std::launch::async, [this] { mg_stop(context_); });
  while (stopped.wait_for(kKnockInterval) != std::future_status::ready) Knock(host_, port_);
}

}  // namespace stretto::monitoring
