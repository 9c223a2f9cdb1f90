// SPDX-License-Identifier: Apache-2.0
#pragma once
// The gRPC port of a coordinator that does not lead: every call ends at once with UNAVAILABLE and
// reason STANDBY, and its health is NOT_SERVING. The message and the metadata `leader` name the
// leader, where that is known. A client that has several addresses tries the next.

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "coordinator/service/server.h"

namespace stretto::service {

class RefusalServer {
 public:
  // Listens on options.listen, with options.tls. With options.tokens, a caller without a
  // certificate needs a token to be told. Errors: those of CheckListenAddress, tls::CheckFiles and
  // OpenTokens; UNAVAILABLE, naming the address, if it cannot bind.
  static absl::StatusOr<std::unique_ptr<RefusalServer>> Start(const ServerOptions& options);
  ~RefusalServer();  // the port is free afterwards

  int port() const;
  // Thread-safe. `leader` is its address; empty: not known.
  void SetReason(const std::string& reason, const std::string& leader);

 private:
  struct Impl;
  explicit RefusalServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace stretto::service
