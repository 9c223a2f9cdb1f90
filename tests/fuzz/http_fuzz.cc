// SPDX-License-Identifier: Apache-2.0

// Requests to the HTTP port of a daemon: whatever a client sends, it gets one answer or a closed
// connection. A request that is complete and asks for a page that exists is answered with it.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/match.h"
#include "proto/base/check.h"
#include "proto/monitoring/monitoring_server.h"
#include "tests/fuzz/connection.h"
#include "tests/fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto server = *stretto::monitoring::MonitoringServer::Start(
      "127.0.0.1:0",
      {.metrics = [] { return "up 1\n"; },
       .ready = [] { return absl::OkStatus(); },
       .page = [](const stretto::monitoring::Request& request) -> stretto::monitoring::Answer {
         return {.body = request.path + request.query + request.host};
       }});
  const stretto::FileDescriptor fd = stretto::fuzz::Connect(server->port());
  stretto::fuzz::SendAll(fd, stretto::fuzz::TextOf(data, size));
  shutdown(fd.get(), SHUT_WR);
  const std::string answer = stretto::fuzz::ReadToTheEnd(fd);
  STRETTO_CHECK(answer.empty() || absl::StartsWith(answer, "HTTP/1.1 "));
  return 0;
}
