// SPDX-License-Identifier: Apache-2.0
#pragma once
// The page on a port of its own, with TLS, for users of other machines, who show their
// certificates or their tokens (--page-listen).

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "coordinator/page/page.h"
#include "coordinator/page/secure_connections.h"
#include "coordinator/service/server.h"
#include "proto/monitoring/monitoring_server.h"

namespace stretto::page {

class NetworkPage {
 public:
  // Listens at "HOST:PORT"; port 0 takes a free one. The process must ignore SIGPIPE. Errors: those
  // of CheckPageListen, tls::CheckFiles and SecureConnections::Open; UNAVAILABLE, naming the
  // address, if it cannot bind.
  static absl::StatusOr<std::unique_ptr<NetworkPage>> Start(const std::string& page_listen,
                                                            const service::ServerOptions& options);

  // As Page::Show.
  void Show(std::shared_ptr<service::Reader> reader) { page_.Show(std::move(reader)); }
  int port() const { return server_->port(); }

 private:
  NetworkPage() : page_(absl::OkStatus(), "", Reach::kNetwork) {}

  Page page_;
  std::unique_ptr<SecureConnections> connections_;
  std::unique_ptr<monitoring::MonitoringServer> server_;  // ends first
};

}  // namespace stretto::page
