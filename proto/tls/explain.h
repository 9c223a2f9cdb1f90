// SPDX-License-Identifier: Apache-2.0
#pragma once
// Explains failed handshakes, of which gRPC reports little more than a closed connection.

#include <string>

#include "proto/tls/files.h"

namespace stretto::tls {

// Who serves, in the words of an explanation.
struct Server {
  std::string name = "the coordinator";
  bool is_coordinator = true;  // its certificate must have this role
};

// Makes one connection to the server at `address` (HOST:PORT) as a client with `files` would
// (without TLS if they are empty()). Returns what is wrong and what to do, or an empty string if
// nothing is wrong that TLS can tell. May wait for several seconds; call it only after a failure.
std::string ExplainFailure(const std::string& address, const Files& files,
                           const Server& server = {});

}  // namespace stretto::tls
