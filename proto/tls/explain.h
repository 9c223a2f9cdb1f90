// SPDX-License-Identifier: Apache-2.0
#pragma once
// Explains failed handshakes, of which gRPC reports little more than a closed connection.

#include <string>

#include "proto/tls/files.h"

namespace stretto::tls {

// Makes one connection to the coordinator at `address` (HOST:PORT) as a client with `files` would
// (without TLS if they are empty()). Returns what is wrong and what to do, or an empty string if
// nothing is wrong that TLS can tell. May wait for several seconds; call it only after a failure.
std::string ExplainFailure(const std::string& address, const Files& files);

}  // namespace stretto::tls
