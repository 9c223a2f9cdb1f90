// SPDX-License-Identifier: Apache-2.0
#pragma once
// Connections of browsers with TLS 1.2 or 1.3 and the coordinator's certificate. A browser is asked
// for one of its user and may have none: then its requests need tokens. One that is shown must be
// valid for clients and lead to the CA, by the rules of the API's port, or the handshake fails.
// Whether it was revoked, and what its user may read, is asked for each request
// (service::Reader::For).

#include <memory>

#include "absl/status/statusor.h"
#include "proto/monitoring/connection.h"
#include "proto/tls/files.h"

namespace stretto::page {

// The process must ignore SIGPIPE, which a browser that goes away would cause.
class SecureConnections {
 public:
  // Reads the CA, the certificate and the key, which tls::CheckFiles must have accepted. Errors:
  // FAILED_PRECONDITION, if OpenSSL cannot use them.
  static absl::StatusOr<std::unique_ptr<SecureConnections>> Open(const tls::Files& files);
  ~SecureConnections();

  // Takes an accepted socket, which does not block; the handshake is part of the first Receive. New
  // connections use files that were replaced, unless these cannot be used. One thread at a time.
  std::unique_ptr<monitoring::Connection> Accept(FileDescriptor socket);

 private:
  struct Impl;
  explicit SecureConnections(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace stretto::page
