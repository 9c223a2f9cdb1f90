// SPDX-License-Identifier: Apache-2.0

// Requests to the HTTP port of a daemon: whatever a client sends, it gets one answer or a closed
// connection. A request that is complete and asks for a page that exists is answered with it. The
// page /N has the code N. A server without pages gets the same requests. An address that is none is
// not listened on.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "proto/base/address.h"
#include "proto/base/check.h"
#include "proto/monitoring/monitoring_server.h"
#include "tests/fuzz/connection.h"
#include "tests/fuzz/fuzz_input.h"

namespace {

using stretto::monitoring::MonitoringServer;

std::unique_ptr<MonitoringServer> Start(bool with_pages) {
  stretto::monitoring::Pages pages = {
      .metrics = [] { return "up 1\n"; },
      .ready = [] { return absl::UnavailableError("not ready"); },
  };
  if (with_pages) {
    pages.page = [](const stretto::monitoring::Request& request) -> stretto::monitoring::Answer {
      int code = 200;
      if (!absl::SimpleAtoi(request.path.substr(1), &code)) code = 200;
      return {.code = code, .body = request.path + request.query + request.host};
    };
  }
  return *MonitoringServer::Start("127.0.0.1:0", std::move(pages));
}

void Ask(int port, absl::string_view request) {
  const stretto::FileDescriptor fd = stretto::fuzz::Connect(port);
  stretto::fuzz::SendAll(fd, request);
  shutdown(fd.get(), SHUT_WR);
  const std::string answer = stretto::fuzz::ReadToTheEnd(fd);
  STRETTO_CHECK(answer.empty() || absl::StartsWith(answer, "HTTP/1.1 "));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto server = Start(true), without_pages = Start(false);
  const std::string text(stretto::fuzz::TextOf(data, size));
  if (!stretto::ParseAddress(text).ok()) STRETTO_CHECK(!MonitoringServer::Start(text, {}).ok());
  const std::string taken = "127.0.0.1:" + std::to_string(server->port());
  STRETTO_CHECK(!MonitoringServer::Start(taken, {}).ok());
  Ask(server->port(), stretto::fuzz::TextOf(data, size));
  Ask(without_pages->port(), stretto::fuzz::TextOf(data, size));
  return 0;
}
