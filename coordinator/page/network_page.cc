// SPDX-License-Identifier: Apache-2.0
#include "coordinator/page/network_page.h"

#include <utility>

#include "proto/base/clock.h"
#include "proto/base/status_macros.h"

namespace stretto::page {

absl::StatusOr<std::unique_ptr<NetworkPage>> NetworkPage::Start(
    const std::string& page_listen, const service::ServerOptions& options) {
  RETURN_IF_ERROR(CheckPageListen(options, page_listen));
  RETURN_IF_ERROR(
      tls::CheckFiles(options.tls, tls::Role::kCoordinator, Clock::Real().Now()).status());
  std::unique_ptr<NetworkPage> made(new NetworkPage);
  NetworkPage& page = *made;
  ASSIGN_OR_RETURN(page.connections_, SecureConnections::Open(options.tls));
  ASSIGN_OR_RETURN(
      page.server_,
      monitoring::MonitoringServer::Start(
          page_listen, {.page = [&page](const auto& request) { return page.page_.Get(request); }},
          [&page](FileDescriptor socket) { return page.connections_->Accept(std::move(socket)); },
          "--page-listen"));
  return made;
}

}  // namespace stretto::page
