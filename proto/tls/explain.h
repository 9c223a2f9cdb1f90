// SPDX-License-Identifier: Apache-2.0
#pragma once
// gRPC tells a client of a failed handshake hardly more than that the connection closed.

#include <string>

#include "proto/tls/files.h"

namespace stretto::tls {

// Makes one connection to the coordinator at `address` (HOST:PORT), as a client with `files` would
// (empty(): one without TLS), and says what is wrong with it and what to do; empty when nothing is,
// or nothing that TLS could tell. Waits up to some seconds; call it after a failure only.
std::string ExplainFailure(const std::string& address, const Files& files);

}  // namespace stretto::tls
